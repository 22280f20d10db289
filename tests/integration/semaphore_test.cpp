// The semaphore: several permits, large requests, permits of the dead.

#include "integration/child.hpp"
#include "integration/fixture.hpp"

#include <deque>
#include <vector>

namespace conch::test {
namespace {

class Semaphore : public with_server<Semaphore> {};

TEST_F(Semaphore, NeverMorePermitsAreOutThanThereAre) {
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), steady_config(server()));
    int ended = 0;
    std::int64_t most = 0;
    auto const worker = [&](client& c, std::uint32_t count) -> asio::awaitable<void> {
      semaphore s{c, "counted", 5};
      for (int i = 0; i < 20; ++i) {
        hold h = co_await s.async_acquire(count);
        std::int64_t const out = probe.integer({"INCRBY", "out", std::to_string(count)});
        EXPECT_LE(out, 5);
        most = std::max(most, out);
        co_await pause_for(200us);
        probe.integer({"DECRBY", "out", std::to_string(count)});
        co_await h.async_release();
      }
    };
    for (client& c : clients) {
      for (std::uint32_t count : {1u, 2u, 3u}) {
        asio::co_spawn(w.ctx, worker(c, count), [&](std::exception_ptr e) {
          EXPECT_FALSE(e);
          ++ended;
        });
      }
    }
    auto const all = [&] { return ended == 12; };
    co_await until(all, "all workers done");
    EXPECT_GE(most, 4);  // and not one at a time
    EXPECT_TRUE(is_free(probe, "counted"));
  };
  w.run(body);
}

TEST_F(Semaphore, PermitsAreAddedAndTakenAway) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://changed permits"}}) {
      client a{w.ctx.get_executor(), quick(url)};
      client b{w.ctx.get_executor(), quick(url)};
      semaphore s{a, "changed", 2};
      semaphore t{b, "changed", 5};
      hold h = co_await s.async_acquire(2);
      hold waiting;
      t.async_acquire(1, [&](error_code, hold got) { waiting = std::move(got); });
      std::uint32_t limit = co_await t.async_add_permits(1);
      EXPECT_EQ(limit, 3u) << "of what it is, not of what this object says";
      auto const granted = [&] { return waiting.valid(); };
      co_await until(granted, "the added permit is granted");
      limit = co_await s.async_add_permits(-2);
      EXPECT_EQ(limit, 1u);
      EXPECT_TRUE(h.valid() && waiting.valid());
      limit = co_await s.async_add_permits(-5);
      EXPECT_EQ(limit, 1u) << "never less";
      limit = co_await s.async_set_permits_if_unset(9);
      EXPECT_EQ(limit, 1u) << "it was set";
      lock_status const now = co_await s.async_inspect();
      EXPECT_EQ(now.limit, 1u);
      EXPECT_EQ(now.available(), 0u);

      semaphore fresh{a, "never used", 4};
      limit = co_await fresh.async_set_permits_if_unset(6);
      EXPECT_EQ(limit, 6u);
      semaphore other{a, "not used either", 4};
      limit = co_await other.async_add_permits(3);
      EXPECT_EQ(limit, 7u) << "of what this object says";
      auto const none = co_await other.async_add_permits(0, as_tuple);
      EXPECT_EQ(std::get<0>(none), errc::invalid_config);
      auto const too_many = co_await other.async_set_permits_if_unset(2'000'000, as_tuple);
      EXPECT_EQ(std::get<0>(too_many), errc::invalid_config);
    }
  };
  w.run(body);
}

