// What a lock in PostgreSQL costs, beside what the database itself needs and beside a lock that polls. Prints figures; only ratios of one run count.

#include "integration/fixture.hpp"
#include "support/postgresql_server.hpp"

#include <libpq-fe.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <thread>

namespace conch::test {
namespace {

using microseconds = std::chrono::duration<double, std::micro>;

double p50(std::vector<double> all) {
  auto const middle = all.begin() + std::ssize(all) / 2;
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

template <class F>
double timed(F const& f) {
  auto const began = steady::now();
  f();
  return microseconds{steady::now() - began}.count();
}

class SlowPostgresqlCost : public testing::Test {
 protected:
  config settings(duration slice = 0s) const {
    config c;
    c.url = server.url();
    c.single_threaded = true;
    c.local_slice = slice;
    return c;
  }

  postgresql_server server{{.settings = {"autovacuum_naptime=5s"}}};
  world w;
};

TEST_F(SlowPostgresqlCost, AnAcquireIsAtMostFourTimesASelect) {
  postgresql_probe probe{server};
  probe.ask("prepare one as select 1");
  std::vector<double> select, acquire, release, cycle;
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings()};
    mutex m{c, "cost"};
    for (int i = 0; i < 3000; ++i) {
      select.push_back(timed([&] { probe.ask("execute one"); }));
      auto const began = steady::now();
      hold h = co_await m.async_acquire();
      auto const had = steady::now();
      co_await h.async_release();
      if (i < 500) continue;
      acquire.push_back(microseconds{had - began}.count());
      release.push_back(microseconds{steady::now() - had}.count());
      cycle.push_back(microseconds{steady::now() - began}.count());
    }
  };
  w.run(body, 300s);
  std::cout << "select 1 " << p50(select) << " us, acquire " << p50(acquire) << " us, release " << p50(release) << " us, cycle " << p50(cycle)
            << " us\n"
            << "acquire / select 1: " << p50(acquire) / p50(select) << '\n';
  EXPECT_LT(p50(acquire), 4 * p50(select));
}

/// Two threads, each with a connection; the lock goes to and fro. From the call that lets go to the moment at which the other has it.
double advisory_hand_over(postgresql_server const& server, int rounds) {
  std::vector<double> all;
  std::atomic<steady::time_point> let_go{};
  std::atomic<int> turns{0};
  auto const play = [&](bool counts) {
    postgresql_probe mine{server};
    postgresql_probe look{server};
    for (int i = 0; i < rounds; ++i) {
      mine.ask("select pg_advisory_lock(1)");
      if (counts && let_go.load() != steady::time_point{}) all.push_back(microseconds{steady::now() - let_go.load()}.count());
      ++turns;
      while (look.number("select count(*) from pg_locks where locktype = 'advisory' and not granted") == 0 && turns < 2 * rounds - 1) {
      }
      let_go = steady::now();
      mine.ask("select pg_advisory_unlock(1)");
    }
  };
  std::thread other{[&] { play(false); }};
  play(true);
  other.join();
  return p50(all);
}

TEST_F(SlowPostgresqlCost, AHandOverBesideThatOfAnAdvisoryLock) {
  int const rounds = 500;
  double const advisory = advisory_hand_over(server, rounds);
  std::vector<double> all;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), settings()}, two{w.ctx.get_executor(), settings()};
    mutex a{one, "handed"}, b{two, "handed"};
    postgresql_probe look{server};
    std::string const line = "select count(*) from conch.line where key = " + bytes_literal("conch:{handed}");
    hold h = co_await a.async_acquire();
    for (int i = 0; i < rounds; ++i) {
      mutex& next_of = i % 2 == 0 ? b : a;
      hold next;
      steady::time_point had{};
      asio::steady_timer granted{w.ctx, 60s};
      next_of.async_acquire([&](error_code ec, hold got) {
        EXPECT_FALSE(ec) << ec.message();
        had = steady::now();
        next = std::move(got);
        granted.cancel();
      });
      auto const waits = [&] { return look.number(line) == 1; };
      co_await until(waits, "in line");
      auto const began = steady::now();
      h.async_release([](error_code, bool) {});
      co_await granted.async_wait(as_tuple);  // not in a loop: the server's processes need the processor
      all.push_back(microseconds{had - began}.count());
      h = std::move(next);
    }
    co_await h.async_release();
  };
  w.run(body, 300s);
  std::cout << "hand-over by pg_advisory_lock " << advisory << " us, by conch " << p50(all) << " us, ratio " << p50(all) / advisory << '\n';
}

