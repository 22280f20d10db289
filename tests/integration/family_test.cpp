// What every lock with several owners shares with the mutex, on a real server. Each is set up so that one holder keeps
// everybody else out (tests/integration/family.cpp).

#include "integration/child.hpp"
#include "integration/family.hpp"

#include "redis/scripts.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <deque>
#include <vector>

namespace conch::test {
namespace {

class Family : public with_each_kind<Family> {};

INSTANTIATE_TEST_SUITE_P(Each, Family, testing::ValuesIn(kinds_of_locks()), kind_name);

TEST_P(Family, P1OneHolderAtATimeSeenFromOutsideAndP2FencesRise) {
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), steady_config(server()));
    std::string const lock = name("exclusive");
    int ended = 0;
    std::int64_t last = 0;
    auto const worker = [&](client& c) -> asio::awaitable<void> {
      for (int i = 0; i < 25; ++i) {
        hold h = co_await kind().acquire(c, lock);
        EXPECT_EQ(probe.integer({"INCR", "inside " + lock}), 1);
        EXPECT_GT(h.fence(), last);
        last = h.fence();
        co_await pause_for(100us);
        EXPECT_EQ(probe.integer({"DECR", "inside " + lock}), 0);
        bool const was_held = co_await h.async_release();
        EXPECT_TRUE(was_held);
      }
    };
    for (client& c : clients) {
      for (int i = 0; i < 2; ++i) {
        asio::co_spawn(w.ctx, worker(c), [&](std::exception_ptr e) {
          EXPECT_FALSE(e);
          ++ended;
        });
      }
    }
    auto const all = [&] { return ended == 8; };
    co_await until(all, "all workers done");
    EXPECT_TRUE(is_free(probe, lock));
  };
  w.run(body);
}

TEST_P(Family, P5ClientsAreServedInTheOrderOfTheirAsking) {
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), steady_config(server()));
    std::string const lock = name("order");
    hold first = co_await kind().acquire(clients[0], lock);
    std::vector<int> order;
    for (int i = 0; i < 9; ++i) {
      kind().acquire(clients[static_cast<std::size_t>(1 + i % 3)], lock, {}, {}, [&, i](error_code ec, hold) {
        EXPECT_FALSE(ec) << ec.message();
        order.push_back(i);
      });
      auto const there = in_lines(lock, i + 1);
      co_await until(there, "one more in line");
    }
    co_await first.async_release();
    auto const all = [&] { return order.size() == 9; };
    co_await until(all, "all served");
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  };
  w.run(body);
}

TEST_P(Family, ATryFindsItBusyAndStandsInNoLine) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()};
    client two{w.ctx.get_executor(), server().url()};
    std::string const lock = name("tried");
    hold h = co_await kind().try_acquire(one, lock);
    CO_ASSERT(h.valid());
    hold same_process = co_await kind().try_acquire(one, lock);
    EXPECT_FALSE(same_process);
    hold other = co_await kind().try_acquire(two, lock);
    EXPECT_FALSE(other);
    EXPECT_EQ(in_line(probe, lock), 0);
    co_await h.async_release();
    other = co_await kind().try_acquire(two, lock);
    EXPECT_TRUE(other.valid());
  };
  w.run(body);
}

TEST_P(Family, ALivingHoldIsRenewedAndAFixedLeaseEnds) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 700ms)};
    hold renewed = co_await kind().acquire(c, name("renewed"));
    hold fixed = co_await kind().acquire(c, name("fixed"), {.renew = false});
    error_code lost;
    fixed.async_lost([&](error_code ec) { lost = ec; });
    auto const long_past = clock::now() + 1600ms;
    auto const later = [&] { return clock::now() > long_past; };
    co_await until(later, "two leases");
    EXPECT_TRUE(renewed.valid());
    EXPECT_EQ(probe.integer({"EXISTS", lock_key(name("renewed"))}), 1);
    EXPECT_EQ(lost, errc::lost) << lost.message();
    EXPECT_FALSE(fixed.valid());
    EXPECT_TRUE(is_free(probe, name("fixed")));
    bool const was_held = co_await renewed.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

TEST_P(Family, P4ADeadHolderCostsAtMostItsLease) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    child dead{server(), childs("dead"), 600ms};
    dead.wait_for("held");
    auto const began = steady::now();
    dead.kill();
    hold next = co_await kind().acquire(c, name("dead"));
    EXPECT_TRUE(next.valid());
    EXPECT_LT(steady::now() - began, 1000ms);
    co_await next.async_release();
  };
  w.run(body);
}

