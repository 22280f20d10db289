// What every kind of lock does over every kind of server.

#include "integration/child.hpp"
#include "integration/each_server.hpp"
#include "integration/family.hpp"

#include <deque>
#include <vector>

namespace conch::test {
namespace {

using server_and_lock = std::tuple<kind_of_server, kind_of_lock>;

class EveryServer : public with_each_server<EveryServer, server_and_lock> {
 protected:
  void SetUp() override {
    with_each_server::SetUp();
    if (kind().name == "striped") NEEDS(segments);
  }
  kind_of_lock const& kind() { return std::get<1>(GetParam()); }
  std::string name(std::string const& what) { return kind().name + " " + what; }
  auto in_lines(std::string const& what, std::int64_t count) {
    return [this, what, count] { return in_line(server(), name(what)) == count; };
  }
  auto is_free_again(std::string const& what) {
    return [this, what] { return is_free(server(), name(what)); };
  }
};

std::string each_name(testing::TestParamInfo<server_and_lock> const& of) {
  return std::get<1>(of.param).name + "_over_" + std::get<0>(of.param).name;
}

INSTANTIATE_TEST_SUITE_P(Of, EveryServer,
                         testing::Combine(testing::ValuesIn(servers_under_test()), testing::ValuesIn(every_kind())),
                         each_name);

TEST_P(EveryServer, P1IsHeldByOneAndP2TokensGrow) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()}, two{w.ctx.get_executor(), server().url()};
    int inside = 0, done = 0;
    std::int64_t last = 0;
    auto const worker = [&](client& c) -> asio::awaitable<void> {
      for (int i = 0; i < 15; ++i) {
        hold h = co_await kind().acquire(c, name("one"));
        EXPECT_EQ(++inside, 1);
        EXPECT_TRUE(h.valid());
        EXPECT_GT(h.fence(), last);
        last = h.fence();
        co_await pause_for(1ms);
        --inside;
        bool const was_held = co_await h.async_release();
        EXPECT_TRUE(was_held);
      }
      ++done;
    };
    for (client* c : {&one, &two, &one, &two}) asio::co_spawn(w.ctx, worker(*c), asio::detached);
    auto const all = [&] { return done == 4; };
    co_await until(all, "all workers", 60s);
    EXPECT_TRUE(is_free(server(), name("one")));
  };
  w.run(body, 90s);
}

TEST_P(EveryServer, ATryOfABusyOneIsNoErrorAndAWaitEndsInTime) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()}, two{w.ctx.get_executor(), server().url()};
    hold h = co_await kind().acquire(one, name("busy"));
    hold busy = co_await kind().try_acquire(two, name("busy"));
    EXPECT_FALSE(busy);
    acquire_options const briefly{.wait = short_wait};
    auto const late = co_await kind().acquire(two, name("busy"), briefly, {}, as_tuple);
    error_code const why = std::get<0>(late);
    EXPECT_EQ(why, errc::timed_out) << why.message();
    auto const left = in_lines("busy", 0);
    co_await until(left, "the line left");
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
    hold now = co_await kind().try_acquire(two, name("busy"));
    EXPECT_TRUE(now.valid());
    co_await now.async_release();
    EXPECT_TRUE(is_free(server(), name("busy")));
  };
  w.run(body, 60s);
}

TEST_P(EveryServer, P5ClientsAreServedInTheOrderInWhichTheyAsked) {
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), server().url());
    hold h = co_await kind().acquire(clients[0], name("order"));
    std::vector<int> order;
    auto const waiter = [&](int i) -> asio::awaitable<void> {
      hold mine = co_await kind().acquire(clients[static_cast<std::size_t>(i)], name("order"));
      order.push_back(i);
      co_await mine.async_release();
    };
    for (int i = 1; i < 4; ++i) {
      asio::co_spawn(w.ctx, waiter(i), asio::detached);
      auto const there = in_lines("order", i);
      co_await until(there, "one more in line");
    }
    co_await h.async_release();
    auto const all = [&] { return order.size() == 3; };
    co_await until(all, "all three", 60s);
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
    auto const freed = is_free_again("order");
    co_await until(freed, "free");
  };
  w.run(body, 90s);
}

