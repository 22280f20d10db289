// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/settings.hpp"

#include <conch/clock.hpp>
#include <conch/named_lock.hpp>

#include <functional>
#include <string>
#include <vector>

// Short measurements with the library's own clients. They use a lock with a name of its own. Throw
// boost::system::system_error.
namespace conch::cli {

/// How long an acquire and a release took together, one after the other, by one client.
std::vector<duration> measure_cycles(connection const& servers, duration time);

/// The time from the release by one client until another one, which was queued, had the lock. As often as `time`
/// allows, and `least` times.
std::vector<duration> measure_hand_overs(connection const& servers, duration time, std::size_t least);

/// What a client that holds a lock calls itself, and what others can read of that.
struct seen_label {
  std::string own, read;
};
/// `url`: one of the servers. `look`: how a lock is looked at there; empty: the client asks.
seen_label read_own_label(connection const& servers, std::string const& url,
                          std::function<lock_status(std::string const&)> const& look);

/// The value below which this share (0 to 1) lies. `all` must not be empty.
duration quantile(std::vector<duration> all, double share);

}  // namespace conch::cli
