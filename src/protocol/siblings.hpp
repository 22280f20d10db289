// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cohort/grant_id.hpp"
#include "protocol/server/grant_ids.hpp"

#include <conch/clock.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>

namespace conch::engine {
struct admin_request;
}

namespace conch::protocol {

using namespace engine;

struct place;
class server;

/// The servers of a client of which each has some of the locks.
class siblings {
 public:
  /// The server that has the locks of that slot, or of that name.
  virtual server& keeper(unsigned slot) = 0;
  virtual server& keeper(std::string_view name) = 0;
  virtual unsigned slot_of(std::string_view name) const = 0;
  /// A renewal of places of one slot.
  struct put_off {
    std::span<place* const> places;
    bool asking = false;          // it was sent to this server behind an asking_command
    bool can_be_divided = false;  // it named more than one key
  };
  /// That server has put it off with these words. True: it is sent in another way, by server::renew_behind_asking or server::renew_each_alone.
  virtual bool renewed_elsewhere(server& by, put_off const& what, std::string_view words, time_point now) = 0;

 protected:
  ~siblings() = default;
};

/// What the servers of one client share: an id, and a place that is found by it, may go from one to another. A single server has it for itself.
struct of_client {
  explicit of_client(entropy& nonces, siblings* others = nullptr) : ids{nonces}, servers{others} {}

  grant_ids ids;
  std::uint64_t last_serial = 0;                            // of the admin_requests
  std::unordered_map<grant_id, admin_request*> watchers{};  // by id: the requests that wait until a lock is free
  siblings* servers;                                        // none: there is one
};

}  // namespace conch::protocol