TEST_P(EveryServer, ShowsWhoHasItAndWhoWaits) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    config of_one = quick(server(), 30s), of_two = of_one, of_boss = of_one;
    of_one.label = "billing@pod-7";
    of_two.label = "";
    client one{w.ctx.get_executor(), of_one}, two{w.ctx.get_executor(), of_two}, boss{w.ctx.get_executor(), of_boss};
    mutex const seen{boss, name("shown")};
    auto const look = [&]() -> asio::awaitable<lock_status> { return seen.async_inspect(asio::use_awaitable); };
    acquire_options with_note;
    with_note.note = "order 17";
    hold h = co_await kind().acquire(one, name("shown"), with_note, {}, asio::use_awaitable);
    lock_status status = co_await look();
    CO_ASSERT(status.holders.size() == 1);
    EXPECT_EQ(status.holders[0].label, "billing@pod-7");
    EXPECT_EQ(status.holders[0].note, "order 17");
    EXPECT_TRUE(status.waiters.empty());

    with_note.note = "a report, \u00fc";
    hold next;
    kind().start(two, name("shown"), {}, with_note, false, [&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const waits = in_lines("shown", 1);
    co_await until(waits, "in line");
    status = co_await look();
    EXPECT_EQ(status.holders[0].label, "billing@pod-7");
    CO_ASSERT(status.waiters.size() == 1);
    EXPECT_EQ(status.waiters[0].client, two.id());
    EXPECT_EQ(status.waiters[0].label, "");
    EXPECT_EQ(status.waiters[0].note, "a report, \u00fc");
    auto const waited = std::chrono::system_clock::now() - status.waiters[0].since;
    EXPECT_LT(waited > 0s ? waited : -waited, 1h) << "clocks of one machine";

    co_await h.async_release();
    auto const passed = [&] { return next.valid(); };
    co_await until(passed, "the next hold");
    status = co_await look();
    CO_ASSERT(status.holders.size() == 1);
    EXPECT_EQ(status.holders[0].note, "a report, \u00fc") << "it was waiting, and holds now";
    co_await next.async_release();
  };
  w.run(body, 60s);
}

TEST_P(EveryServer, AWaitThatTimesOutSaysWhoHasIt) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    config of_one = quick(server(), 30s), of_two = of_one;
    of_one.label = "billing@pod-7";
    client one{w.ctx.get_executor(), of_one}, two{w.ctx.get_executor(), of_two};
    acquire_options with_note, patient;
    with_note.note = "order 17";
    patient.wait = 1s;
    hold h = co_await kind().acquire(one, name("named"), with_note, {}, asio::use_awaitable);
    std::string const end = "waiting for lock \"" + name("named") + "\" (held by billing@pod-7 (order 17))";
    // A busy server may pause as the wait ends: then it counts as unreachable, or has not named the holder in time.
    error_code why;
    for (int i = 0; i < 10 && !why.message().ends_with(end); ++i) {
      auto const late = co_await kind().acquire(two, name("named"), patient, {}, as_tuple);
      why = std::get<0>(late);
    }
    EXPECT_EQ(why, errc::timed_out);
    EXPECT_TRUE(why.message().ends_with(end)) << why.message();
    co_await h.async_release();
  };
  w.run(body, 60s);
}

