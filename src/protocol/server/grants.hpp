// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/permit.hpp"
#include "protocol/server_place.hpp"

#include <conch/error.hpp>

#include <cstdint>

namespace conch::protocol {

using namespace engine;

/// Can a token be made of it?
bool is_usable(std::int64_t fence);
/// Does the lock have that segment, or as many permits where all that are free were asked for? A lock without segments
/// has segment 0. Two objects of one name may have been made with different numbers of segments.
bool is_possible(permit const& p, std::int64_t chosen);
error_code impossible(server_place const& p, std::int64_t chosen);

/// A grant as an answer or a push reports it.
struct grant {
  std::int64_t fence = 0;
  std::int64_t chosen = 0;
  time_point from{};  // the lease counts from here
  duration lease{};
  bool confirmed = false;  // for the full lease, not just for the claim
  bool pushed = false;
};

}  // namespace conch::protocol
