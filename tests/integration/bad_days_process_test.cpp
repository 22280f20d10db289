// What can happen to the processes that take part: killed, frozen, torn down in the middle.

#include "integration/child.hpp"

#include <boost/asio/executor_work_guard.hpp>

#include <atomic>
#include <deque>
#include <thread>
#include <vector>

namespace conch::test {
namespace {

class BadDaysOfAProcess : public with_server<BadDaysOfAProcess> {};

TEST_F(BadDaysOfAProcess, P4AKilledHolderCostsAtMostItsLease) {
  child dead{server(), "killed", 900ms};
  dead.wait_for("held");
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    mutex m{c, "killed"};
    error_code failure;
    hold next;
    m.async_acquire([&](error_code ec, hold got) {
      failure = ec;
      next = std::move(got);
    });
    auto const queued = [&] { return in_line(probe, "killed") == 1; };
    co_await until(queued, "in line");
    dead.kill();
    auto const began = steady::now();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_FALSE(failure);
    EXPECT_LT(steady::now() - began, 10s);  // a lease of 0.9 s; the waiter's own is 30 s
    co_await next.async_release();
  };
  w.run(body);
}

TEST_F(BadDaysOfAProcess, P4AKilledWaiterCostsNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server());
    settings.claim = 25s;
    client one{w.ctx.get_executor(), settings};
    mutex a{one, "killed waiter"};
    hold h = co_await a.async_acquire();
    client two{w.ctx.get_executor(), settings};
    mutex b{two, "killed waiter"};
    hold connects = co_await b.async_try_acquire();
    auto const subscribed = [&] {
      return probe.integer({"EVAL", "return #redis.call('PUBSUB', 'CHANNELS', 'conch:*')", "0"});
    };
    auto const before = subscribed();
    child dead{server(), "killed waiter", 30s, 25s};
    auto const first = [&] { return in_line(probe, "killed waiter") == 1; };
    co_await until(first, "the child in line");
    hold next;
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const second = [&] { return in_line(probe, "killed waiter") == 2; };
    co_await until(second, "both in line");
    dead.kill();
    auto const noticed = [&] { return subscribed() == before; };
    co_await until(noticed, "the server to notice");
    auto const began = steady::now();
    co_await h.async_release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_LT(steady::now() - began, 10s);  // a claim is 25 s
    co_await next.async_release();
  };
  w.run(body);
}

TEST_F(BadDaysOfAProcess, P4AFrozenNextInLineCostsAtMostTheClaim) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server());
    settings.claim = 1500ms;
    client one{w.ctx.get_executor(), settings};
    client two{w.ctx.get_executor(), settings};
    mutex a{one, "frozen"};
    mutex b{two, "frozen"};
    hold h = co_await a.async_acquire();
    child frozen{server(), "frozen", 30s, 5s};
    auto const first = [&] { return in_line(probe, "frozen") == 1; };
    co_await until(first, "the child in line");
    hold next;
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const second = [&] { return in_line(probe, "frozen") == 2; };
    co_await until(second, "both in line");
    frozen.stop();
    auto const began = steady::now();
    co_await h.async_release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_GE(steady::now() - began, 1400ms);
    EXPECT_LT(steady::now() - began, 10s);  // the lease is 30 s
    EXPECT_EQ(one.stats().kicks, 1u);
    frozen.cont();
    co_await next.async_release();
    // Thawed, it finds its claim over, and asks again.
    std::string const held = frozen.wait_for("held");
    EXPECT_GT(std::stoll(held.substr(5)), next.fence());
  };
  w.run(body);
}

TEST_F(BadDaysOfAProcess, P9AProcessFrozenForLongerThanItsLeaseFindsItsHoldInvalidBeforeAnyUse) {
  child frozen{server(), "slept", 600ms};
  std::string const held = frozen.wait_for("held");
  frozen.say("use");
  ASSERT_EQ(frozen.line(), "use valid");
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server())};
    mutex m{c, "slept"};
    frozen.stop();
    hold next = co_await m.async_acquire({.wait = 5s});
    EXPECT_GT(next.fence(), std::stoll(held.substr(5)));
    frozen.say("use");
    frozen.cont();
    std::string first = frozen.line();
    std::string second = frozen.line();
    if (second.starts_with("lost")) std::swap(first, second);
    EXPECT_TRUE(first.starts_with("lost")) << first;
    EXPECT_EQ(second, "use invalid");
    frozen.say("release");
    std::string const released = frozen.line();
    EXPECT_EQ(released, "released 0");
    EXPECT_TRUE(next.valid());
    bool const was_held = co_await next.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

