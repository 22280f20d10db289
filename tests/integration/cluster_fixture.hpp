#pragma once

// What tests with a real Cluster share.

#include "integration/fixture.hpp"
#include "redis/topology/slots.hpp"
#include "support/cluster_set.hpp"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace conch::test {

/// Default times, so that a failover does not look like a lost lock.
inline config over(std::string url, journal const* log = nullptr) {
  config c;
  c.url = std::move(url);
  c.single_threaded = true;
  c.offline_timeout = 60s;
  c.reconnect_min = 5ms;
  c.reconnect_max = 100ms;
  if (log != nullptr) c.log = log->hook();
  return c;
}

inline config over(cluster_set const& all, journal const* log = nullptr) { return over(all.url(), log); }

inline double ms(steady::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

/// Asks for the lock, and returns when that stands first in line at the node. `next` must outlive the acquire.
inline asio::awaitable<void> stand_in_line(mutex m, hold& next, redis_probe& at) {
  auto const granted = [&next](error_code ec, hold got) {
    EXPECT_FALSE(ec) << ec.message();
    next = std::move(got);
  };
  m.async_acquire(granted);
  auto const stands = [&] { return in_line(at, m.name()) == 1; };
  co_await until(stands, "the waiter in line");
}

}  // namespace conch::test
