// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/named_lock.hpp>

#include <string>
#include <vector>

// The state of a lock as its folder's nodes show it to an onlooker. No I/O, no clock.
namespace conch::zookeeper {

/// A lock, without what the names of nodes do not contain: fence and time of each holder.
struct line_status {
  lock_status status;
  std::vector<std::string> holders;  // the nodes of status.holders
  std::vector<std::string> waiters;  // the nodes of status.waiters
};
line_status read_line(std::vector<std::string> const& nodes);

}  // namespace conch::zookeeper