TEST_F(BadDaysOfAProcess, AProcessFrozenForLessThanItsLeaseKeepsItsHold) {
  child frozen{server(), "napped", 1500ms};
  frozen.wait_for("held");
  frozen.stop();
  std::this_thread::sleep_for(600ms);  // the nap itself
  frozen.say("use");
  frozen.cont();
  EXPECT_EQ(frozen.line(), "use valid");
  frozen.say("release");
  EXPECT_EQ(frozen.line(), "released 1");
}

TEST_F(BadDaysOfAProcess, ADestroyedClientEndsItsWaitersAndGivesItsLocksBack) {
  auto const body = [&]() -> asio::awaitable<void> {
    client other{w.ctx.get_executor(), server().url()};
    mutex busy{other, "busy elsewhere"};
    hold theirs = co_await busy.async_acquire();

    auto c = std::make_unique<client>(w.ctx.get_executor(), server().url());
    std::vector<hold> held;
    for (int i = 0; i < 50; ++i) {
      mutex m{*c, "destroyed" + std::to_string(i)};
      held.push_back(co_await m.async_acquire());
    }
    std::vector<error_code> waits, losses;
    for (int i = 0; i < 20; ++i) {
      mutex{*c, "destroyed0"}.async_acquire([&](error_code ec, hold) { waits.push_back(ec); });
      mutex{*c, "busy elsewhere"}.async_acquire([&](error_code ec, hold) { waits.push_back(ec); });
    }
    held[0].async_lost([&](error_code ec) { losses.push_back(ec); });
    held[1].async_lost([&](error_code ec) { losses.push_back(ec); });
    auto const queued = [&] { return in_line(probe, "busy elsewhere") == 1; };
    co_await until(queued, "in line");
    mutex survivor{*c, "late"};
    c.reset();
    EXPECT_TRUE(waits.empty());
    auto const told = [&] { return waits.size() == 40 && losses.size() == 2; };
    co_await until(told, "everybody told");
    for (error_code const ec : waits) EXPECT_EQ(ec, errc::closed) << ec.message();
    for (error_code const ec : losses) EXPECT_EQ(ec, errc::closed) << ec.message();
    EXPECT_FALSE(held[0].valid());
    auto const clean = [&] {
      for (int i = 0; i < 50; ++i) {
        if (!is_free(probe, "destroyed" + std::to_string(i))) return false;
      }
      return in_line(probe, "busy elsewhere") == 0;
    };
    co_await until(clean, "nothing left on the server");
    auto r = co_await held[0].async_release(as_tuple);
    EXPECT_FALSE(std::get<0>(r));
    EXPECT_FALSE(std::get<1>(r));
    auto late = co_await survivor.async_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(late), errc::closed);
    EXPECT_TRUE(theirs.valid());
    co_await theirs.async_release();
  };
  w.run(body);
}

TEST_F(BadDaysOfAProcess, AClientDestroyedBeforeItsConnectionIsUpEndsItsWaiters) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (char const* url : {"redis://127.0.0.1:1", "unix:///nowhere.sock", "memory://"}) {
      auto c = std::make_unique<client>(w.ctx.get_executor(), url);
      mutex m{*c, "never"};
      hold keep;
      int ended = 0;
      for (int i = 0; i < 2; ++i) {
        m.async_acquire([&](error_code ec, hold h) {
          if (ec) {
            EXPECT_EQ(ec, errc::closed) << ec.message();
          }
          keep = std::move(h);
          ++ended;
        });
      }
      c.reset();
      auto const both = [&] { return ended == 2; };
      co_await until(both, "both ended");
    }
  };
  w.run(body);
}

// The release is the first message that the new server gets: no waiter has reconnected.
TEST(RestartWithData, P5AfterARestartWithItsDataAllAreServedInTheirOrder) {
  for (std::string const kind : {"", "@semaphore/", "@writer/"}) {
    redis_server_options options;
    options.appendonly = true;
    redis_server server{options};
    redis_probe probe{server};
    child holder{server, kind + "order", 60s};
    holder.wait_for("held");
    std::deque<child> waiters;
    for (std::int64_t i = 1; i <= 8; ++i) {
      waiters.emplace_back(server, kind + "order", 60s);
      auto const end = steady::now() + 20s;
      while (in_line(probe, "order") < i && steady::now() < end) std::this_thread::sleep_for(2ms);
      ASSERT_EQ(in_line(probe, "order"), i);
    }
    server.kill();
    holder.say("release");
    std::this_thread::sleep_for(700ms);  // the outage itself: what others may take to come back grows with it
    server.restart(true);
    EXPECT_EQ(holder.wait_for("released"), "released 1");
    std::int64_t last = 0;
    for (child& next : waiters) {  // each waits for its turn: out of order this does not end
      std::string const held = next.wait_for("held");
      EXPECT_GT(std::stoll(held.substr(5)), last) << "somebody who came later was served before";
      last = std::stoll(held.substr(5));
      next.say("release");
    }
  }
}

