// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/redis/topology/slot_map.hpp"
#include "servers/redis/url.hpp"

#include <conch/config.hpp>

#include <cstddef>
#include <vector>

// The masters of a Cluster, for questions that no client asks.
namespace conch::redis {

struct cluster_master {
  address where;
  std::size_t slots = 0;
};

/// By a map of the slots, in their order. `asked`: the node that has sent it, whose user, password and TLS apply to
/// all.
std::vector<cluster_master> masters_in(std::vector<named_slots> const& map, address const& asked,
                                       config const& settings);

/// According to the first node of `url` that answers, with a second for each. Blocks. Throws
/// boost::system::system_error with the error of each.
std::vector<cluster_master> ask_for_masters(config const& settings, cluster_url const& url);

}  // namespace conch::redis