TEST_P(EveryServer, FollowsWhoWaitsForWhom) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick(server(), 30s)}, two{w.ctx.get_executor(), quick(server(), 30s)};
    client boss{w.ctx.get_executor(), quick(server(), 30s)};
    mutex const seen{boss, name("a")};
    owner first, second;
    auto const acquire = [&](client& c, std::string what, owner const& task, hold& to) {
      acquire_options as;
      as.task = &task;
      mutex{c, name(what)}.async_acquire(as, [&to](error_code ec, hold h) {
        EXPECT_FALSE(ec) << ec.message();
        to = std::move(h);
      });
    };
    hold a, b, later_a, later_b;
    acquire(one, "a", first, a);
    acquire(two, "b", second, b);
    auto const held = [&] { return a.valid() && b.valid(); };
    co_await until(held, "both holds");
    acquire(one, "b", first, later_b);
    wait_chain chain;
    auto const ends = [&](wait_chain::ending how) -> asio::awaitable<void> {
      auto const limit = steady::now() + 30s;
      do {
        chain = co_await seen.async_why(asio::use_awaitable);
      } while ((chain.how != how || chain.links.size() != 2) && steady::now() < limit);
      EXPECT_EQ(chain.how, how) << chain.text();
    };
    co_await ends(wait_chain::ending::works);
    CO_ASSERT(chain.links.size() == 2);
    EXPECT_EQ(chain.links[0].holder.client, one.id());
    EXPECT_EQ(chain.links[1].lock, name("b"));
    EXPECT_EQ(chain.links[1].holder.client, two.id());
    acquire(two, "a", second, later_a);
    co_await ends(wait_chain::ending::deadlock);
    EXPECT_TRUE(chain.text().ends_with(": deadlock")) << chain.text();
    co_await b.async_release();
    auto const passed = [&] { return later_b.valid(); };
    co_await until(passed, "the first task goes on");
    chain = co_await seen.async_why(asio::use_awaitable);
    EXPECT_FALSE(chain.is_deadlock()) << chain.text();
    co_await a.async_release();
    auto const all = [&] { return later_a.valid(); };
    co_await until(all, "the second, too");
    co_await later_a.async_release();
    co_await later_b.async_release();
  };
  w.run(body, 90s);
}

TEST_P(EveryServer, OfADeadlockTheYoungestWaitFails) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    config detecting = quick(server(), 30s);
    detecting.detect_deadlocks = true;
    client one{w.ctx.get_executor(), detecting}, two{w.ctx.get_executor(), detecting};
    owner first, second;
    acquire_options of_first, of_second;
    of_first.task = &first;
    of_second.task = &second;
    mutex a1{one, name("a")}, b1{one, name("b")}, a2{two, name("a")}, b2{two, name("b")};
    hold a = co_await a1.async_acquire(of_first, asio::use_awaitable);
    hold b = co_await b2.async_acquire(of_second, asio::use_awaitable);
    hold later;
    b1.async_acquire(of_first, [&](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      later = std::move(h);
    });
    auto const waits = in_lines("b", 1);
    co_await until(waits, "the first in line");
    auto [why, none] = co_await a2.async_acquire(of_second, as_tuple);
    EXPECT_EQ(why, errc::would_deadlock);
    EXPECT_NE(why.message().find(": deadlock"), std::string::npos) << why.message();
    EXPECT_FALSE(none);
    EXPECT_FALSE(later) << "only one of them is told";
    co_await b.async_release();
    auto const passed = [&] { return later.valid(); };
    co_await until(passed, "the first goes on");
    co_await later.async_release();
    co_await a.async_release();
  };
  w.run(body, 90s);
}