/// As the usual libraries do it: a row, and every 100 ms another attempt.
TEST_F(SlowPostgresqlCost, APollingLockBesideIt) {
  postgresql_probe holder{server}, waiter{server};
  holder.ask("create table polled (name text primary key, owner int)");
  std::vector<double> polled, pushed;
  int statements = 0;
  for (int i = 0; i < 20; ++i) {
    holder.ask("insert into polled values ('x', 1) on conflict do nothing");
    std::atomic<steady::time_point> let_go{};
    std::thread other{[&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{500 + 37 * i % 100});
      let_go = steady::now();
      holder.ask("delete from polled where name = 'x'");
    }};
    while (waiter.ask("insert into polled values ('x', 2) on conflict do nothing returning 1").empty()) {
      ++statements;
      std::this_thread::sleep_for(100ms);
    }
    polled.push_back(microseconds{steady::now() - let_go.load()}.count());
    other.join();
    waiter.ask("delete from polled where name = 'x'");
  }
  std::uint64_t scripts = 0;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), settings()}, two{w.ctx.get_executor(), settings()};
    mutex a{one, "pushed"}, b{two, "pushed"};
    {
      hold connects = co_await b.async_acquire();
      co_await connects.async_release();
    }
    for (int i = 0; i < 20; ++i) {
      hold h = co_await a.async_acquire();
      steady::time_point had{};
      hold next;
      auto const before = two.stats().scripts;
      b.async_acquire([&](error_code, hold got) {
        had = steady::now();
        next = std::move(got);
      });
      co_await pause_for(std::chrono::milliseconds{500 + 37 * i % 100});
      auto const began = steady::now();
      h.async_release([](error_code, bool) {});
      while (had == steady::time_point{}) co_await asio::post(asio::use_awaitable);
      pushed.push_back(microseconds{had - began}.count());
      scripts += two.stats().scripts - before;
      co_await next.async_release();
    }
  };
  w.run(body, 300s);
  std::cout << "polling every 100 ms: hand-over " << p50(polled) << " us, statements while waiting for half a second " << statements / 20.0
            << "\nconch: hand-over " << p50(pushed) << " us, statements " << static_cast<double>(scripts) / 20 << '\n';
  EXPECT_LT(p50(pushed), p50(polled));
}

/// CONCH_CYCLES: how many.
TEST_F(SlowPostgresqlCost, ManyCyclesLeaveTheTablesSmallAndTheLockQuick) {
  char const* const said = std::getenv("CONCH_CYCLES");
  int const cycles = said != nullptr ? std::atoi(said) : 100'000;
  std::vector<double> first, last;
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings()};
    std::vector<mutex> locks;
    for (int i = 0; i < 100; ++i) locks.emplace_back(c, "cycles " + std::to_string(i));
    for (int i = 0; i < cycles; ++i) {
      auto const began = steady::now();
      hold h = co_await locks[static_cast<std::size_t>(i) % locks.size()].async_acquire();
      co_await h.async_release();
      double const took = microseconds{steady::now() - began}.count();
      if (i >= 1000 && i < 11000) first.push_back(took);
      if (i >= cycles - 10000) last.push_back(took);
    }
  };
  w.run(body, 7200s);
  postgresql_probe look{server};
  std::cout << cycles << " cycles of 100 locks: p50 at the start " << p50(first) << " us, at the end " << p50(last) << " us, conch.lock has "
            << look.number("select pg_total_relation_size('conch.lock')") / 1024 << " KiB, autovacuums "
            << look.ask("select autovacuum_count from pg_stat_user_tables where relname = 'lock'") << '\n';
  EXPECT_LT(look.number("select pg_total_relation_size('conch.lock')"), 50 << 20);
}

}  // namespace
}  // namespace conch::test
