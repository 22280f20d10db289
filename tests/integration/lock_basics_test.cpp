// One lock on one server: taking, giving back, waiting, fences, order.

#include "integration/each_server.hpp"

#include <deque>
#include <type_traits>
#include <vector>

namespace conch::test {
namespace {

static_assert(std::is_same_v<mutex_options, lock_options>, "the older name of the options stays");

class LockBasics : public with_each_server<LockBasics> {};

INSTANTIATE_TEST_SUITE_P(Over, LockBasics, testing::ValuesIn(servers_under_test()), server_name);

TEST_P(LockBasics, AnAcquiredLockIsThereUntilItIsReleased) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "taken"};
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h);
    EXPECT_TRUE(h.valid());
    EXPECT_GT(h.fence(), 0);
    EXPECT_GT(h.deadline(), clock::now() + 20s);
    EXPECT_TRUE(server().is_taken("taken"));
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    EXPECT_FALSE(h.valid());
    EXPECT_TRUE(is_free(server(), "taken"));
  };
  w.run(body);
}

TEST_P(LockBasics, ATryFindsTheLockBusyAndIsNotAnError) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()};
    client two{w.ctx.get_executor(), server().url()};
    mutex mine{one, "tried"};
    mutex theirs{two, "tried"};
    hold h = co_await mine.async_try_acquire();
    CO_ASSERT(h.valid());
    hold same_process = co_await mine.async_try_acquire();
    EXPECT_FALSE(same_process);
    EXPECT_EQ(same_process.fence(), 0);
    hold other_process = co_await theirs.async_try_acquire();
    EXPECT_FALSE(other_process);
    EXPECT_EQ(in_line(server(), "tried"), 0);
    co_await h.async_release();
    other_process = co_await theirs.async_try_acquire();
    EXPECT_TRUE(other_process.valid());
    EXPECT_EQ(one.stats().tries_busy + two.stats().tries_busy, 2u);
    co_await other_process.async_release();
  };
  w.run(body);
}

TEST_P(LockBasics, AWaitEndsWhenItsTimeIsOver) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()};
    client two{w.ctx.get_executor(), server().url()};
    mutex mine{one, "timed"};
    mutex theirs{two, "timed"};
    hold h = co_await mine.async_acquire();
    auto const began = steady::now();
    auto r = co_await theirs.async_acquire({.wait = short_wait}, as_tuple);
    auto& [ec, got] = r;
    EXPECT_EQ(ec, errc::timed_out) << ec.message();
    EXPECT_FALSE(got);
    EXPECT_GE(steady::now() - began, short_wait);
    EXPECT_EQ(in_line(server(), "timed"), 0);
    auto second = co_await mine.async_acquire({.wait = short_wait}, as_tuple);
    EXPECT_EQ(std::get<0>(second), errc::timed_out);
    EXPECT_EQ(two.stats().timeouts, 1u);
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
  };
  w.run(body);
}

TEST_P(LockBasics, AWaitOfZeroTakesAFreeLockAndNoOther) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()};
    client two{w.ctx.get_executor(), server().url()};
    mutex mine{one, "zero"};
    mutex theirs{two, "zero"};
    {
      hold connects = co_await theirs.async_acquire();
      co_await connects.async_release();
      connects = co_await mine.async_acquire();
      co_await connects.async_release();
    }
    auto r = co_await mine.async_acquire({.wait = 0s}, as_tuple);
    auto& [ec, h] = r;
    EXPECT_FALSE(ec) << ec.message();
    CO_ASSERT(h.valid());
    auto second = co_await theirs.async_acquire({.wait = 0s}, as_tuple);
    EXPECT_EQ(std::get<0>(second), errc::timed_out) << std::get<0>(second).message();
    auto third = co_await mine.async_acquire({.wait = -1s}, as_tuple);
    EXPECT_EQ(std::get<0>(third), errc::timed_out);
    EXPECT_EQ(in_line(server(), "zero"), 0);
    co_await h.async_release();
    EXPECT_TRUE(is_free(server(), "zero"));
  };
  w.run(body);
}

TEST_P(LockBasics, AnEndlessWaitMayBeGivenAsTheLargestDuration) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "largest"};
    hold h = co_await m.async_acquire({.wait = duration::max()});
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
  };
  w.run(body);
}

TEST_P(LockBasics, P2FencesGrowFromHolderToHolder) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()};
    client two{w.ctx.get_executor(), server().url()};
    mutex a{one, "fences"};
    mutex b{two, "fences"};
    std::int64_t last = 0;
    for (int i = 0; i < 50; ++i) {
      hold h = co_await (i % 3 == 0 ? b : a).async_acquire();
      EXPECT_GT(h.fence(), last);
      last = h.fence();
      if (i % 10 == 9 && !server().is_here()) {
        server().forget("fences");  // an operator
      } else {
        co_await h.async_release();
      }
    }
  };
  w.run(body);
}

