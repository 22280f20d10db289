// P14, acquire_options::at_least: the minimum interval between grants of a mutex.

#include "integration/child.hpp"
#include "integration/each_server.hpp"

#include <vector>

namespace conch::test {
namespace {

class Interval : public with_each_server<Interval> {};

constexpr acquire_options interval{.at_least = 1500ms};

INSTANTIATE_TEST_SUITE_P(Over, Interval, testing::ValuesIn(servers_under_test()), server_name);

TEST_P(Interval, P14AfterAnEarlyReleaseNobodyIsGrantedItBefore) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick(server())}, two{w.ctx.get_executor(), quick(server())};
    mutex mine{one, "early"}, theirs{two, "early"};
    auto const began = steady::now();
    hold h = co_await mine.async_acquire({.at_least = 4s});
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    EXPECT_LT(steady::now() - began, 3s) << "the release does not wait";
    EXPECT_FALSE(h.valid());
    hold other = co_await theirs.async_try_acquire();
    EXPECT_FALSE(other) << "another client";
    hold again = co_await mine.async_try_acquire();
    EXPECT_FALSE(again) << "the same client";
    hold next = co_await theirs.async_acquire();
    EXPECT_GE(steady::now() - began, 4s);
    co_await next.async_release();
    hold at_once = co_await mine.async_try_acquire();
    EXPECT_TRUE(at_once) << "the next one asked for no interval";
    co_await at_once.async_release();
  };
  w.run(body, 60s);
}

TEST_P(Interval, P14ThoseInLineAreServedWhenItIsOver) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick(server(), 20s)}, two{w.ctx.get_executor(), quick(server())};
    mutex mine{one, "in line"}, theirs{two, "in line"};
    auto const began = steady::now();
    hold h = co_await mine.async_acquire(interval);
    std::vector<hold> got;
    auto const taken = [&](error_code ec, hold held) {
      EXPECT_FALSE(ec) << ec.message();
      EXPECT_GE(steady::now() - began, 1500ms);
      got.push_back(std::move(held));
    };
    theirs.async_acquire(taken);
    auto const waits = [&] { return in_line(server(), "in line") == 1; };
    co_await until(waits, "in line");
    mine.async_acquire(taken);  // in this process, too
    co_await h.async_release();
    auto const first = [&] { return got.size() == 1; };
    co_await until(first, "the first", 10s);
    EXPECT_LT(steady::now() - began, 9s) << "long before the lease of the first holder would have ended";
    co_await got[0].async_release();
    auto const second = [&] { return got.size() == 2; };
    co_await until(second, "the second", 10s);
    co_await got[1].async_release();
  };
  w.run(body, 60s);
}

TEST_P(Interval, P14HoldsThatAreDroppedOrLostOrClosedKeepIt) {
  auto const body = [&]() -> asio::awaitable<void> {
    client two{w.ctx.get_executor(), quick(server())};
    std::vector<std::string> const ways{"dropped", "lost", "closed"};
    for (std::string const& how : ways) {
      mutex theirs{two, how};
      client one{w.ctx.get_executor(), quick(server(), how == "lost" ? 400ms : 1500ms)};
      mutex mine{one, how};
      hold h = co_await mutex{one, "another"}.async_acquire();  // it is connected now
      co_await h.async_release();
      auto const began = steady::now();
      h = co_await mine.async_acquire({.renew = how != "lost", .at_least = 3s});
      if (how == "dropped") h = {};
      if (how == "lost") co_await h.async_lost(as_tuple);
      if (how == "closed") co_await one.async_close(200ms, as_tuple);
      EXPECT_LT(steady::now() - began, 2500ms) << how << ": else this shows nothing";
      h = {};
      hold next = co_await theirs.async_acquire();
      EXPECT_GE(steady::now() - began, 3s) << how;
      co_await next.async_release();
    }
  };
  w.run(body, 60s);
}

TEST_P(Interval, AReleaseAfterItFreesTheLockAtOnce) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick(server())}, two{w.ctx.get_executor(), quick(server())};
    mutex mine{one, "late"}, theirs{two, "late"};
    hold h = co_await mine.async_acquire({.at_least = 200ms});
    co_await pause_for(300ms);
    co_await h.async_release();
    hold next = co_await theirs.async_try_acquire();
    EXPECT_TRUE(next);
    co_await next.async_release();
  };
  w.run(body, 60s);
}

TEST_P(Interval, IsRefusedWhereItCannotBeKept) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server())};
    auto const words = [](auto const& result) { return std::get<0>(result).message(); };
    mutex m{c, "refused"};
    semaphore pool{c, "refused pool", 2};
    multi_lock several{{mutex{c, "refused a"}, mutex{c, "refused b"}}};
    auto const too_long = co_await m.async_acquire({.at_least = 25h}, as_tuple);
    EXPECT_EQ(std::get<0>(too_long), errc::invalid_config) << words(too_long);
    auto const negative = co_await m.async_acquire({.at_least = -1ms}, as_tuple);
    EXPECT_EQ(std::get<0>(negative), errc::invalid_config) << words(negative);
    auto const permit = co_await pool.async_acquire(interval, as_tuple);
    EXPECT_EQ(std::get<0>(permit), errc::not_supported) << words(permit);
    auto const both = co_await several.async_acquire(interval, as_tuple);
    EXPECT_EQ(std::get<0>(both), errc::not_supported) << words(both);
    hold h = co_await m.async_acquire({.at_least = 100ms});
    auto const left = co_await h.async_detach(as_tuple);
    EXPECT_EQ(std::get<0>(left), errc::not_supported) << words(left);
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
  };
  w.run(body, 60s);
}

TEST_P(Interval, P14TheLockOfAKilledProcessStays) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    child dead{server().url(), "killed", 500ms, 0ms, 0ms, 3s};
    auto const began = steady::now();
    dead.wait_for("held");
    client two{w.ctx.get_executor(), steady_config(server())};
    mutex theirs{two, "killed"};
    dead.kill();
    hold next = co_await theirs.async_acquire();
    EXPECT_GE(steady::now() - began, 3s) << "its lease was half a second";
    co_await next.async_release();
  };
  w.run(body, 60s);
}

}  // namespace
}  // namespace conch::test
