// Servers that answer nothing, and servers that may not write.
#include "integration/fixture.hpp"
#include "support/zookeeper_client.hpp"
#include "support/zookeeper_ensemble.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

namespace conch::test {
namespace {

// B9. A client that looks up names or closes as libzookeeper does would stand still for a second and a half.
TEST(ZookeeperTraps, AServerThatStandsStillStopsNoOtherHandler) {
  zookeeper_ensemble server;
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config const c = quick(server.url(), 4s);
    auto holder = std::make_unique<client>(w.ctx.get_executor(), c);
    mutex lock{*holder, "lock"};
    hold h = co_await lock.async_acquire();
    std::chrono::nanoseconds longest{0};
    bool done = false;
    asio::steady_timer timer{w.ctx};
    auto last = steady::now();
    auto const tick = [&](auto const& again) -> void {
      timer.expires_after(1ms);
      timer.async_wait([&](error_code) {
        auto const now = steady::now();
        longest = std::max<std::chrono::nanoseconds>(longest, now - last);
        last = now;
        if (!done) again(again);
      });
    };
    tick(tick);
    server.stop(0);
    client late{w.ctx.get_executor(), c};  // connects to a server that takes the connection, and says nothing
    mutex other{late, "other"};
    error_code why;
    bool answered = false;
    other.async_acquire([&](error_code ec, hold) { why = ec, answered = true; });
    h.async_release(asio::detached);
    co_await pause_for(300ms);
    (void)co_await holder->async_close(1s, as_tuple);
    holder.reset();
    (void)co_await late.async_close(1s, as_tuple);
    auto const over = [&] { return answered; };
    co_await until(over, "the end of the acquire", 60s);
    EXPECT_TRUE(why);
    done = true;
    EXPECT_LT(longest, 1s);
    server.cont(0);
  };
  w.run(body, 100s);
}

// B11. A server that is cut off from the others may go on for clients that want to read only.
TEST(ZookeeperTraps, AServerThatMayNotWriteIsNotUsed) {
  zookeeper_options options;
  options.servers = 3;
  options.java = {"-Dreadonlymode.enabled=true"};
  zookeeper_ensemble ensemble{options};
  std::size_t const alone = ensemble.leader();
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config c = quick(ensemble.url_of(alone), 4s);
    c.offline_timeout = 60s;
    for (std::size_t i = 0; i < 3; ++i) {
      if (i != alone) ensemble.kill(i);
    }
    auto const reads = [&] { return ensemble.role(alone) == "read-only"; };
    co_await until(reads, "a server that may not write", 60s);
    client one{w.ctx.get_executor(), c};
    mutex lock{one, "lock"};
    std::optional<error_code> why;
    hold got;
    lock.async_acquire([&](error_code ec, hold h) { why = ec, got = std::move(h); });
    auto const tried = [&] { return ensemble.log(alone).find("Refusing session request for not-read-only client") != std::string::npos; };
    co_await until(tried, "a refusal by that server", 60s);
    EXPECT_FALSE(why);
    EXPECT_EQ(one.stats().connects, 0u);
    ensemble.start_all();
    auto const granted = [&] { return why.has_value(); };
    co_await until(granted, "the lock from a server that writes", 60s);
    EXPECT_FALSE(*why) << why->message();
    EXPECT_TRUE(got.valid());
    co_await got.async_release();
  };
  w.run(body, 200s);
}

}  // namespace
}  // namespace conch::test
