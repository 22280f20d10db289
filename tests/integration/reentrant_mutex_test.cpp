// The reentrant mutex: nested levels, in this process and through the server.

#include "integration/child.hpp"
#include "integration/fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <algorithm>
#include <deque>
#include <vector>

namespace conch::test {
namespace {

class ReentrantMutex : public with_server<ReentrantMutex> {};

TEST_F(ReentrantMutex, NestedLevelsCostNoMessageAndShareOneHold) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://"}}) {
      client c{w.ctx.get_executor(), url};
      reentrant_mutex m{c, "nested"};
      reentrant_mutex same{c, "nested"};
      owner me;
      EXPECT_FALSE(m.held_by(me));
      reentrant_hold first = co_await m.async_acquire(me);
      EXPECT_TRUE(m.held_by(me));
      auto const scripts = c.stats().scripts;
      time_point const deadline = first.deadline();
      reentrant_hold second = co_await same.async_acquire(me);
      reentrant_hold third = co_await m.async_try_acquire(me);
      EXPECT_EQ(c.stats().scripts, scripts);
      EXPECT_EQ(third.depth(), 3u);
      EXPECT_EQ(second.fence(), first.fence());
      EXPECT_GE(first.deadline(), deadline);
      bool was_held = co_await first.async_release();
      EXPECT_TRUE(was_held);
      auto again = co_await first.async_release(as_tuple);
      EXPECT_EQ(std::get<0>(again), errc::not_held);  // and nothing changes
      EXPECT_TRUE(second.valid());
      third = {};
      EXPECT_EQ(c.stats().scripts, scripts);
      was_held = co_await second.async_release();
      EXPECT_TRUE(was_held);
      EXPECT_EQ(c.stats().releases, 1u);
      EXPECT_FALSE(m.held_by(me));
    }
    EXPECT_TRUE(is_free(probe, "nested"));
  };
  w.run(body);
}

TEST_F(ReentrantMutex, LevelsMayEndInAnyOrder) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    reentrant_mutex m{c, "any order"};
    owner me;
    std::vector<std::size_t> order{0, 1, 2, 3};
    std::uint64_t released = 0;
    do {
      // Each order three times: all are released, all dropped, and by turns.
      for (int how = 0; how < 3; ++how) {
        std::vector<reentrant_hold> levels;
        for (std::size_t i = 0; i < order.size(); ++i) {
          reentrant_hold one = co_await m.async_acquire(me);
          levels.push_back(std::move(one));
        }
        std::int64_t const fence = levels[0].fence();
        for (std::size_t ended = 0; ended < order.size(); ++ended) {
          reentrant_hold& level = levels[order[ended]];
          if (how == 0 || (how == 2 && ended % 2 == 0)) {
            bool const was_held = co_await level.async_release();
            EXPECT_TRUE(was_held);
          } else {
            level = reentrant_hold{};
          }
          EXPECT_FALSE(level);
          for (std::size_t left = ended + 1; left < order.size(); ++left) {
            EXPECT_TRUE(levels[order[left]].valid());
            EXPECT_EQ(levels[order[left]].depth(), order.size() - ended - 1);
            EXPECT_EQ(levels[order[left]].fence(), fence);
          }
          EXPECT_EQ(m.held_by(me), ended + 1 < order.size());
        }
        ++released;
        auto const given_back = [&] { return c.stats().releases == released; };
        co_await until(given_back, "one release for all levels");
      }
    } while (std::next_permutation(order.begin(), order.end()));
    auto const free = [&] { return is_free(probe, "any order"); };
    co_await until(free, "the lock is free");
    EXPECT_EQ(c.stats().held, 0u);
  };
  w.run(body);
}

TEST_F(ReentrantMutex, AnotherOwnerWaitsForTheLastLevel) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    reentrant_mutex m{c, "two owners"};
    owner me, you;
    reentrant_hold first = co_await m.async_acquire(me);
    reentrant_hold second = co_await m.async_acquire(me);
    reentrant_hold none = co_await m.async_try_acquire(you);
    EXPECT_FALSE(none);
    reentrant_hold theirs;
    m.async_acquire(you, [&](error_code ec, reentrant_hold h) {
      EXPECT_FALSE(ec) << ec.message();
      theirs = std::move(h);
    });
    auto const there = in_lines("two owners", 1);
    co_await until(there, "the other in line");
    co_await first.async_release();
    reentrant_hold third = co_await m.async_acquire(me);  // past the waiter
    EXPECT_FALSE(theirs);
    co_await second.async_release();
    EXPECT_FALSE(theirs);
    std::int64_t const before = third.fence();
    co_await third.async_release();
    auto const granted = [&] { return theirs.valid(); };
    co_await until(granted, "the other's turn");
    EXPECT_GT(theirs.fence(), before);
  };
  w.run(body);
}