TEST_P(EveryServer, AnOperatorSeesTheHolderAndTakesTheLockAway) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()}, two{w.ctx.get_executor(), server().url()},
        boss{w.ctx.get_executor(), server().url()};
    hold h = co_await kind().acquire(one, name("forced"));
    error_code lost;
    h.async_lost([&](error_code ec) { lost = ec; });
    hold next;
    kind().start(two, name("forced"), {}, {}, false, [&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const waits = in_lines("forced", 1);
    co_await until(waits, "in line");
    mutex const seen{boss, name("forced")};
    lock_status const status = co_await seen.async_inspect(asio::use_awaitable);
    EXPECT_EQ(status.waiting, 1u);
    CO_ASSERT(status.holders.size() == 1);
    EXPECT_EQ(status.holders[0].client, one.id());
    for (std::int64_t const token : {1, 7, 4095}) {  // of which the server's part is 0
      auto const from = co_await seen.async_force_release(token, asio::use_awaitable);
      EXPECT_EQ(from, 0u) << "nobody has the token " << token;
      auto const told = co_await seen.async_request_release(token, asio::use_awaitable);
      EXPECT_EQ(told, 0u) << "nobody has the token " << token;
    }
    EXPECT_TRUE(h.valid());
    auto const taken = co_await seen.async_force_release(asio::use_awaitable);
    EXPECT_EQ(taken, 1u);
    auto const passed = [&] { return lost && next.valid(); };
    co_await until(passed, "the loss and the next hold");
    EXPECT_EQ(lost, errc::lost) << lost.message();
    EXPECT_FALSE(h.valid());
    EXPECT_GT(next.fence(), h.fence());
    co_await next.async_release();
    auto const freed = is_free_again("forced");
    co_await until(freed, "free");
  };
  w.run(body, 60s);
}

TEST_P(EveryServer, AHolderIsAskedToLetGoAndWhoeverWaitsForItToBeFreeIsTold) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()}, two{w.ctx.get_executor(), server().url()};
    hold h = co_await kind().acquire(one, name("asked"));
    bool asked = false, free = false;
    h.async_requested([&](error_code ec) { asked = !ec; });
    mutex const seen{two, name("asked")};
    seen.async_wait_free([&](error_code ec) { free = !ec; });
    auto const holders = co_await seen.async_request_release(asio::use_awaitable);
    EXPECT_EQ(holders, 1u);
    auto const told = [&] { return asked; };
    co_await until(told, "the request");
    EXPECT_FALSE(free);
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
    auto const is_free_now = [&] { return free; };
    co_await until(is_free_now, "told that it is free");
  };
  w.run(body, 60s);
}

TEST_P(EveryServer, P4AFixedLeaseEndsAndTheNextOneIsServed) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick(server(), 2s)}, two{w.ctx.get_executor(), server().url()};
    hold h = co_await kind().acquire(one, name("fixed"), lock_options{.renew = false});
    auto lost = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(lost), errc::lost);
    hold next = co_await kind().acquire(two, name("fixed"));
    EXPECT_TRUE(next.valid());
    bool const was_held = co_await h.async_release();
    EXPECT_FALSE(was_held);
    EXPECT_TRUE(next.valid());
    co_await next.async_release();
  };
  w.run(body, 60s);
}

TEST_P(EveryServer, P13AfterALossNobodyIsGrantedItWithinTheDelay) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = quick(server(), 2s);
    settings.lock_delay = 1500ms;
    client one{w.ctx.get_executor(), settings}, two{w.ctx.get_executor(), server().url()};
    hold h = co_await kind().acquire(one, name("delayed"), lock_options{.renew = false});
    time_point const deadline = h.deadline();
    auto lost = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(lost), errc::lost);
    bool const was_held = co_await h.async_release();
    EXPECT_FALSE(was_held);
    hold next = co_await kind().acquire(two, name("delayed"));
    EXPECT_GE(conch::clock::now(), deadline + settings.lock_delay);
    co_await next.async_release();
    auto const freed = is_free_again("delayed");
    co_await until(freed, "free");
  };
  w.run(body, 60s);
}

TEST_P(EveryServer, AReleaseFreesItAtOnceWhateverTheDelay) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = quick(server(), 2s);
    settings.lock_delay = 20s;
    client one{w.ctx.get_executor(), settings}, two{w.ctx.get_executor(), server().url()};
    hold h = co_await kind().acquire(one, name("no loss"));
    hold next;
    kind().start(two, name("no loss"), {}, {}, false, [&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const waits = in_lines("no loss", 1);
    co_await until(waits, "in line");
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant", 10s);
    co_await next.async_release();
  };
  w.run(body, 60s);
}

