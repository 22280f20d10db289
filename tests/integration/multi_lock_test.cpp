// Several locks together: all or nothing, without deadlock, whatever the order in which they are named.

#include "integration/child.hpp"
#include "integration/fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace conch::test {
namespace {

class MultiLock : public with_server<MultiLock> {
 protected:
  static multi_lock of(client& c, std::vector<std::string> const& names) {
    std::vector<mutex> locks;
    for (std::string const& name : names) locks.emplace_back(c, name);
    return multi_lock{std::move(locks)};
  }
  /// Connects, and lets the server know what a multi_lock runs.
  static asio::awaitable<void> know_the_scripts(client& c) {
    mutex connects{c, "to connect"};
    hold h = co_await connects.async_acquire();
    co_await h.async_release();
    multi_lock two = of(c, {"to know", "to know too"});
    multi_hold both = co_await two.async_acquire();
    co_await both.async_release();
  }

  static std::vector<std::string> named(char const* a, char const* b, char const* c) { return {a, b, c}; }
};

TEST_F(MultiLock, HoldsAllOfThemAndGivesAllBack) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://"}}) {
      client c{w.ctx.get_executor(), url};
      client other{w.ctx.get_executor(), url};
      multi_lock all = of(c, named("all c", "all a", "all b"));
      multi_hold h = co_await all.async_acquire();
      EXPECT_TRUE(h.valid());
      CO_ASSERT(h.holds().size() == 3);
      EXPECT_GT(h.deadline(), clock::now() + 20s);
      mutex a{other, "all a"};
      hold none = co_await a.async_try_acquire();
      EXPECT_FALSE(none);
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
      EXPECT_FALSE(h);
      hold again = co_await a.async_try_acquire();
      EXPECT_TRUE(again.valid());
    }
    EXPECT_TRUE(is_free(probe, "all b"));
  };
  w.run(body);
}

TEST_F(MultiLock, P10OneRoundTripIfAllAreFree) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    multi_lock all = of(c, named("one trip a", "one trip b", "one trip c"));
    co_await know_the_scripts(c);
    auto const before = c.stats();
    multi_hold h = co_await all.async_acquire();
    EXPECT_EQ(c.stats().scripts - before.scripts, 1u);
    EXPECT_EQ(c.stats().grants_replied - before.grants_replied, 3u);
    co_await h.async_release();
    EXPECT_EQ(c.stats().scripts - before.scripts, 4u);
  };
  w.run(body);
}

TEST_F(MultiLock, KeepsItsNoteAndItsTaskBeyondTheCall) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()}, other{w.ctx.get_executor(), server().url()};
    mutex taken{other, "noted a"};
    hold h = co_await taken.async_acquire();
    std::string note = "order 17, longer than a small string";
    std::string const meant = note;
    multi_hold both;
    {
      auto const task = std::make_unique<owner>();
      acquire_options noted;
      noted.note = note;
      noted.task = task.get();
      of(c, {"noted a", "noted b"}).async_acquire(noted, [&](error_code ec, multi_hold got) {
        EXPECT_FALSE(ec) << ec.message();
        both = std::move(got);
      });
    }
    note.assign(note.size(), 'x');
    lock_status status;
    auto const limit = steady::now() + 30s;
    while (status.waiters.empty() && steady::now() < limit) status = co_await taken.async_inspect(asio::use_awaitable);
    CO_ASSERT(status.waiters.size() == 1);
    EXPECT_EQ(status.waiters[0].note, meant);
    co_await h.async_release();
    auto const granted = [&] { return both.valid(); };
    co_await until(granted, "both granted");
    co_await both.async_release();
  };
  w.run(body, 60s);
}

TEST_F(MultiLock, IsRenewedWhenAllOfItsHoldsAre) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    multi_lock all = of(c, named("renewed a", "renewed b", "renewed c"));
    multi_hold h = co_await all.async_acquire();
    for (int i = 0; i < 3; ++i) {
      time_point const known = h.deadline();
      co_await h.async_renewed(known, asio::use_awaitable);
      EXPECT_GT(h.deadline(), known);
    }
    error_code end;
    h.async_renewed(time_point::max(), [&](error_code ec) { end = ec; });
    co_await h.async_release();
    auto const ended = [&] { return static_cast<bool>(end); };
    co_await until(ended, "the end");
    EXPECT_EQ(end, asio::error::operation_aborted);
  };
  w.run(body, 60s);
}

