// P10: what goes over the wire, counted by the server itself.

#include "integration/fixture.hpp"

#include "servers/redis/scripts.hpp"

#include <deque>
#include <map>
#include <vector>

namespace conch::test {
namespace {

class P10Messages : public testing::Test {
 protected:
  redis_server server;
  redis_probe probe{server};
  world w;

  P10Messages() {
    for (redis::script const& s : redis::all_scripts()) probe.command({"SCRIPT", "LOAD", s.source});
  }

  void count_from_here() { probe.command({"CONFIG", "RESETSTAT"}); }

  /// What clients sent since: scripts, and what is neither theirs (from inside) nor the probe's.
  std::map<std::string, long> sent() {
    auto all = probe.commandstats();
    for (char const* inside : {"time", "get", "set", "del", "exists", "pttl", "pexpire", "zadd", "zrem", "zrange",
                               "zscore", "zpopmin", "zcard", "mget", "info", "config|resetstat", "config"}) {
      all.erase(inside);
    }
    return all;
  }
  using counts = std::map<std::string, long>;
};

TEST_F(P10Messages, UncontendedOneScriptToAcquireAndOneToRelease) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server.url()};
    mutex m{c, "free"};
    {
      hold connects = co_await m.async_acquire();
      co_await connects.async_release();
    }
    for (int i = 0; i < 3; ++i) {
      count_from_here();
      hold h = co_await m.async_acquire();
      EXPECT_EQ(sent(), (counts{{"evalsha", 1}}));
      co_await h.async_release();
      EXPECT_EQ(sent(), (counts{{"evalsha", 2}}));
      hold tried = co_await m.async_try_acquire();
      EXPECT_EQ(sent(), (counts{{"evalsha", 3}}));
      hold busy = co_await m.async_try_acquire();
      EXPECT_FALSE(busy);
      EXPECT_EQ(sent(), (counts{{"evalsha", 3}}));  // this process has it: nobody needs to be asked
      co_await tried.async_release();
    }
  };
  w.run(body);
}

TEST_F(P10Messages, WhatATimerSetsOffIsWrittenAtOnceAndTheRestOfItsTurnTogether) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server.url()};
    mutex first{c, "first"}, second{c, "second"};
    {
      hold connects = co_await first.async_acquire();
      co_await connects.async_release();
    }
    int served = 0;
    auto const count = [&](error_code, hold) { ++served; };
    co_await pause_for(1ms);  // out of the turn of the answer
    first.async_acquire(count);
    second.async_acquire(count);
    auto const until = steady::now() + 10s;
    while (is_free(probe, "first") && steady::now() < until) {
    }
    EXPECT_FALSE(is_free(probe, "first")) << "the event loop has not run since";
    EXPECT_TRUE(is_free(probe, "second"));
    auto const both = [&] { return served == 2; };
    co_await conch::test::until(both, "both are granted");
  };
  w.run(body);
}

TEST_F(P10Messages, SeveralFreeLocksOneScriptToAcquireThem) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server.url()};
    std::vector<mutex> const locks{mutex{c, "a"}, mutex{c, "b"}, mutex{c, "c"}};
    multi_lock all{locks};
    {
      multi_hold connects = co_await all.async_acquire();
      co_await connects.async_release();
    }
    for (int i = 0; i < 3; ++i) {
      count_from_here();
      multi_hold h = co_await all.async_acquire();
      EXPECT_EQ(sent(), (counts{{"evalsha", 1}}));
      co_await h.async_release();
      EXPECT_EQ(sent(), (counts{{"evalsha", 3}}))
          << "of those that give back the first goes ahead, and the others are one";
    }
  };
  w.run(body);
}

TEST_F(P10Messages, InsideAProcessHandOffsCostNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server);
    settings.local_slice = settings.lease;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "inside"};
    {
      hold connects = co_await m.async_acquire();
      co_await connects.async_release();
    }
    count_from_here();
    int served = 0;
    for (int i = 0; i < 1000; ++i) {
      m.async_acquire([&](error_code ec, hold) {
        EXPECT_FALSE(ec);
        ++served;
      });
    }
    auto const done = [&] { return served == 1000 && is_free(probe, "inside"); };
    co_await until(done, "all served");
    EXPECT_EQ(sent(), (counts{{"evalsha", 2}}));
  };
  w.run(body);
}

/// One holder, `count` clients in line, each on a connection of its own.
class hand_overs {
 public:
  hand_overs(world& w, redis_server& server, redis_probe& probe, int count) : w_{w}, probe_{probe} {
    for (int i = 0; i <= count; ++i) clients_.emplace_back(w.ctx.get_executor(), steady_config(server));
  }

  asio::awaitable<void> line_up() {
    mutex m{clients_[0], "line"};
    first = co_await m.async_acquire();
    for (std::size_t i = 1; i < clients_.size(); ++i) {
      mutex{clients_[i], "line"}.async_acquire([this](error_code ec, hold h) {
        EXPECT_FALSE(ec) << ec.message();
        ++granted;
        current = std::move(h);  // drops, and so passes on, the one before
      });
    }
    auto const all = [&] { return in_line(probe_, "line") == static_cast<std::int64_t>(clients_.size()) - 1; };
    co_await until(all, "all in line");
  }

  std::uint64_t total(std::uint64_t statistics::*member) {
    std::uint64_t sum = 0;
    for (client const& c : clients_) sum += c.stats().*member;
    return sum;
  }

  hold first, current;
  int granted = 0;

 private:
  world& w_;
  redis_probe& probe_;
  std::deque<client> clients_;
};