/// A coroutine that owns everything it uses, so that only the context's end can end it.
asio::awaitable<void> self_contained(std::string url, std::string name, int& held) {
  config settings;
  settings.url = url;
  client c{co_await asio::this_coro::executor, settings};
  mutex m{c, name};
  hold h = co_await m.async_acquire();
  ++held;
  auto never = [](hold& mine) -> asio::awaitable<void> {
    auto r = co_await mine.async_lost(as_tuple);
    (void)r;
  };
  mutex other{c, name + " inner " + std::to_string(held)};
  co_await with_lock(other, never);
}

TEST_F(BadDaysOfAProcess, ADestroyedContextTakesItsPendingOperationsWithIt) {
  int held = 0;
  {
    asio::io_context ctx;
    for (int i = 0; i < 5; ++i) asio::co_spawn(ctx, self_contained(server().url(), "context", held), asio::detached);
    auto const end = steady::now() + 10s;
    while (steady::now() < end && (held < 1 || in_line(probe, "context") < 4)) ctx.run_one_for(5ms);
    EXPECT_EQ(held, 1);
    EXPECT_EQ(in_line(probe, "context"), 4);
  }
  probe.command({"DEL", lock_key("context"), queue_key("context")});
  for (int steps = 0; steps < 40; ++steps) {  // and at every step on the way
    asio::io_context early;
    int ignored = 0;
    asio::co_spawn(early, self_contained(server().url(), "early " + std::to_string(steps), ignored), asio::detached);
    for (int i = 0; i < steps; ++i) early.run_one_for(4ms);
  }
}

TEST_F(BadDaysOfAProcess, HoldsMutexesAndClientsMayOutliveTheContext) {
  std::unique_ptr<client> c;
  std::unique_ptr<mutex> m;
  hold h;
  {
    asio::io_context ctx;
    c = std::make_unique<client>(ctx.get_executor(), server().url());
    m = std::make_unique<mutex>(*c, "outlives");
    m->async_acquire([&](error_code, hold got) { h = std::move(got); });
    auto const end = steady::now() + 10s;
    while (!h && steady::now() < end) ctx.run_one_for(5ms);
    h.async_lost([](error_code) { ADD_FAILURE() << "called"; });
    m->async_acquire([](error_code, hold) { ADD_FAILURE() << "called"; });
    c->async_close(10s, [](error_code) { ADD_FAILURE() << "called"; });
  }
  EXPECT_TRUE(h);
  EXPECT_EQ(m->name(), "outlives");
  EXPECT_GE(c->stats().acquires, 1u);
  h = hold{};
  m.reset();
  c.reset();
  probe.command({"DEL", lock_key("outlives"), queue_key("outlives")});
}

TEST_F(BadDaysOfAProcess, CloseLetsHoldersFinishAndTakesNoMore) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    client other{w.ctx.get_executor(), server().url()};
    mutex m{c, "drained"};
    mutex elsewhere{c, "drained elsewhere"};
    mutex blocked{other, "drained elsewhere"};
    hold theirs = co_await blocked.async_acquire();
    hold h = co_await m.async_acquire();
    std::vector<error_code> waits;
    m.async_acquire([&](error_code ec, hold) { waits.push_back(ec); });
    elsewhere.async_acquire([&](error_code ec, hold) { waits.push_back(ec); });
    auto const queued = [&] { return in_line(probe, "drained elsewhere") == 1; };
    co_await until(queued, "in line");
    bool closed = false;
    error_code result = asio::error::would_block, lost;
    h.async_lost([&](error_code ec) { lost = ec; });
    c.async_close(10s, [&](error_code ec) {
      closed = true;
      result = ec;
    });
    auto const told = [&] { return waits.size() == 2; };
    co_await until(told, "the waiters told");
    for (error_code const ec : waits) EXPECT_EQ(ec, errc::closed);
    auto refused = co_await m.async_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(refused), errc::closed);
    EXPECT_FALSE(closed);
    EXPECT_TRUE(h.valid());
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const over = [&] { return closed; };
    co_await until(over, "closed");
    EXPECT_FALSE(result) << result.message();
    EXPECT_EQ(lost, asio::error::operation_aborted);
    EXPECT_TRUE(is_free(probe, "drained"));
    EXPECT_EQ(in_line(probe, "drained elsewhere"), 0);
    co_await theirs.async_release();
  };
  w.run(body);
}