TEST_P(Family, P4AKilledWaiterCostsNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    std::string const lock = name("killed waiter");
    hold h = co_await kind().acquire(c, lock);
    auto const channels = [&] { return probe.integer({"EVAL", "return #redis.call('PUBSUB', 'CHANNELS', 'conch:*')", "0"}); };
    auto const before = channels();
    child dead{server(), childs("killed waiter"), 30s, 5s};
    auto const first = in_lines(lock, 1);
    co_await until(first, "the child in line");
    hold next;
    kind().acquire(c, lock, {}, {}, [&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const second = in_lines(lock, 2);
    co_await until(second, "both in line");
    dead.kill();
    auto const noticed = [&] { return channels() == before; };
    co_await until(noticed, "the server to notice");
    auto const began = steady::now();
    co_await h.async_release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_LT(steady::now() - began, 500ms);
  };
  w.run(body);
}

TEST_P(Family, P4AFrozenNextInLineCostsAtMostTheClaim) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server());
    settings.claim = 400ms;
    client one{w.ctx.get_executor(), settings};
    client two{w.ctx.get_executor(), settings};
    std::string const lock = name("frozen");
    hold h = co_await kind().acquire(one, lock);
    child frozen{server(), childs("frozen"), 30s, 5s};
    auto const first = in_lines(lock, 1);
    co_await until(first, "the child in line");
    hold next;
    kind().acquire(two, lock, {}, {}, [&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const second = in_lines(lock, 2);
    co_await until(second, "both in line");
    frozen.stop();
    auto const began = steady::now();
    co_await h.async_release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_GE(steady::now() - began, 350ms);
    EXPECT_LT(steady::now() - began, 900ms);
    EXPECT_EQ(one.stats().kicks, 1u);
    frozen.cont();
    co_await next.async_release();
    std::string const held = frozen.wait_for("held");
    EXPECT_GT(std::stoll(held.substr(5)), 0);
  };
  w.run(body);
}

TEST_P(Family, P9ALossIsToldAndAReleaseSaysSo) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 300ms)};
    hold h = co_await kind().acquire(c, name("gone"));
    probe.command({"DEL", lock_key(name("gone"))});
    auto const told = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::lost);
    EXPECT_FALSE(h.valid());
    bool const was_held = co_await h.async_release();
    EXPECT_FALSE(was_held);
  };
  w.run(body);
}

TEST_P(Family, AReconnectKeepsTheHoldAndThePlaceInLine) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), steady_config(server())};
    client two{w.ctx.get_executor(), steady_config(server())};
    client three{w.ctx.get_executor(), steady_config(server())};
    std::string const lock = name("cut");
    hold h = co_await kind().acquire(one, lock);
    std::vector<int> order;
    hold second, third;
    kind().acquire(two, lock, {}, {}, [&](error_code, hold got) {
      order.push_back(2);
      second = std::move(got);
    });
    auto const first_there = in_lines(lock, 1);
    co_await until(first_there, "one in line");
    kind().acquire(three, lock, {}, {}, [&](error_code, hold got) {
      order.push_back(3);
      third = std::move(got);
    });
    auto const both_there = in_lines(lock, 2);
    co_await until(both_there, "two in line");
    probe.command({"CLIENT", "KILL", "TYPE", "pubsub"});
    auto const back = [&] {
      return one.stats().connects == 2 && two.stats().connects == 2 && three.stats().connects == 2;
    };
    co_await until(back, "all connected again");
    EXPECT_TRUE(h.valid());
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const next = [&] { return second.valid(); };
    co_await until(next, "the second");
    co_await second.async_release();
    auto const last = [&] { return third.valid(); };
    co_await until(last, "the third");
    EXPECT_EQ(order, (std::vector<int>{2, 3}));
  };
  w.run(body);
}

TEST_P(Family, ATimeOutLeavesTheLine) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()};
    client two{w.ctx.get_executor(), server().url()};
    std::string const lock = name("too long");
    hold h = co_await kind().acquire(one, lock);
    acquire_options const briefly{.wait = 60ms};
    auto result = co_await kind().acquire(two, lock, briefly, {}, as_tuple);
    EXPECT_EQ(std::get<0>(result), errc::timed_out) << std::get<0>(result).message();
    EXPECT_EQ(in_line(probe, lock), 0);
    EXPECT_EQ(two.stats().timeouts, 1u);
    co_await h.async_release();
    EXPECT_TRUE(is_free(probe, lock));
  };
  w.run(body);
}

TEST_P(Family, P6ACancellationInAnyStateLeavesNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (auto const type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                            asio::cancellation_type::total}) {
      // 0: before anything is written, 1: written, not answered, 2: in line, 3: granted
      for (int state = 0; state < 4; ++state) {
        SCOPED_TRACE("state " + std::to_string(state) + " type " + std::to_string(static_cast<int>(type)));
        std::string const lock = name("cancel " + std::to_string(state) + std::to_string(static_cast<int>(type)));
        client holder{w.ctx.get_executor(), server().url()};
        client c{w.ctx.get_executor(), server().url()};
        if (state > 0) {
          hold connects = co_await kind().acquire(c, "connects " + lock);
          co_await connects.async_release();
        }
        hold first;
        if (state == 2) first = co_await kind().acquire(holder, lock);
        asio::cancellation_signal signal;
        bool done = false;
        error_code code;
        hold got;
        kind().acquire(c, lock, {}, {}, asio::bind_cancellation_slot(signal.slot(), [&](error_code ec, hold h) {
                         done = true;
                         code = ec;
                         got = std::move(h);
                       }));
        if (state == 2) {
          auto const there = in_lines(lock, 1);
          co_await until(there, "in line");
        }
        auto const ended = [&] { return done; };
        if (state == 3) co_await until(ended, "granted");
        signal.emit(type);
        co_await until(ended, "the end");
        bool const delivered = state == 3 || (state == 1 && type == asio::cancellation_type::total);
        if (delivered) {
          EXPECT_TRUE(got.valid()) << code.message();
          co_await got.async_release();
        } else {
          EXPECT_EQ(code, asio::error::operation_aborted) << code.message();
        }
        if (first) co_await first.async_release();
        auto const free = [&] { return is_free(probe, lock); };
        co_await until(free, "nothing left behind");
        auto const settled = [&] { return c.stats().cleanups_pending == 0; };
        co_await until(settled, "no clean-up owed");
        EXPECT_EQ(c.stats().held, 0u);
        EXPECT_EQ(c.stats().waiting, 0u);
      }
    }
  };
  w.run(body);
}