TEST_P(LockBasics, P2LocalHandOffsHaveFencesOfTheirOwn) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server());
    settings.local_slice = settings.lease;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "local"};
    std::vector<std::int64_t> fences;
    int running = 0;
    auto const one = [&]() -> asio::awaitable<void> {
      hold h = co_await m.async_acquire();
      EXPECT_EQ(++running, 1);
      fences.push_back(h.fence());
      co_await asio::post(asio::use_awaitable);
      --running;
      co_await h.async_release();
    };
    int left = 500;
    for (int i = 0; i < 500; ++i) {
      asio::co_spawn(w.ctx, one(), [&](std::exception_ptr e) {
        EXPECT_FALSE(e);
        --left;
      });
    }
    auto const done = [&] { return left == 0; };
    co_await until(done, "500 holders");
    for (std::size_t i = 1; i < fences.size(); ++i) EXPECT_GT(fences[i], fences[i - 1]);
    EXPECT_GT(c.stats().grants_local, 0u);
    EXPECT_TRUE(is_free(server(), "local"));
  };
  w.run(body);
}

TEST_P(LockBasics, P5TwoClientsAreServedInTheOrderInWhichTheyAsked) {
  auto const body = [&]() -> asio::awaitable<void> {
    client holder{w.ctx.get_executor(), server().url()};
    mutex held{holder, "order"};
    hold h = co_await held.async_acquire();

    std::deque<client> clients;
    std::vector<int> order;
    auto const waiter = [&](int i) -> asio::awaitable<void> {
      mutex m{clients[static_cast<std::size_t>(i)], "order"};
      hold mine = co_await m.async_acquire();
      order.push_back(i);
      co_await mine.async_release();
    };
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back(w.ctx.get_executor(), server().url());
      asio::co_spawn(w.ctx, waiter(i), asio::detached);
      auto const queued = [&] { return in_line(server(), "order") == i + 1; };
      co_await until(queued, "in line");
    }
    co_await h.async_release();
    auto const all = [&] { return order.size() == 8; };
    co_await until(all, "all eight");
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
    auto const freed = [&] { return is_free(server(), "order"); };
    co_await until(freed, "free");
  };
  w.run(body);
}

TEST_P(LockBasics, P5CoroutinesOfOneClientAreServedInTheOrderInWhichTheyAsked) {
  for (duration const slice : {duration{0}, config{}.lease}) {
    auto const body = [&]() -> asio::awaitable<void> {
      config settings = steady_config(server());
      settings.local_slice = slice;
      client c{w.ctx.get_executor(), settings};
      mutex m{c, "local order"};
      hold h = co_await m.async_acquire();
      std::vector<int> order;
      for (int i = 0; i < 300; ++i) {
        m.async_acquire([&order, i](error_code ec, hold) {
          EXPECT_FALSE(ec);
          order.push_back(i);
        });
      }
      co_await h.async_release();
      auto const all = [&] { return order.size() == 300; };
      co_await until(all, "all 300");
      EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
      if (slice == 0s) {
        EXPECT_EQ(c.stats().grants_local, 0u);
      } else {
        EXPECT_GT(c.stats().grants_local, 0u);
      }
    };
    w.run(body);
  }
}

TEST_P(LockBasics, P5ALocalCrowdDoesNotStarveAnotherClient) {
  auto const body = [&]() -> asio::awaitable<void> {
    client crowd{w.ctx.get_executor(), server().url()};
    client single{w.ctx.get_executor(), server().url()};
    mutex m{crowd, "starve"};
    mutex theirs{single, "starve"};
    bool stop = false;
    int served = 0;
    int running = 0;
    auto const member = [&]() -> asio::awaitable<void> {
      ++running;
      while (!stop) {
        hold h = co_await m.async_acquire();
        ++served;
        co_await asio::post(asio::use_awaitable);
        co_await h.async_release();
      }
      --running;
    };
    for (int i = 0; i < 20; ++i) asio::co_spawn(w.ctx, member(), asio::detached);
    auto const busy = [&] { return served > 100; };
    co_await until(busy, "a busy crowd");
    for (int i = 0; i < 5; ++i) {
      auto const began = steady::now();
      hold h = co_await theirs.async_acquire();
      EXPECT_LT(steady::now() - began, 5s);  // the slice is 5 ms, and the crowd never ends
      co_await h.async_release();
    }
    stop = true;
    auto const ended = [&] { return running == 0; };
    co_await until(ended, "the crowd's end");
  };
  w.run(body);
}