TEST_F(Semaphore, AllThatIsFreeIsTakenAtOnce) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://drained permits"}}) {
      SCOPED_TRACE(url);
      client a{w.ctx.get_executor(), quick(url)};
      client b{w.ctx.get_executor(), quick(url)};
      semaphore s{a, "drained", 5}, t{b, "drained", 5};
      hold all = co_await s.async_drain();
      EXPECT_EQ(all.permits(), 5u);
      EXPECT_EQ(all.segment(), 0u);
      EXPECT_GT(all.fence(), 0);
      hold nothing = co_await t.async_drain();
      EXPECT_FALSE(nothing) << "none is free";
      EXPECT_EQ(nothing.permits(), 0u);
      lock_status now = co_await t.async_inspect();
      EXPECT_EQ(now.taken, 5u);
      CO_ASSERT(now.holders.size() == 1);
      EXPECT_EQ(now.holders[0].permits, 5u);

      co_await s.async_release(all, 3);
      EXPECT_EQ(all.permits(), 2u);
      hold rest = co_await t.async_drain();
      EXPECT_EQ(rest.permits(), 3u);
      auto const too_much = co_await t.async_release(rest, 3, as_tuple);
      EXPECT_EQ(std::get<0>(too_much), errc::invalid_config) << "it has no more than these";

      hold waiting;
      t.async_acquire(1, [&](error_code, hold got) { waiting = std::move(got); });
      for (lock_status seen; seen.waiting != 1;) seen = co_await s.async_inspect();
      nothing = co_await s.async_drain();
      EXPECT_FALSE(nothing);
      std::uint32_t const limit = co_await s.async_add_permits(4);
      EXPECT_EQ(limit, 9u);
      co_await until([&] { return waiting.valid(); }, "an added permit is granted");
      EXPECT_EQ(waiting.permits(), 1u);
      hold added = co_await s.async_drain();
      EXPECT_EQ(added.permits(), 3u) << "of a limit that this object does not know";
      co_await all.async_release();
      co_await rest.async_release();
      co_await added.async_release();
      now = co_await t.async_inspect();
      EXPECT_EQ(now.taken, 1u);
    }
  };
  w.run(body);
}

TEST_F(Semaphore, WhatWasDrainedChangesItsProcessWhole) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), quick(server())};
    client b{w.ctx.get_executor(), quick(server())};
    semaphore s{a, "drained away", 5}, t{b, "drained away", 5};
    hold one = co_await s.async_acquire();
    hold all = co_await t.async_drain();
    EXPECT_EQ(all.permits(), 4u);
    std::string const text = co_await all.async_detach();
    hold adopted = co_await s.async_adopt(text);
    EXPECT_EQ(adopted.permits(), 4u);
    co_await adopted.async_release();
    lock_status const now = co_await s.async_inspect();
    EXPECT_EQ(now.taken, 1u);
  };
  w.run(body);
}

TEST_F(Semaphore, TwoThatDrainShareWhatThereIs) {
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), quick(server()));
    std::uint32_t out = 0, most = 0;
    int ended = 0;
    // A client that finds nothing asks again: how many of the tries succeed depends on the scheduler.
    auto const worker = [&](client& c, bool drains) -> asio::awaitable<void> {
      semaphore s{c, "shared out", 7};
      for (int got = 0; got < 25;) {
        hold h;
        if (drains) {
          h = co_await s.async_drain();
        } else {
          h = co_await s.async_try_acquire(2);
        }
        out += h.permits();
        most = std::max(most, out);
        got += h ? 1 : 0;
        co_await pause_for(200us);
        out -= h.permits();
        if (h) co_await h.async_release();
      }
    };
    for (int i = 0; i < 4; ++i) {
      asio::co_spawn(w.ctx, worker(clients[static_cast<std::size_t>(i)], i % 2 == 0), [&](std::exception_ptr e) {
        EXPECT_FALSE(e);
        ++ended;
      });
    }
    co_await until([&] { return ended == 4; }, "all workers done");
    EXPECT_LE(most, 7u);
    EXPECT_TRUE(is_free(probe, "shared out"));
    semaphore s{clients[0], "shared out", 7};
    hold all = co_await s.async_drain();
    EXPECT_EQ(all.permits(), 7u);
    co_await all.async_release();
  };
  w.run(body);
}

TEST_F(Semaphore, TwoClientsAddAtATime) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), quick(server())};
    client b{w.ctx.get_executor(), quick(server())};
    semaphore s{a, "both add", 1};
    semaphore t{b, "both add", 1};
    int answered = 0;
    for (int i = 0; i < 50; ++i) {
      for (semaphore* one : {&s, &t}) {
        one->async_add_permits(2, [&](error_code ec, std::uint32_t) {
          EXPECT_EQ(ec, error_code{});
          ++answered;
        });
      }
    }
    auto const all = [&] { return answered == 100; };
    co_await until(all, "all added");
    lock_status const now = co_await s.async_inspect();
    EXPECT_EQ(now.limit, 201u);
  };
  w.run(body);
}