TEST_F(MultiLock, P9IsEndangeredWhenAnyOfItsHoldsIsAndSoIsEachLevelOfAnOwner) {
  redis_server away;
  auto const body = [&]() -> asio::awaitable<void> {
    client here{w.ctx.get_executor(), often_renewed(server())}, there{w.ctx.get_executor(), often_renewed(away)};
    owner const me;
    reentrant_mutex levels{there, "levels in danger"};
    reentrant_hold outer = co_await levels.async_acquire(me), inner = co_await levels.async_acquire(me);
    multi_lock both{{mutex{here, "safe"}, mutex{there, "in danger"}}};
    multi_hold h = co_await both.async_acquire();
    error_code of_first{asio::error::would_block};
    h.holds()[1].async_endangered([&](error_code ec) { of_first = ec; });
    away.stop();
    auto const warned = co_await h.async_endangered(as_tuple);
    auto const of_outer = co_await outer.async_endangered(as_tuple);
    auto const of_inner = co_await inner.async_endangered(as_tuple);
    away.cont();
    for (auto const& one : {warned, of_outer, of_inner}) EXPECT_FALSE(std::get<0>(one)) << std::get<0>(one).message();
    co_await h.async_renewed(h.deadline());
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
    EXPECT_EQ(of_first, asio::error::operation_aborted) << "the safe one";
    co_await inner.async_release();
    co_await outer.async_release();
  };
  w.run(body, 60s);
}

TEST_F(MultiLock, WhatIsBehindABusyOneIsNotTouched) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    client other{w.ctx.get_executor(), server().url()};
    co_await know_the_scripts(c);
    mutex busy{other, "middle b"};
    hold h = co_await busy.async_acquire();
    multi_lock all = of(c, named("middle a", "middle b", "middle c"));
    multi_hold taken;
    all.async_acquire([&](error_code ec, multi_hold m) {
      EXPECT_FALSE(ec) << ec.message();
      taken = std::move(m);
    });
    auto const there = [&] { return in_line(probe, "middle b") == 1; };
    co_await until(there, "in line");
    EXPECT_EQ(probe.integer({"EXISTS", lock_key("middle a")}), 1);
    // never taken: no fence was given
    EXPECT_EQ(probe.integer({"EXISTS", lock_key("middle c"), fence_key("middle c")}), 0);
    co_await h.async_release();
    auto const all_held = [&] { return static_cast<bool>(taken); };
    co_await until(all_held, "all held");
    EXPECT_TRUE(taken.valid());
    EXPECT_EQ(taken.holds().size(), 3u);
  };
  w.run(body);
}

TEST_F(MultiLock, TellsWhatIsWrongWithOneOfThemAndKeepsNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    co_await know_the_scripts(c);
    probe.command({"RPUSH", lock_key("wrong b"), "a list"});
    multi_lock all = of(c, named("wrong a", "wrong b", "wrong c"));
    auto result = co_await all.async_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(result), errc::wrong_type) << std::get<0>(result).message();
    auto const free = [&] { return is_free(probe, "wrong a") && is_free(probe, "wrong c"); };
    co_await until(free, "nothing kept");
  };
  w.run(body);
}

TEST_F(MultiLock, OfSeveralClientsEachIsTriedByItsOwn) {
  auto const body = [&]() -> asio::awaitable<void> {
    redis_server second;
    client c{w.ctx.get_executor(), server().url()};
    client d{w.ctx.get_executor(), second.url()};
    co_await know_the_scripts(c);
    co_await know_the_scripts(d);
    auto const scripts = [&] { return std::pair{c.stats().scripts, d.stats().scripts}; };
    auto const before = scripts();
    multi_lock all{
        {mutex{c, "here 1"}, mutex{d, "here 2"}, mutex{c, "here 3"}, mutex{d, "here 4"}, mutex{c, "here 5"}}};
    multi_hold h = co_await all.async_acquire();
    EXPECT_EQ(h.holds().size(), 5u);
    EXPECT_EQ(scripts(), (std::pair{before.first + 1, before.second + 1}));
    co_await h.async_release();
    mutex busy{c, "here 3"};
    hold first = co_await busy.async_acquire();
    acquire_options const briefly{.wait = short_wait};
    auto result = co_await all.async_acquire(briefly, as_tuple);
    EXPECT_EQ(std::get<0>(result), errc::timed_out) << std::get<0>(result).message();
    redis_probe there{second};
    auto const free = [&] { return is_free(probe, "here 1") && is_free(there, "here 2") && is_free(there, "here 4"); };
    co_await until(free, "nothing kept");
  };
  w.run(body);
}

