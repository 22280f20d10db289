#pragma once

// What tests with a real Cluster share.

#include "integration/fixture.hpp"
#include "servers/redis/topology/slots.hpp"
#include "support/cluster_set.hpp"

#include <cstddef>
#include <cstdio>
#include <deque>
#include <numeric>
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

/// Asks for the lock, and returns when that is first in the queue at the node. `next` must outlive the acquire.
inline asio::awaitable<void> stand_in_line(mutex m, hold& next, redis_probe& at) {
  auto const granted = [&next](error_code ec, hold got) {
    EXPECT_FALSE(ec) << ec.message();
    next = std::move(got);
  };
  m.async_acquire(granted);
  auto const stands = [&] { return in_line(at, m.name()) == 1; };
  co_await until(stands, "the waiter in line");
}

/// Clients that queue for one lock in the order of their numbers, and pass it on when they have it.
struct line_of_clients {
  /// `at`: the node that has the lock, which another client holds.
  asio::awaitable<void> stand(world& w, cluster_set const& all, std::string name, std::size_t count, redis_probe& at) {
    for (std::size_t i = 0; i < count; ++i) {
      client& c = clients.emplace_back(w.ctx.get_executor(), over(all));
      mutex{c, name}.async_acquire([this, i](error_code ec, hold got) {
        EXPECT_FALSE(ec) << ec.message();
        served.push_back(i);
        got = {};
      });
      auto const stands = [&] { return in_line(at, name) == static_cast<std::int64_t>(i) + 1; };
      co_await until(stands, "the next waiter in line", 60s);
    }
  }
  asio::awaitable<void> served_in_order(std::chrono::milliseconds bound = 60s) {
    auto const all_served = [this] { return served.size() == clients.size(); };
    co_await until(all_served, "the last grant", bound);
    std::vector<std::size_t> in_order(clients.size());
    std::iota(in_order.begin(), in_order.end(), 0);
    EXPECT_EQ(served, in_order);
  }

  std::deque<client> clients{};
  std::vector<std::size_t> served{};
};

}  // namespace conch::test