TEST_F(ReentrantMutex, TheSameOwnerInAnotherProcessNestsThroughTheServer) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://"}}) {
      client here{w.ctx.get_executor(), url};
      client there{w.ctx.get_executor(), url};
      reentrant_mutex a{here, "far"};
      reentrant_mutex b{there, "far"};
      owner const one{"order 17"};
      owner const same{"order 17"};
      owner const other{"order 18"};
      EXPECT_EQ(one, same);
      reentrant_hold mine = co_await a.async_acquire(one);
      reentrant_hold waiting;
      a.async_acquire(other, [&](error_code, reentrant_hold h) { waiting = std::move(h); });
      reentrant_hold nested = co_await b.async_acquire(same);  // not behind the waiter
      EXPECT_TRUE(nested.valid());
      EXPECT_GT(nested.fence(), mine.fence());
      co_await mine.async_release();
      EXPECT_FALSE(waiting);
      co_await nested.async_release();
      auto const granted = [&] { return waiting.valid(); };
      co_await until(granted, "the other owner");
      co_await waiting.async_release();
    }
  };
  w.run(body);
}

TEST_F(ReentrantMutex, P9ALossEndsAllLevels) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    reentrant_mutex m{c, "lost"};
    owner me;
    reentrant_hold outer = co_await m.async_acquire(me);
    reentrant_hold inner = co_await m.async_acquire(me);
    probe.command({"DEL", lock_key("lost")});
    auto const told = co_await inner.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::lost);
    EXPECT_FALSE(outer.valid());
    EXPECT_FALSE(m.held_by(me));
    reentrant_hold anew = co_await m.async_acquire(me);  // no level of what was lost
    EXPECT_TRUE(anew.valid());
    EXPECT_EQ(anew.depth(), 1u);
    bool const was_held = co_await inner.async_release();
    EXPECT_FALSE(was_held);
    EXPECT_TRUE(anew.valid());
  };
  w.run(body);
}

TEST_F(ReentrantMutex, ATimeOutAndACancellationLeaveTheLine) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    reentrant_mutex m{c, "impatient"};
    owner me, you;
    reentrant_hold h = co_await m.async_acquire(me);
    acquire_options const briefly{.wait = short_wait};
    auto late = co_await m.async_acquire(you, briefly, as_tuple);
    EXPECT_EQ(std::get<0>(late), errc::timed_out) << std::get<0>(late).message();
    asio::cancellation_signal signal;
    error_code ended;
    m.async_acquire(you,
                    asio::bind_cancellation_slot(signal.slot(), [&](error_code ec, reentrant_hold) { ended = ec; }));
    auto const there = in_lines("impatient", 1);
    co_await until(there, "in line");
    signal.emit(asio::cancellation_type::partial);
    auto const told = [&] { return static_cast<bool>(ended); };
    co_await until(told, "the end");
    EXPECT_EQ(ended, asio::error::operation_aborted);
    EXPECT_EQ(in_line(probe, "impatient"), 0);
  };
  w.run(body);
}

TEST_F(ReentrantMutex, P6AReleaseThatIsNeverAwaitedLeavesItsLevelAllTheSame) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), "memory://"};
    reentrant_mutex m{c, "forgotten"};
    owner me, you;
    reentrant_hold h = co_await m.async_acquire(me);
    { auto const never_started = h.async_release(); }
    EXPECT_FALSE(m.held_by(me));
    acquire_options const patience{.wait = 5s};
    auto next = co_await m.async_acquire(you, patience, as_tuple);
    EXPECT_FALSE(std::get<0>(next)) << std::get<0>(next).message();
  };
  w.run(body);
}

TEST_F(ReentrantMutex, OwnersHaveIdsOfTheirOwn) {
  owner a, b;
  EXPECT_NE(a, b);
  EXPECT_EQ(owner{a}, a);
  auto const empty = [] { owner{std::string{}}; };
  EXPECT_EQ(error_of(empty), errc::invalid_name);
  auto const large = [] { owner{std::string(65, 'x')}; };
  EXPECT_EQ(error_of(large), errc::invalid_name);
}

}  // namespace
}  // namespace conch::test