TEST_F(BadDaysOfAProcess, CloseTellsWhoeverIsLateAndGivesTheLockBack) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "late holder"};
    hold h = co_await m.async_acquire();
    error_code lost;
    h.async_lost([&](error_code ec) { lost = ec; });
    auto const began = steady::now();
    auto r = co_await c.async_close(100ms, as_tuple);
    EXPECT_FALSE(std::get<0>(r)) << std::get<0>(r).message();  // all was given back in time
    EXPECT_GE(steady::now() - began, 100ms);
    EXPECT_LT(steady::now() - began, 10s);  // the lease is 30 s
    EXPECT_EQ(lost, errc::closed);
    EXPECT_FALSE(h.valid());
    EXPECT_TRUE(is_free(probe, "late holder"));
    r = co_await c.async_close(100ms, as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::closed);
  };
  w.run(body);
}

TEST_F(BadDaysOfAProcess, CloseOfAClientThatNeverConnectedIsQuick) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    auto r = co_await c.async_close(10s, as_tuple);
    EXPECT_FALSE(std::get<0>(r)) << std::get<0>(r).message();
    client nowhere{w.ctx.get_executor(), "redis://127.0.0.1:1"};
    mutex m{nowhere, "nowhere"};
    error_code waited;
    m.async_acquire([&](error_code ec, hold) { waited = ec; });
    auto const began = steady::now();
    r = co_await nowhere.async_close(10s, as_tuple);
    EXPECT_LT(steady::now() - began, 8s);  // of 10 s that it might have waited
    EXPECT_FALSE(std::get<0>(r)) << std::get<0>(r).message();
    EXPECT_EQ(waited, errc::closed);
  };
  w.run(body);
}

TEST_F(BadDaysOfAProcess, CloseWithAServerThatStandsStillSaysTimedOut) {
  redis_server still;
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(still)};
    mutex m{c, "paused"};
    hold h = co_await m.async_acquire();
    still.stop();
    auto const began = steady::now();
    auto r = co_await c.async_close(100ms, as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::timed_out) << std::get<0>(r).message();
    EXPECT_LT(steady::now() - began, 3s);
    still.cont();
  };
  w.run(body);
}

TEST_F(BadDaysOfAProcess, AClientMayBeUsedFromManyThreads) {
  asio::io_context ctx;
  auto work = asio::make_work_guard(ctx);
  std::vector<std::thread> runners;
  for (int i = 0; i < 4; ++i) runners.emplace_back([&] { ctx.run(); });
  {
    client c{ctx.get_executor(), server().url()};
    client d{ctx.get_executor(), server().url()};
    std::array<int, 5> plain{};
    std::atomic<int> errors{0}, left{0};
    auto const worker = [&](int i) -> asio::awaitable<void> {
      for (int n = 0; n < 25; ++n) {
        auto const which = static_cast<std::size_t>((i + n) % 5);
        mutex m{i % 2 == 0 ? c : d, "threads" + std::to_string(which)};
        if (n % 5 == 4) {
          auto r = co_await m.async_acquire({.wait = 1ms}, as_tuple);
          if (std::get<0>(r) && std::get<0>(r) != errc::timed_out) ++errors;
          continue;  // dropped, if it was had
        }
        hold h = co_await m.async_acquire();
        ++plain[which];
        if (n % 5 == 3) continue;  // dropped
        bool const was_held = co_await h.async_release();
        if (!was_held) ++errors;
      }
      --left;
    };
    for (int i = 0; i < 40; ++i) {
      ++left;
      asio::co_spawn(ctx, worker(i), asio::detached);
    }
    auto const end = steady::now() + 60s;
    while (left > 0 && steady::now() < end) {
      (void)c.stats();
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(left, 0);
    EXPECT_EQ(errors, 0);
    int sum = 0;
    for (int const one : plain) sum += one;
    EXPECT_EQ(sum, 40 * 20);
  }
  work.reset();
  for (auto& t : runners) t.join();  // the clients' clean-up ends by itself
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(is_free(probe, "threads" + std::to_string(i)));
}

TEST_F(BadDaysOfAProcess, ASingleThreadedClientWorksWithoutLocks) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server());
    settings.single_threaded = true;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "single"};
    for (int i = 0; i < 20; ++i) {
      hold h = co_await m.async_acquire();
      EXPECT_TRUE(h.valid());
    }
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