TEST_F(P10Messages, AHandOverIsOneScriptAndOnePushWhateverTheNumberOfWaiters) {
  for (int const waiting : {1, 2, 200}) {
    auto const body = [&]() -> asio::awaitable<void> {
      hand_overs line{w, server, probe, waiting};
      co_await line.line_up();
      count_from_here();
      line.first = hold{};
      auto const one = [&] { return line.granted == 1; };
      co_await until(one, "the first hand-over");
      EXPECT_EQ(sent(), (counts{{"evalsha", 1}, {"publish", 1}})) << waiting << " waiting";
      for (int i = 2; i <= waiting; ++i) {
        line.current = hold{};
        auto const next = [&] { return line.granted == i; };
        co_await until(next, "the next hand-over");
      }
      EXPECT_EQ(sent(), (counts{{"evalsha", waiting}, {"publish", waiting}})) << waiting << " waiting";
      line.current = hold{};
      auto const freed = [&] { return is_free(probe, "line"); };
      co_await until(freed, "free");
      EXPECT_EQ(sent(), (counts{{"evalsha", waiting + 1}, {"publish", waiting}}));
      EXPECT_EQ(line.total(&statistics::grants_pushed), static_cast<std::uint64_t>(waiting));
      EXPECT_EQ(line.total(&statistics::pushes_stray) + line.total(&statistics::pushes_late), 0u);
    };
    w.run(body);
  }
}

TEST_F(P10Messages, NothingIsSentWhileWaitingBetweenSafetyChecks) {
  auto const body = [&]() -> asio::awaitable<void> {
    hand_overs line{w, server, probe, 20};
    co_await line.line_up();
    count_from_here();
    co_await pause_for(1s);  // of waiting
    EXPECT_EQ(sent(), counts{});
    EXPECT_EQ(line.granted, 0);
  };
  w.run(body);
}

TEST_F(P10Messages, AWaitingClientMakesOneSafetyCheckPerLeaseHoweverManyItsCoroutines) {
  auto const body = [&]() -> asio::awaitable<void> {
    client holder{w.ctx.get_executor(), often_renewed(server, 1500ms)};
    client waiter{w.ctx.get_executor(), often_renewed(server, 1500ms)};
    mutex held{holder, "checked"};
    mutex wanted{waiter, "checked"};
    hold h = co_await held.async_acquire();
    int served = 0;
    for (int i = 0; i < 100; ++i) {
      wanted.async_acquire([&](error_code ec, hold) {
        EXPECT_FALSE(ec);
        ++served;
      });
    }
    auto const began = steady::now();
    auto const checked = [&] { return waiter.stats().safety_checks >= 3; };
    co_await until(checked, "three safety checks");
    // A check comes when the lease last seen, of which up to a third may be gone, should be over.
    EXPECT_GE(steady::now() - began, 3 * 1000ms);
    EXPECT_EQ(waiter.stats().scripts, 1 + waiter.stats().safety_checks);
    co_await h.async_release();
    auto const all = [&] { return served == 100; };
    co_await until(all, "all served");
  };
  w.run(body);
}

TEST_F(P10Messages, AThousandHoldsAreRenewedInBatches) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server);
    settings.lease = 3s;
    settings.command_timeout = 1s;
    client c{w.ctx.get_executor(), settings};
    std::vector<hold> held;
    for (int i = 0; i < 1000; ++i) {
      mutex{c, "batch" + std::to_string(i)}.async_acquire([&](error_code ec, hold h) {
        EXPECT_FALSE(ec);
        held.push_back(std::move(h));
      });
    }
    auto const all = [&] { return held.size() == 1000; };
    co_await until(all, "1000 holds");
    count_from_here();
    auto const renewed = [&] { return c.stats().renewals >= 2000; };
    co_await until(renewed, "two rounds of renewals");
    EXPECT_LE(c.stats().renewal_scripts, 2 * 12u);  // five of 200 each, if they are all due together
    auto const scripts = sent();
    EXPECT_EQ(scripts.size(), 1u);
    EXPECT_LE(scripts.at("evalsha"), 3 * 12);
    EXPECT_TRUE(std::all_of(held.begin(), held.end(), [](hold const& h) { return h.valid(); }));
    EXPECT_EQ(c.stats().losses, 0u);
  };
  w.run(body);
}

TEST_F(P10Messages, AShortHandedOverHoldNeedsNoConfirmationAndALongOneGetsOne) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server);
    settings.claim = 600ms;
    client one{w.ctx.get_executor(), settings};
    client two{w.ctx.get_executor(), settings};
    mutex a{one, "confirm"};
    mutex b{two, "confirm"};
    hold h = co_await a.async_acquire();
    hold next;
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec);
      next = std::move(got);
    });
    auto const queued = [&] { return in_line(probe, "confirm") == 1; };
    co_await until(queued, "in line");
    co_await h.async_release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "handed over");
    EXPECT_EQ(two.stats().renewals, 0u);
    EXPECT_LE(probe.integer({"PTTL", lock_key("confirm")}), 600);
    auto const confirmed = [&] { return two.stats().renewals == 1; };
    co_await until(confirmed, "the confirmation");
    EXPECT_GT(probe.integer({"PTTL", lock_key("confirm")}), 25'000);
    EXPECT_TRUE(next.valid());
    EXPECT_GT(next.deadline(), clock::now() + 25s);
    co_await next.async_release();
  };
  w.run(body);
}

TEST_F(P10Messages, KeepAliveIsTheOnlyOtherMessage) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = steady_config(server);
    settings.keep_alive = 50ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "pinged"};
    hold h = co_await m.async_acquire();
    count_from_here();
    auto const pinged = [&] { return sent()["ping"] >= 3; };
    co_await until(pinged, "three pings");
    EXPECT_EQ(sent().size(), 1u);
    co_await h.async_release();
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