TEST_P(EveryServer, P13TheLockOfAKilledProcessStaysForTheDelay) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    std::string const childs = kind().name == "mutex" ? name("killed") : "@" + kind().name + "/" + name("killed");
    child dead{server().url(), childs, 2s, 0ms, 1500ms};
    dead.wait_for("held");
    client two{w.ctx.get_executor(), steady_config(server())};
    hold next;
    kind().start(two, name("killed"), {}, {}, false, [&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const waits = in_lines("killed", 1);
    co_await until(waits, "in line");
    time_point const held_at_least_until = conch::clock::now();
    dead.kill();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant", 30s);
    EXPECT_GE(conch::clock::now(), held_at_least_until + 1500ms);
    co_await next.async_release();
  };
  w.run(body, 60s);
}

TEST_P(EveryServer, ALivingHoldIsRenewed) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    hold h = co_await kind().acquire(c, name("renewed"));
    auto const first = h.deadline();
    auto const renewed = [&] { return c.stats().renewals >= 4 && h.deadline() > first + 150ms; };
    co_await until(renewed, "renewals");
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body, 60s);
}

TEST_P(EveryServer, EachLaterDeadlineIsTold) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    hold h = co_await kind().acquire(c, name("followed"));
    for (int i = 0; i < 3; ++i) {
      time_point const known = h.deadline();
      co_await h.async_renewed(known, asio::use_awaitable);
      EXPECT_GT(h.deadline(), known);
    }
    co_await h.async_renewed(time_point::min(), asio::use_awaitable);  // has happened already
    error_code end;
    h.async_renewed(time_point::max(), [&](error_code ec) { end = ec; });
    co_await h.async_release();
    auto const ended = [&] { return static_cast<bool>(end); };
    co_await until(ended, "the end");
    EXPECT_EQ(end, asio::error::operation_aborted);
    auto const after = co_await h.async_renewed(time_point::min(), asio::as_tuple(asio::use_awaitable));
    EXPECT_EQ(std::get<0>(after), errc::not_held);
  };
  w.run(body, 60s);
}

class EveryServerOnce : public with_each_server<EveryServerOnce> {};

INSTANTIATE_TEST_SUITE_P(Over, EveryServerOnce, testing::ValuesIn(servers_under_test()), server_name);

/// The owner of a reentrant lock is a task by itself.
TEST_P(EveryServerOnce, ADeadlockOfReentrantOwnersIsSeenAndEndsWithTheYoungestWait) {
  NEEDS(operators);
  auto const body = [&](bool detects) -> asio::awaitable<void> {
    config settings = quick(server(), 30s);
    settings.detect_deadlocks = detects;
    client one{w.ctx.get_executor(), settings}, two{w.ctx.get_executor(), settings};
    owner first, second;
    reentrant_mutex a1{one, "again a"}, b1{one, "again b"}, a2{two, "again a"}, b2{two, "again b"};
    reentrant_hold a = co_await a1.async_acquire(first, asio::use_awaitable);
    reentrant_hold nested = co_await a1.async_acquire(first, asio::use_awaitable);
    reentrant_hold b = co_await b2.async_acquire(second, asio::use_awaitable);
    reentrant_hold later;
    b1.async_acquire(first, [&](error_code ec, reentrant_hold h) {
      EXPECT_FALSE(ec) << ec.message();
      later = std::move(h);
    });
    auto const waits = [&] { return in_line(server(), "again b") == 1; };
    co_await until(waits, "the first in line");
    error_code why;
    bool has_ended = false;
    a2.async_acquire(second, {.wait = 60s}, [&](error_code ec, reentrant_hold) { why = ec, has_ended = true; });
    wait_chain chain;
    auto const limit = steady::now() + 30s;
    while (!detects && !chain.is_deadlock() && steady::now() < limit)
      chain = co_await a1.async_why(asio::use_awaitable);
    EXPECT_EQ(chain.is_deadlock(), !detects) << chain.text();
    if (!detects) co_await b.async_release();
    auto const ended = [&] { return has_ended; };
    if (detects) co_await until(ended, "the youngest wait ended", 60s);
    if (detects) {
      EXPECT_EQ(why, errc::would_deadlock) << why.message();
      EXPECT_FALSE(later);
      co_await b.async_release();
    }
    auto const passed = [&] { return later.valid(); };
    co_await until(passed, "the first goes on");
    co_await later.async_release();
    co_await nested.async_release();
    co_await a.async_release();
    co_await until(ended, "the second, too");
  };
  auto const seen = [&]() -> asio::awaitable<void> { return body(false); };
  auto const broken = [&]() -> asio::awaitable<void> { return body(true); };
  w.run(seen, 90s);
  w.run(broken, 90s);
}