TEST_P(Family, P10OneRoundTripEachWayAndOnePushForEachThatIsWoken) {
  for (redis::script const& s : redis::all_scripts()) probe.command({"SCRIPT", "LOAD", s.source});
  auto const calls = [&](char const* what) {
    auto const all = probe.commandstats();
    auto const found = all.find(what);
    return found == all.end() ? 0 : found->second;
  };
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    for (int i = 0; i < 5; ++i) clients.emplace_back(w.ctx.get_executor(), steady_config(server()));
    for (client& c : clients) {
      hold connects = co_await kind().acquire(c, name("connects"));
      co_await connects.async_release();
    }
    std::string const lock = name("counted");
    probe.command({"CONFIG", "RESETSTAT"});
    hold h = co_await kind().acquire(clients[0], lock);
    EXPECT_EQ(calls("evalsha"), 1);
    co_await h.async_release();
    EXPECT_EQ(calls("evalsha"), 2);
    EXPECT_EQ(calls("publish"), 0);

    h = co_await kind().acquire(clients[0], lock);
    hold current;
    int granted = 0;
    for (std::size_t i = 1; i < clients.size(); ++i) {
      kind().acquire(clients[i], lock, {}, {}, [&](error_code ec, hold got) {
        EXPECT_FALSE(ec) << ec.message();
        ++granted;
        current = std::move(got);
      });
    }
    auto const all_there = in_lines(lock, 4);
    co_await until(all_there, "all in line");
    probe.command({"CONFIG", "RESETSTAT"});
    co_await h.async_release();
    auto const one = [&] { return granted == 1; };
    co_await until(one, "the first of them");
    EXPECT_EQ(calls("evalsha"), 1);
    EXPECT_EQ(calls("publish"), 1);
    co_await current.async_release();
    auto const two = [&] { return granted == 2; };
    co_await until(two, "the second of them");
    EXPECT_EQ(calls("evalsha"), 2);
    EXPECT_EQ(calls("publish"), 2);
  };
  w.run(body);
}

TEST_P(Family, ANameThatIsAMutexIsRefused) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://"}}) {
      client c{w.ctx.get_executor(), url};
      mutex m{c, name("mixed up")};
      hold h = co_await m.async_acquire();
      auto result = co_await kind().acquire(c, m.name(), {}, {}, as_tuple);
      EXPECT_EQ(std::get<0>(result), errc::wrong_type) << std::get<0>(result).message();
      co_await h.async_release();
      h = co_await kind().acquire(c, m.name());
      auto other = co_await m.async_acquire(as_tuple);
      EXPECT_EQ(std::get<0>(other), errc::wrong_type) << std::get<0>(other).message();
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
    }
  };
  w.run(body);
}

TEST_P(Family, AHashThatIsNoLockIsRefusedAndStaysWhatItWas) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    std::string const lock = name("somebody's");
    probe.command({"HSET", lock_key(lock), "what", "else"});
    auto result = co_await kind().acquire(c, lock, {}, {}, as_tuple);
    EXPECT_EQ(std::get<0>(result), errc::wrong_type) << std::get<0>(result).message();
    EXPECT_EQ(probe.integer({"HLEN", lock_key(lock)}), 1);
    EXPECT_EQ(probe.integer({"EXISTS", queue_key(lock)}), 0);
  };
  w.run(body);
}

TEST_P(Family, TheSameInThisProcess) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick("memory://", 900ms)};
    client two{w.ctx.get_executor(), quick("memory://", 900ms)};
    std::string const lock = name("in memory");
    hold h = co_await kind().acquire(one, lock);
    hold busy = co_await kind().try_acquire(two, lock);
    EXPECT_FALSE(busy);
    hold next;
    kind().acquire(two, lock, {}, {}, [&](error_code, hold got) { next = std::move(got); });
    auto const long_past = clock::now() + 2000ms;
    auto const later = [&] { return clock::now() > long_past; };
    co_await until(later, "two leases");
    EXPECT_TRUE(h.valid());
    EXPECT_FALSE(next);
    co_await h.async_release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_GT(next.fence(), 0);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