TEST_P(LockBasics, TheDestructorOfAHoldGivesTheLockBack) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()};
    client two{w.ctx.get_executor(), server().url()};
    mutex a{one, "destructor"};
    mutex b{two, "destructor"};
    { hold h = co_await a.async_acquire(); }
    hold next = co_await b.async_acquire({.wait = 5s});
    EXPECT_TRUE(next.valid());
    co_await next.async_release();
  };
  w.run(body);
}

TEST_P(LockBasics, AMovedHoldLeavesAnEmptyHand) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "moved"};
    hold h = co_await m.async_acquire();
    auto const fence = h.fence();
    hold other = std::move(h);
    EXPECT_FALSE(h);
    EXPECT_FALSE(h.valid());
    EXPECT_EQ(h.fence(), 0);
    EXPECT_EQ(h.deadline(), time_point::min());
    EXPECT_TRUE(other.valid());
    EXPECT_EQ(other.fence(), fence);
    auto r = co_await h.async_release(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::not_held);
    EXPECT_FALSE(std::get<1>(r));
    auto l = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(l), errc::not_held);

    mutex second{c, "moved too"};
    hold more = co_await second.async_acquire();
    more = std::move(other);  // gives "moved too" back
    EXPECT_EQ(more.fence(), fence);
    auto const freed = [&] { return is_free(server(), "moved too"); };
    co_await until(freed, "the overwritten hold's lock is free");
    EXPECT_FALSE(is_free(server(), "moved"));
    bool const was_held = co_await more.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

TEST_P(LockBasics, ReleasingTwiceSaysNotHeld) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "twice"};
    hold h = co_await m.async_acquire();
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    hold theirs = co_await m.async_acquire();
    auto r = co_await h.async_release(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::not_held);
    EXPECT_EQ(std::get<0>(r), condition::not_mine);
    EXPECT_TRUE(theirs.valid());  // P7: not given back by another client's second release
    EXPECT_FALSE(is_free(server(), "twice"));
    co_await theirs.async_release();
  };
  w.run(body);
}

TEST_P(LockBasics, AReleaseAfterTheLossSaysFalse) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server(), 600ms)};
    client other{w.ctx.get_executor(), server().url()};
    mutex m{c, "after loss", {.renew = false}};
    mutex theirs{other, "after loss"};
    hold h = co_await m.async_acquire();
    auto lost = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(lost), errc::lost);
    EXPECT_FALSE(h.valid());
    EXPECT_TRUE(h);
    hold next = co_await theirs.async_acquire({.wait = 5s});
    auto r = co_await h.async_release(as_tuple);
    EXPECT_FALSE(std::get<0>(r)) << std::get<0>(r).message();
    EXPECT_FALSE(std::get<1>(r));
    EXPECT_TRUE(next.valid());
    EXPECT_FALSE(is_free(server(), "after loss"));
    EXPECT_GT(next.fence(), h.fence());
    co_await next.async_release();
  };
  w.run(body);
}

TEST_P(LockBasics, TheDeadlineOfAGrantThatWasWaitedForIsTheClaimsUntilItsConfirmationIsTold) {
  NEEDS(claims);
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()}, two{w.ctx.get_executor(), server().url()};
    mutex a{one, "confirmed"}, b{two, "confirmed"};
    hold first = co_await a.async_acquire();
    hold h;
    error_code why;
    b.async_acquire([&](error_code ec, hold got) {
      why = ec;
      h = std::move(got);
    });
    auto const waits = [&] { return in_line(server(), "confirmed") == 1; };
    co_await until(waits, "in line");
    co_await first.async_release();
    auto const granted = [&] { return why || h; };
    co_await until(granted, "the grant");
    time_point const claimed = h.deadline();
    EXPECT_LE(claimed, clock::now() + two.settings().claim);
    co_await h.async_renewed(claimed, asio::use_awaitable);
    EXPECT_GT(h.deadline(), claimed + two.settings().lease / 2);
    EXPECT_LT(clock::now(), claimed);
  };
  w.run(body, 60s);
}

TEST_P(LockBasics, TheWatchdogKeepsALockForManyLeases) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server(), 2s)};
    client other{w.ctx.get_executor(), server().url()};
    mutex m{c, "kept"};
    mutex theirs{other, "kept"};
    hold h = co_await m.async_acquire();
    auto const first = h.deadline();
    auto const renewed = [&] { return c.stats().renewals >= 8 && clock::now() > first + 2s; };
    co_await until(renewed, "eight renewals and two leases");
    EXPECT_TRUE(h.valid());
    hold busy = co_await theirs.async_try_acquire();
    EXPECT_FALSE(busy);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    EXPECT_EQ(c.stats().losses, 0u);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