TEST_P(EveryServerOnce, TheLogTellsOfALossAndWhoHasTheLockThen) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    journal log;
    config of_holder = quick(server(), 30s), of_other = of_holder;
    of_holder.label = "billing@pod-7";
    of_other.label = "report@pod-2";
    of_holder.log = log.hook();
    client one{w.ctx.get_executor(), of_holder}, two{w.ctx.get_executor(), of_other};
    EXPECT_TRUE(log.contains("this client is billing@pod-7, client " + one.id())) << *log.text;
    mutex held{one, "named"}, wanted{two, "named"};
    hold h = co_await held.async_acquire(), next;
    wanted.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const waits = [&] { return in_line(server(), "named") == 1; };
    co_await until(waits, "in line");
    co_await wanted.async_force_release(asio::use_awaitable);
    co_await h.async_lost(as_tuple);
    auto const told = [&] {
      return log.contains("(holding lock \"named\" at ") &&
             log.contains("lock \"named\" is now held by report@pod-2\n");
    };
    co_await until(told, "the loss told");
    EXPECT_TRUE(log.contains("the lock was lost: ")) << *log.text;
    co_await next.async_release();
  };
  w.run(body, 60s);
}

TEST_P(EveryServerOnce, AMultiLockHasAllOrNone) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()}, two{w.ctx.get_executor(), server().url()};
    std::vector<std::string> const names{"multi c", "multi a", "multi b"};
    auto const of = [&](client& c) {
      std::vector<mutex> locks;
      for (std::string const& n : names) locks.emplace_back(c, n);
      return multi_lock{std::move(locks)};
    };
    multi_lock mine = of(one), theirs = of(two);
    auto all = co_await mine.async_acquire(asio::use_awaitable);
    EXPECT_TRUE(all.valid());
    for (std::string const& n : names) EXPECT_TRUE(server().is_taken(n)) << n;
    auto busy = co_await theirs.async_try_acquire(asio::use_awaitable);
    EXPECT_FALSE(busy);
    bool const was_held = co_await all.async_release();
    EXPECT_TRUE(was_held);
    mutex middle{one, "multi b"};
    hold h = co_await middle.async_acquire();
    busy = co_await theirs.async_try_acquire(asio::use_awaitable);
    EXPECT_FALSE(busy);
    auto const given_back = [&] { return is_free(server(), "multi a") && is_free(server(), "multi c"); };
    co_await until(given_back, "the others given back");
    co_await h.async_release();
    auto later = co_await theirs.async_acquire(asio::use_awaitable);
    EXPECT_TRUE(later.valid());
    co_await later.async_release();
  };
  w.run(body, 60s);
}