TEST_F(MultiLock, ProcessesWithOppositeOrdersExcludeEachOther) {
  std::vector<std::string> const orders{"@multi/pa,pb,pc", "@multi/pc,pb,pa", "@multi/pb,pc,pa"};
  std::deque<child> all;
  for (std::string const& order : orders) all.emplace_back(server(), order, 3000ms);
  std::map<std::size_t, int> turns;
  auto const next = [&]() -> std::size_t {
    auto const end = steady::now() + 15s;
    while (steady::now() < end) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].says("held")) return i;
      }
    }
    throw std::runtime_error{"nobody holds them"};
  };
  // On a busy machine the first may have had forty turns before the others have started.
  auto const begun = steady::now();
  for (int i = 0; i < 40 || (turns.size() != all.size() && steady::now() < begun + 60s); ++i) {
    std::size_t const who = next();
    ++turns[who];
    for (std::size_t other = 0; other < all.size(); ++other) {
      EXPECT_FALSE(other != who && all[other].says("held")) << "held by two";
    }
    all[who].say("use");
    EXPECT_EQ(all[who].wait_for("use"), "use valid");
    all[who].say("release");
    EXPECT_EQ(all[who].wait_for("released"), "released 1");
    all[who].say("acquire");
  }
  EXPECT_EQ(turns.size(), all.size());
}

TEST_F(MultiLock, OppositeOrdersNeverWaitForEachOtherSeenFromOutside) {
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), steady_config(server()));
    int ended = 0;
    auto const worker = [&](client& c, bool turned) -> asio::awaitable<void> {
      auto const names = turned ? named("x", "y", "z") : named("z", "y", "x");
      for (int i = 0; i < 15; ++i) {
        multi_lock all = of(c, names);
        multi_hold h = co_await all.async_acquire();
        EXPECT_EQ(probe.integer({"INCR", "inside xyz"}), 1);
        EXPECT_TRUE(h.valid());
        probe.integer({"DECR", "inside xyz"});
        co_await h.async_release();
      }
    };
    for (int i = 0; i < 8; ++i) {
      asio::co_spawn(w.ctx, worker(clients[static_cast<std::size_t>(i % 4)], i % 2 == 0), [&](std::exception_ptr e) {
        EXPECT_FALSE(e);
        ++ended;
      });
    }
    auto const all = [&] { return ended == 8; };
    co_await until(all, "all workers done");
    EXPECT_TRUE(is_free(probe, "x"));
    EXPECT_TRUE(is_free(probe, "z"));
  };
  w.run(body);
}

TEST_F(MultiLock, OneTimeForAllAndNothingIsKeptAfterIt) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    client other{w.ctx.get_executor(), server().url()};
    mutex busy{other, "late b"};
    hold h = co_await busy.async_acquire();
    multi_lock all = of(c, named("late a", "late b", "late c"));
    acquire_options const briefly{.wait = short_wait};
    auto const began = steady::now();
    auto result = co_await all.async_acquire(briefly, as_tuple);
    EXPECT_EQ(std::get<0>(result), errc::timed_out) << std::get<0>(result).message();
    EXPECT_FALSE(std::get<1>(result));
    EXPECT_LT(steady::now() - began, 10s);  // the lease is 30 s
    auto const free = [&] {
      return is_free(probe, "late a") && is_free(probe, "late c") && in_line(probe, "late b") == 0;
    };
    co_await until(free, "nothing kept");
    EXPECT_TRUE(h.valid());
  };
  w.run(body);
}

TEST_F(MultiLock, OneTimeForAllAlsoWhenNoServerAnswers) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings;
    settings.url = "unix:///nowhere/at/all";  // offline_timeout is 10 s
    client c{w.ctx.get_executor(), settings};
    multi_lock all = of(c, named("a", "b", "c"));
    acquire_options const briefly{.wait = 80ms};
    auto const began = steady::now();
    auto result = co_await all.async_acquire(briefly, as_tuple);
    EXPECT_EQ(std::get<0>(result), errc::unreachable) << std::get<0>(result).message();
    EXPECT_LT(steady::now() - began, 8s);
  };
  w.run(body);
}