TEST_F(Semaphore, P5ALargeRequestIsNotOvertakenBySmallOnes) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), steady_config(server())};
    client b{w.ctx.get_executor(), steady_config(server())};
    semaphore s{a, "large", 4};
    semaphore t{b, "large", 4};
    hold one = co_await s.async_acquire(2);
    hold two = co_await s.async_acquire(2);
    hold large, small;
    t.async_acquire(3, [&](error_code, hold h) { large = std::move(h); });
    auto const first = [&] { return in_line(probe, "large") == 1; };
    co_await until(first, "the large one in line");
    t.async_acquire(1, [&](error_code, hold h) { small = std::move(h); });
    auto const second = [&] { return in_line(probe, "large") == 2; };
    co_await until(second, "the small one behind it");
    co_await one.async_release();  // two free: enough for the small one, which must still wait
    hold tried = co_await s.async_try_acquire();
    EXPECT_FALSE(tried);
    EXPECT_EQ(in_line(probe, "large"), 2);
    EXPECT_FALSE(small);
    co_await two.async_release();
    auto const both = [&] { return large.valid() && small.valid(); };
    co_await until(both, "both at once");
    EXPECT_LT(large.fence(), small.fence());
    co_await large.async_release();
    co_await small.async_release();
    EXPECT_TRUE(is_free(probe, "large"));
  };
  w.run(body);
}

TEST_F(Semaphore, WhoeverLeavesTheHeadOfTheLineLetsTheOthersPass) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), steady_config(server())};
    semaphore s{a, "impatient", 3};
    hold held = co_await s.async_acquire(2);
    acquire_options const briefly{.wait = short_wait};
    error_code large_ended;
    s.async_acquire(3, briefly, [&](error_code ec, hold) { large_ended = ec; });
    auto const first = [&] { return in_line(probe, "impatient") == 1; };
    co_await until(first, "the large one in line");
    hold small = co_await s.async_acquire(1);
    EXPECT_TRUE(small.valid());
    auto const told = [&] { return static_cast<bool>(large_ended); };
    co_await until(told, "the end of the other's wait");
    EXPECT_EQ(large_ended, errc::timed_out) << large_ended.message();
  };
  w.run(body);
}

TEST_F(Semaphore, ThePermitsOfAKilledProcessComeBackAndNoOthers) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), steady_config(server())};
    semaphore s{a, "crashed", 2};
    hold mine = co_await s.async_acquire();
    child dead{server(), "@semaphore/crashed", 2s};  // asks for one permit; the limit is that of the first client
    dead.wait_for("held");
    hold none = co_await s.async_try_acquire();
    EXPECT_FALSE(none);
    dead.kill();
    auto const began = steady::now();
    hold back = co_await s.async_acquire();
    EXPECT_TRUE(back.valid());
    EXPECT_LT(steady::now() - began, 10s);  // a lease of 2 s; the waiter's own is 30 s
    EXPECT_TRUE(mine.valid());
    hold third = co_await s.async_try_acquire();
    EXPECT_FALSE(third);
  };
  w.run(body);
}

TEST_F(Semaphore, P4ADeadLargeRequestAtTheHeadDoesNotStopTheLineForLong) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = often_renewed(server(), 1500ms);
    client a{w.ctx.get_executor(), settings};
    semaphore s{a, "dead giant", 3};
    hold held = co_await s.async_acquire(2);
    // Is queued, and its connection is gone: its channel has no subscriber.
    probe.integer({"ZADD", queue_key("dead giant"), "1", "ghost.1 3 -"});
    hold small = co_await s.async_acquire(1);  // while `held` is held, and renewed
    EXPECT_TRUE(small.valid());
    EXPECT_TRUE(held.valid());
    EXPECT_EQ(in_line(probe, "dead giant"), 0);
  };
  w.run(body);
}

TEST_F(Semaphore, ACountThatNobodyCouldEverHaveIsRefusedAtOnceWithMemberAndNumbers) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), server().url()};
    semaphore s{a, "refused", 2};
    for (std::uint32_t const count : {0u, 1'000'001u}) {
      auto result = co_await s.async_acquire(count, as_tuple);
      error_code const ec = std::get<0>(result);
      EXPECT_EQ(ec, errc::invalid_config) << ec.message();
      EXPECT_TRUE(ec.message().starts_with("invalid configuration: count must be 1 to 1000000 permits, got " +
                                           std::to_string(count)))
          << ec.message();
    }
    EXPECT_EQ(a.stats().scripts, 0u);
    auto const none = [&] { semaphore{a, "refused", 0}; };
    EXPECT_EQ(error_of(none), errc::invalid_config);
    auto const many = [&] { semaphore{a, "refused", 1'000'001}; };
    EXPECT_EQ(error_of(many), errc::invalid_config);
  };
  w.run(body);
}