TEST_P(EveryServerOnce, TheLimitOfASemaphoreCanBeChanged) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()}, two{w.ctx.get_executor(), server().url()};
    semaphore s{one, "limit", 2}, same{two, "limit", 2};
    hold a = co_await s.async_acquire(asio::use_awaitable);
    hold b = co_await same.async_acquire(asio::use_awaitable);
    hold none = co_await s.async_try_acquire(asio::use_awaitable);
    EXPECT_FALSE(none);
    hold c;
    same.async_acquire([&](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      c = std::move(h);
    });
    auto const waits = [&] { return in_line(server(), "limit") == 1; };
    co_await until(waits, "in line");
    co_await s.async_set_permits(3, asio::use_awaitable);
    auto const granted = [&] { return c.valid(); };
    co_await until(granted, "the third");
    for (hold* h : {&a, &b, &c}) co_await h->async_release();
  };
  w.run(body, 60s);
}

TEST_P(EveryServerOnce, ReadersShareAndAWriterDoesNot) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()}, two{w.ctx.get_executor(), server().url()};
    shared_mutex a{one, "rw"}, b{two, "rw"};
    hold first = co_await a.readers().async_acquire(asio::use_awaitable);
    hold second = co_await b.readers().async_acquire(asio::use_awaitable);
    hold writer = co_await a.async_try_acquire(asio::use_awaitable);
    EXPECT_FALSE(writer);
    co_await first.async_release();
    co_await second.async_release();
    writer = co_await a.async_acquire(asio::use_awaitable);
    EXPECT_TRUE(writer.valid());
    hold reader = co_await b.readers().async_try_acquire(asio::use_awaitable);
    EXPECT_FALSE(reader);
    co_await writer.async_release();
  };
  w.run(body, 60s);
}

TEST_P(EveryServerOnce, AHoldIsDetachedAndAdopted) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()}, two{w.ctx.get_executor(), server().url()};
    mutex a{one, "adopted"}, b{two, "adopted"};
    hold h = co_await a.async_acquire();
    auto const fence = h.fence();
    std::string const text = co_await h.async_detach(asio::use_awaitable);
    hold mine = co_await b.async_adopt(text, asio::use_awaitable);
    EXPECT_TRUE(mine.valid());
    EXPECT_GT(mine.fence(), fence);
    auto twice = co_await a.async_adopt(text, as_tuple);
    EXPECT_TRUE(std::get<0>(twice)) << "adopted twice";
    co_await mine.async_release();
    EXPECT_TRUE(is_free(server(), "adopted"));
  };
  w.run(body, 60s);
}

TEST_P(EveryServerOnce, ANameOfOneKindIsNotThatOfAnother) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "kinds"};
    semaphore s{c, "kinds", 2};
    hold h = co_await m.async_acquire();
    auto r = co_await s.async_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::wrong_type) << std::get<0>(r).message();
    co_await h.async_release();
  };
  w.run(body, 60s);
}

TEST_P(EveryServerOnce, NamesOfAnyBytesAreDifferentLocks) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    std::vector<std::string> const names{"}",
                                         "%7D",
                                         std::string{"\0", 1},
                                         std::string{"\0\0", 2},
                                         "\xff\xfe",
                                         "'; drop schema conch; --",
                                         std::string(512, 'x')};
    std::vector<hold> all;
    for (std::string const& n : names) {
      mutex m{c, n};
      hold h = co_await m.async_try_acquire();
      EXPECT_TRUE(h.valid()) << n.size();
      all.push_back(std::move(h));
    }
    for (hold& h : all) {
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
    }
  };
  w.run(body, 60s);
}

TEST_P(EveryServerOnce, ClientsWithAnotherPrefixDoNotSeeTheLock) {
  auto const body = [&]() -> asio::awaitable<void> {
    config apart = steady_config(server());
    apart.key_prefix = "other:";
    client one{w.ctx.get_executor(), server().url()}, two{w.ctx.get_executor(), apart};
    mutex a{one, "prefix"}, b{two, "prefix"};
    hold h = co_await a.async_acquire();
    hold also = co_await b.async_try_acquire();
    EXPECT_TRUE(also.valid());
    co_await h.async_release();
    co_await also.async_release();
  };
  w.run(body, 60s);
}

}  // namespace
}  // namespace conch::test