TEST_F(MultiLock, ACancellationWhileItWaitsLeavesNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    client other{w.ctx.get_executor(), server().url()};
    mutex busy{other, "stopped b"};
    hold h = co_await busy.async_acquire();
    multi_lock all = of(c, named("stopped a", "stopped b", "stopped c"));
    asio::cancellation_signal signal;
    error_code ended;
    all.async_acquire(asio::bind_cancellation_slot(signal.slot(), [&](error_code ec, multi_hold) { ended = ec; }));
    auto const there = [&] { return in_line(probe, "stopped b") == 1; };
    co_await until(there, "in line");
    EXPECT_EQ(probe.integer({"EXISTS", lock_key("stopped a")}), 1);  // before the busy one
    auto const given_back = [&] { return is_free(probe, "stopped c"); };
    co_await until(given_back, "what is behind the busy one given back");
    signal.emit(asio::cancellation_type::terminal);
    auto const told = [&] { return static_cast<bool>(ended); };
    co_await until(told, "the end");
    EXPECT_EQ(ended, asio::error::operation_aborted) << ended.message();
    auto const free = [&] { return is_free(probe, "stopped a") && in_line(probe, "stopped b") == 0; };
    co_await until(free, "nothing kept");
  };
  w.run(body);
}

TEST_F(MultiLock, ItsDeadlineIsThatOfTheHoldThatEndsFirst) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    EXPECT_EQ(multi_hold{}.deadline(), time_point::min());
    // The shortest lease at each place of the order.
    for (std::size_t shortest = 0; shortest < 3; ++shortest) {
      std::vector<mutex> locks;
      for (std::size_t i = 0; i < 3; ++i) {
        duration const lease = i == shortest ? 12s : 30s + std::chrono::seconds{i};
        locks.emplace_back(c, "deadline " + std::to_string(i), lock_options{.lease = lease, .renew = false});
      }
      multi_lock all{locks};
      multi_hold h = co_await all.async_acquire();
      CO_ASSERT(h.holds().size() == 3);
      EXPECT_EQ(h.deadline(), h.holds()[shortest].deadline());
      for (hold const& one : h.holds()) EXPECT_LE(h.deadline(), one.deadline());
      EXPECT_LE(h.deadline(), clock::now() + 12s);
      EXPECT_TRUE(h.valid());
      co_await h.async_release();
      EXPECT_EQ(h.deadline(), time_point::min());
    }
  };
  w.run(body);
}

TEST_F(MultiLock, P9TheBodyIsCancelledWhenOneOfThemIsLost) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    multi_lock all = of(c, named("lost a", "lost b", "lost c"));
    auto const inside = [&](multi_hold& h) -> asio::awaitable<void> {
      EXPECT_TRUE(h.valid());
      probe.command({"DEL", lock_key("lost b")});
      asio::steady_timer forever{co_await asio::this_coro::executor, 1h};
      co_await forever.async_wait(asio::use_awaitable);
    };
    error_code ended;
    try {
      co_await with_lock(all, inside);
    } catch (boost::system::system_error const& e) {
      ended = e.code();
    }
    EXPECT_EQ(ended, errc::lost) << ended.message();
    auto const free = [&] { return is_free(probe, "lost a") && is_free(probe, "lost c"); };
    co_await until(free, "all given back");
  };
  w.run(body);
}

TEST_F(MultiLock, P9FailsWhereOneOfThemIsLostWhileAnotherIsWaitedFor) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    client other{w.ctx.get_executor(), server().url()};
    mutex busy{other, "waited for b"};
    hold h = co_await busy.async_acquire();
    multi_lock both = of(c, {"lost early a", "waited for b"});
    std::optional<error_code> ended;
    both.async_acquire([&](error_code ec, multi_hold) { ended = ec; });
    auto const waits = [&] { return in_line(probe, "waited for b") == 1; };
    co_await until(waits, "it waits for the second");
    probe.command({"DEL", lock_key("lost early a")});
    auto const lost = [&] { return c.stats().losses == 1; };
    co_await until(lost, "the first is lost");
    co_await h.async_release();
    auto const done = [&] { return ended.has_value(); };
    co_await until(done, "the end of the acquire");
    EXPECT_EQ(*ended, errc::lost) << ended->message();
    auto const free = [&] { return is_free(probe, "waited for b"); };
    co_await until(free, "the second is given back");
  };
  w.run(body);
}

TEST_F(MultiLock, ANameThatIsGivenTwiceCountsOnceAndNoneIsRefused) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    multi_lock twice = of(c, named("twice", "twice", "other"));
    multi_hold h = co_await twice.async_acquire();
    EXPECT_EQ(h.holds().size(), 2u);
    auto const none = [] { multi_lock{std::vector<mutex>{}}; };
    EXPECT_EQ(error_of(none), errc::invalid_config);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