TEST_F(Semaphore, OnePermitCanBeHeldByWithLock) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), server().url()};
    semaphore s{a, "with", 2};
    auto const inside = [&](hold& h) -> asio::awaitable<bool> { co_return h.valid(); };
    bool const valid = co_await with_lock(s, inside);
    EXPECT_TRUE(valid);
    EXPECT_TRUE(is_free(probe, "with"));
  };
  w.run(body);
}

TEST_F(Semaphore, AGreaterLimitLetsThoseInLineComeInAtOnce) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://"}}) {
      SCOPED_TRACE(url);
      client a{w.ctx.get_executor(), url};
      client b{w.ctx.get_executor(), url};
      semaphore s{a, "raised", 2};
      semaphore t{b, "raised", 2};
      hold both = co_await s.async_acquire(2);
      std::deque<hold> later;
      for (int i = 0; i < 3; ++i)
        t.async_acquire([&](error_code ec, hold h) {
          EXPECT_FALSE(ec) << ec.message();
          later.push_back(std::move(h));
        });
      lock_status line;
      auto const end = steady::now() + 10s;
      while (line.waiting != 3 && steady::now() < end) line = co_await s.async_inspect();
      std::uint32_t const out = co_await s.async_set_permits(4);
      EXPECT_EQ(out, 4u);
      auto const two = [&] { return later.size() == 2; };
      co_await until(two, "two of those in line");
      line = co_await s.async_inspect();
      EXPECT_EQ(line.limit, 4u);
      EXPECT_EQ(line.taken, 4u);
      EXPECT_EQ(line.waiting, 1u);
      co_await later[0].async_release();
      auto const three = [&] { return later.size() == 3; };
      co_await until(three, "the last");
      later.clear();
      co_await both.async_release();
    }
  };
  w.run(body);
}

TEST_F(Semaphore, ASmallerLimitLetsTheHoldersFinish) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), server().url()};
    client b{w.ctx.get_executor(), server().url()};
    semaphore s{a, "lowered", 4};
    semaphore t{b, "lowered", 4};
    hold one = co_await s.async_acquire(2);
    hold two = co_await s.async_acquire(2);
    std::uint32_t const out = co_await t.async_set_permits(2);
    EXPECT_EQ(out, 4u);
    EXPECT_TRUE(one.valid());
    EXPECT_TRUE(two.valid());
    hold next;
    t.async_acquire(3, [&](error_code ec, hold h) {  // more than there is now: all of it
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(h);
    });
    auto const there = [&] { return in_line(probe, "lowered") == 1; };
    co_await until(there, "in line");
    bool was_held = co_await one.async_release();
    EXPECT_TRUE(was_held);
    lock_status const status = co_await s.async_inspect();
    EXPECT_EQ(status.taken, 2u);
    EXPECT_EQ(status.waiting, 1u);
    EXPECT_FALSE(next);
    was_held = co_await two.async_release();
    EXPECT_TRUE(was_held);
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the next");
    hold none = co_await s.async_try_acquire();
    EXPECT_FALSE(none);
    co_await next.async_release();
  };
  w.run(body);
}

TEST_F(Semaphore, ALimitThatWasSetCountsForAllWhateverTheyWereMadeWith) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = often_renewed(server(), 3s);
    settings.fence_retention = 3s;
    client a{w.ctx.get_executor(), settings};
    client b{w.ctx.get_executor(), settings};
    semaphore old{a, "disagreed", 1};
    semaphore fresh{b, "disagreed", 3};
    hold first = co_await old.async_acquire();  // not set: that of the first client
    hold none = co_await fresh.async_try_acquire();
    EXPECT_FALSE(none);
    co_await first.async_release();
    first = co_await fresh.async_acquire();  // out of use: that of the next client
    hold second = co_await fresh.async_try_acquire();
    EXPECT_TRUE(second.valid());
    co_await first.async_release();
    co_await second.async_release();

    std::uint32_t const out = co_await fresh.async_set_permits(2);
    EXPECT_EQ(out, 0u);
    for (int i = 0; i < 2; ++i) {  // also after it was out of use for a moment
      first = co_await old.async_acquire();
      second = co_await old.async_try_acquire();
      EXPECT_TRUE(second.valid());
      hold third = co_await fresh.async_try_acquire();
      EXPECT_FALSE(third);
      lock_status const status = co_await old.async_inspect();
      EXPECT_EQ(status.limit, 2u);
      co_await first.async_release();
      co_await second.async_release();
    }
    auto const forgotten = [&] { return is_free(probe, "disagreed"); };
    co_await until(forgotten, "the retention");
    first = co_await old.async_acquire();
    none = co_await old.async_try_acquire();
    EXPECT_FALSE(none);
  };
  w.run(body);
}

TEST_F(Semaphore, ALimitThatWasSetCountsForObjectsThatExist) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://"}}) {
      client a{w.ctx.get_executor(), url};
      semaphore s{a, "grown", 1};
      co_await s.async_set_permits(5);
      hold three = co_await s.async_acquire(3);
      EXPECT_TRUE(three.valid());
      lock_status status = co_await s.async_inspect();
      EXPECT_EQ(status.taken, 3u);
      hold two = co_await s.async_try_acquire(2);
      EXPECT_TRUE(two.valid());
      hold one = co_await s.async_try_acquire();
      EXPECT_FALSE(one);
      co_await three.async_release();
      co_await two.async_release();
      status = co_await s.async_inspect();  // idle, and still what was set
      EXPECT_EQ(status.limit, 5u);
    }
  };
  w.run(body);
}

TEST_F(Semaphore, WhoAsksForMoreThanThereIsIsGivenAllOfItWhenItIsFree) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://"}}) {
      client a{w.ctx.get_executor(), url};
      semaphore s{a, "greedy", 2};
      hold one = co_await s.async_acquire();
      hold greedy = co_await s.async_try_acquire(3);
      EXPECT_FALSE(greedy);
      co_await one.async_release();
      greedy = co_await s.async_acquire(3);
      lock_status const status = co_await s.async_inspect();
      EXPECT_EQ(status.taken, 2u);
      EXPECT_EQ(status.limit, 2u);
      one = co_await s.async_try_acquire();
      EXPECT_FALSE(one);
      co_await greedy.async_release();
    }
  };
  w.run(body);
}

TEST_F(Semaphore, AnIdleLockIsWhatTheObjectWasMadeAs) {
  using kind = lock_status::kind_of_lock;
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://"}}) {
      client c{w.ctx.get_executor(), url};
      struct row {
        kind what;
        std::uint32_t limit;
        lock_status seen;
      };
      std::vector<row> rows;
      semaphore s{c, "idle s", 10};
      striped_mutex g{c, "idle g", 7};
      shared_mutex r{c, "idle r"};
      reentrant_mutex e{c, "idle e"};
      mutex m{c, "idle"};
      lock_status seen = co_await s.async_inspect();
      rows.push_back({kind::semaphore, 10, seen});
      seen = co_await g.async_inspect();
      rows.push_back({kind::striped_mutex, 7, seen});
      seen = co_await r.async_inspect();
      rows.push_back({kind::shared_mutex, 1'000'000, seen});
      seen = co_await e.async_inspect();
      rows.push_back({kind::reentrant_mutex, 1'000'000, seen});
      seen = co_await m.async_inspect();
      rows.push_back({kind::mutex, 1, seen});
      for (row const& each : rows) {
        EXPECT_EQ(each.seen.kind, each.what) << static_cast<char>(each.what);
        EXPECT_EQ(each.seen.limit, each.limit) << static_cast<char>(each.what);
        EXPECT_FALSE(each.seen.locked());
      }
      mutex other{c, "idle s"};
      hold const held = co_await other.async_acquire();
      seen = co_await s.async_inspect();  // what is there counts
      EXPECT_EQ(seen.kind, kind::mutex);
      EXPECT_EQ(seen.limit, 1u);
    }
  };
  w.run(body);
}

TEST_F(Semaphore, ALimitThatMakesNoSenseIsRefused) {
  auto const body = [&]() -> asio::awaitable<void> {
    client a{w.ctx.get_executor(), server().url()};
    semaphore s{a, "refused limit", 2};
    for (std::uint32_t const permits : {0u, 1'000'001u}) {
      auto const answer = co_await s.async_set_permits(permits, as_tuple);
      EXPECT_EQ(std::get<0>(answer), errc::invalid_config) << std::get<0>(answer).message();
      EXPECT_NE(std::get<0>(answer).message().find("got " + std::to_string(permits)), std::string::npos);
    }
    EXPECT_EQ(a.stats().scripts, 0u);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
