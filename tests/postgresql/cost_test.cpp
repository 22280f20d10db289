// What a lock in PostgreSQL costs, beside what the database itself needs and beside a lock that polls. Prints figures;
// only ratios of one run count.

#include "integration/fixture.hpp"
#include "support/postgresql_server.hpp"

#include <libpq-fe.h>

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <future>
#include <iostream>
#include <memory>
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

/// Keeps this thread, and what it starts, on the processor that it has. Where two processes wait for each other, a
/// wake-up across processors costs more than the statement, and the kernel decides who gets one: 13 us or 50 us for the
/// same `select 1`.
class on_one_processor {
 public:
  on_one_processor() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ~on_one_processor() { ::sched_setaffinity(0, sizeof before_, &before_); }
  on_one_processor(on_one_processor const&) = delete;
  on_one_processor& operator=(on_one_processor const&) = delete;

 private:
  cpu_set_t before_{};
};

TEST_F(SlowPostgresqlCost, AnAcquireIsAtMostFourTimesASelect) {
  on_one_processor const here;
  postgresql_server near;
  postgresql_probe probe{near};
  probe.ask("prepare one as select 1");
  std::vector<double> select, acquire, release, cycle;
  auto const body = [&]() -> asio::awaitable<void> {
    config s = settings();
    s.url = near.url();
    client c{w.ctx.get_executor(), s};
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
  std::cout << "select 1 " << p50(select) << " us, acquire " << p50(acquire) << " us, release " << p50(release)
            << " us, cycle " << p50(cycle) << " us\n"
            << "acquire / select 1: " << p50(acquire) / p50(select) << '\n';
  EXPECT_LT(p50(acquire), 4 * p50(select));
}

/// A connection that is asked one thing and tells when something has come.
class bare_connection {
 public:
  explicit bare_connection(std::string const& url, std::string const& prepared)
      : connection_{PQconnectdb(url.c_str()), &PQfinish} {
    run(prepared);
  }

  void send(char const* name) { PQsendQueryPrepared(connection_.get(), name, 0, nullptr, nullptr, nullptr, 0); }
  void run(std::string const& statements) {
    std::unique_ptr<PGresult, decltype(&PQclear)> const r{PQexec(connection_.get(), statements.c_str()), &PQclear};
    auto const status = PQresultStatus(r.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
      throw std::runtime_error{PQerrorMessage(connection_.get())};
  }
  /// Until the answer is there.
  void answered() {
    while (PQisBusy(connection_.get()) == 1) wait();
  }
  void take_answer() {
    while (PGresult* const r = PQgetResult(connection_.get())) PQclear(r);
  }
  void notified() {
    for (;;) {
      PGnotify* const n = PQnotifies(connection_.get());
      if (n != nullptr) return PQfreemem(n);
      wait();
    }
  }

 private:
  void wait() {
    pollfd one{PQsocket(connection_.get()), POLLIN, 0};
    ::poll(&one, 1, 60'000);
    if (PQconsumeInput(connection_.get()) == 0) throw std::runtime_error{PQerrorMessage(connection_.get())};
  }

  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

/// The processes of the server that are about to sleep do so.
void settle() { std::this_thread::sleep_for(500us); }

/// A process of its own, as far as it matters here: a client and a thread that runs it.
class party {
 public:
  party(config const& settings, std::string const& name)
      : client_{context_.get_executor(), settings},
        lock_{client_, name} {}
  ~party() {
    work_.reset();
    in([this](auto done) {
      held_ = {};
      client_.async_close(5s, [done](error_code) { done(); });
    });
    thread_.join();
  }

  void acquire() { get().wait(); }
  std::future<void> get() {
    return begin([this](auto done) {
      lock_.async_acquire([this, done](error_code ec, hold got) {
        had = steady::now();
        EXPECT_FALSE(ec) << ec.message();
        held_ = std::move(got);
        done();
      });
    });
  }
  void release() {
    in([this](auto done) {
      let_go = steady::now();
      held_.async_release([done](error_code, bool) { done(); });
    });
  }

  steady::time_point had{}, let_go{};

 private:
  template <class F>
  std::future<void> begin(F f) {
    auto const promise = std::make_shared<std::promise<void>>();
    asio::post(context_, [f, promise] { f([promise] { promise->set_value(); }); });
    return promise->get_future();
  }
  template <class F>
  void in(F f) {
    begin(f).wait();
  }

  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  client client_;
  mutex lock_;
  hold held_;
  std::thread thread_{[this] { context_.run(); }};
};

/// Three ways of one database to wake a waiter, one after the other in each round: from the call that lets go to the
/// moment at which the other knows. A blocked pg_advisory_lock; a NOTIFY in a transaction that changes a row; conch.
TEST_F(SlowPostgresqlCost, AHandOverIsAtMostFourTimesThatOfAnAdvisoryLock) {
  int const rounds = 1000;
  postgresql_probe look{server};
  look.ask(
      "create unlogged table one_row (n int primary key, v bigint) with (fillfactor = 50); insert into one_row values "
      "(1, 0)");
  std::string const advisory_statements =
      "prepare lock as select pg_advisory_lock(1); prepare unlock as select pg_advisory_unlock(1);"
      "prepare bare as select pg_notify('bare', 'as long as the words of a grant of conch, which has an id, a token, a "
      "time and the name');"
      "prepare one as select 1; set enable_seqscan = off;"
      "prepare row as update one_row set v = v + 1 where n = 1 returning pg_notify('bare', 'as long as the words of a "
      "grant of conch, which has "
      "...')";
  bare_connection first{server.url(), advisory_statements}, second{server.url(), advisory_statements},
      listener{server.url(), "listen bare"};
  bare_connection* holder = &first;
  bare_connection* waiter = &second;
  holder->run("execute lock");
  std::vector<double> select, advisory, notify, row, conch;
  party one{settings(), "handed"}, two{settings(), "handed"};
  std::string const line = "select count(*) from conch.line where key = " + bytes_literal("conch:{handed}");
  one.acquire();
  for (int i = 0; i < rounds; ++i) {
    settle();
    select.push_back(timed([&] { first.run("execute one"); }));

    waiter->send("lock");
    while (look.number("select count(*) from pg_locks where locktype = 'advisory' and objid = 1 and not granted") ==
           0) {
    }
    settle();
    advisory.push_back(timed([&] {
      holder->send("unlock");
      waiter->answered();
    }));
    waiter->take_answer();
    holder->take_answer();
    std::swap(holder, waiter);

    for (auto const& [name, into] : {std::pair{"bare", &notify}, std::pair{"row", &row}}) {
      settle();
      into->push_back(timed([&] {
        first.send(name);
        listener.notified();
      }));
      first.take_answer();
    }

    std::future<void> const handed = two.get();
    while (look.number(line) == 0) {
    }
    settle();
    one.release();
    handed.wait();
    conch.push_back(microseconds{two.had - one.let_go}.count());
    two.release();
    one.acquire();
  }
  auto const show = [&](char const* what, std::vector<double> all) {
    std::sort(all.begin(), all.end());
    auto const at = [&](double part) { return all[static_cast<std::size_t>(part * static_cast<double>(all.size()))]; };
    std::cout << what << ": p10 " << at(0.1) << ", p50 " << at(0.5) << ", p90 " << at(0.9) << " us, "
              << at(0.5) / p50(advisory) << " times an advisory lock\n";
  };
  show("select 1", select);
  show("hand-over by pg_advisory_lock", advisory);
  show("NOTIFY alone", notify);
  show("NOTIFY of a changed row", row);
  show("hand-over by conch", conch);
  EXPECT_LT(p50(conch), 4 * p50(advisory));
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
      asio::steady_timer handed{w.ctx, 60s};  // not looked at again and again: that would need a processor
      auto const before = two.stats().scripts;
      b.async_acquire([&](error_code, hold got) {
        had = steady::now();
        next = std::move(got);
        handed.cancel();
      });
      co_await pause_for(std::chrono::milliseconds{500 + 37 * i % 100});
      auto const began = steady::now();
      h.async_release([](error_code, bool) {});
      co_await handed.async_wait(as_tuple);
      EXPECT_TRUE(next.valid());
      pushed.push_back(microseconds{had - began}.count());
      scripts += two.stats().scripts - before;
      co_await next.async_release();
    }
  };
  w.run(body, 300s);
  std::cout << "polling every 100 ms: hand-over " << p50(polled) << " us, statements while waiting for half a second "
            << statements / 20.0 << "\nconch: hand-over " << p50(pushed) << " us, statements "
            << static_cast<double>(scripts) / 20 << '\n';
  EXPECT_LT(p50(pushed), p50(polled));
}

/// What is measured in a tenth of the cycles.
struct tenth {
  std::vector<double> alone, handed, select;
  std::int64_t bytes = 0;
};

/// Every row version that this leaves is dead at once: names that nobody uses again, which are swept up; 100 locks that
/// are used again and again; and a lock that two clients hand to each other, so that one is always in line. Autovacuum
/// looks every second.
/// CONCH_CYCLES: how many.
TEST_F(SlowPostgresqlCost, ManyCyclesWithAutovacuumLeaveTheTablesSmallAndTheLockQuick) {
  char const* const said = std::getenv("CONCH_CYCLES");
  int const cycles = said != nullptr ? std::atoi(said) : 100'000;
  postgresql_server busy{{.settings = {"autovacuum_naptime=1s"}}};
  config c = settings();
  c.url = busy.url();
  c.lease = 3s;
  c.fence_retention = 1s;
  postgresql_probe look{busy};
  look.ask("prepare one as select 1");
  std::string const size =
      "select sum(pg_total_relation_size(c.oid)) from pg_class c where relnamespace = 'conch'::regnamespace and "
      "relkind = 'r'";
  std::array<tenth, 10> tenths;
  tenth* now = tenths.data();
  int done = 0, ended = 0, handed = 0;
  auto const hand_on = [&](client& one) -> asio::awaitable<void> {
    mutex m{one, "handed on"};
    while (done < cycles) {
      auto const began = steady::now();
      hold h = co_await m.async_acquire();
      now->handed.push_back(microseconds{steady::now() - began}.count());
      co_await h.async_release();
      ++done;
      ++handed;
    }
    ++ended;
  };
  auto const use = [&](client& one) -> asio::awaitable<void> {
    std::vector<mutex> again;
    for (int i = 0; i < 100; ++i) again.emplace_back(one, "again " + std::to_string(i));
    for (int i = 0; done < cycles; ++i) {
      now = &tenths[static_cast<std::size_t>(done) * tenths.size() / static_cast<std::size_t>(cycles)];
      mutex m =
          i % 2 == 0 ? again[static_cast<std::size_t>(i / 2) % again.size()] : mutex{one, "once " + std::to_string(i)};
      auto const began = steady::now();
      hold h = co_await m.async_acquire();
      co_await h.async_release();
      if (i % 2 == 0) now->alone.push_back(microseconds{steady::now() - began}.count());
      ++done;
      if (i % 10 == 0) now->select.push_back(timed([&] { look.ask("execute one"); }));
      if (i % 5000 == 0) now->bytes = std::max(now->bytes, look.number(size));
    }
    ++ended;
  };
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), c}, two{w.ctx.get_executor(), c}, three{w.ctx.get_executor(), c};
    mutex connects{one, "connects"};
    {
      hold h = co_await connects.async_acquire();
      co_await h.async_release();
    }
    asio::co_spawn(w.ctx, hand_on(one), asio::detached);
    asio::co_spawn(w.ctx, hand_on(two), asio::detached);
    asio::co_spawn(w.ctx, use(three), asio::detached);
    auto const all = [&] { return ended == 3; };
    co_await until(all, "the last cycle", 7200s);
  };
  auto const began = steady::now();
  w.run(body, 7200s);
  std::cout << done << " cycles in " << std::chrono::duration_cast<std::chrono::seconds>(steady::now() - began).count()
            << " s, " << handed
            << " of them handed on to somebody in line\ntenth: acquire and release alone, in line until granted, "
               "select 1 (p50, us); KiB of all tables\n";
  std::int64_t most = 0;
  for (tenth const& t : tenths) {
    std::cout << "  " << p50(t.alone) << ' ' << p50(t.handed) << ' ' << p50(t.select) << "; " << t.bytes / 1024 << '\n';
    most = std::max(most, t.bytes);
  }
  // The end beside a beginning: a cycle here and a cycle at a new server in turns, since the load of the machine
  // changes.
  postgresql_server fresh{{.settings = {"autovacuum_naptime=1s"}}};
  std::vector<double> old, young;
  auto const compare = [&]() -> asio::awaitable<void> {
    config d = c;
    d.url = fresh.url();
    client at_old{w.ctx.get_executor(), c}, at_young{w.ctx.get_executor(), d};
    for (int i = 0; i < 11'000; ++i) {
      for (client* one : {&at_old, &at_young}) {
        mutex m{*one, "again " + std::to_string(i % 100)};
        auto const start = steady::now();
        hold h = co_await m.async_acquire();
        co_await h.async_release();
        if (i >= 1000) (one == &at_old ? old : young).push_back(microseconds{steady::now() - start}.count());
      }
    }
  };
  w.run(compare, 600s);
  std::cout << "then, in turns with a new server: " << p50(old) << " us, there " << p50(young) << " us, "
            << p50(old) / p50(young) << " times\nautovacuums, dead rows, rows deleted, rows changed: "
            << look.ask(
                   "select string_agg(relname || ' ' || autovacuum_count || ' ' || n_dead_tup || ' ' || n_tup_del || ' "
                   "' || n_tup_upd, ', ') "
                   "from pg_stat_user_tables where schemaname = 'conch' and n_tup_ins > 1")
            << '\n';
  EXPECT_GT(look.number("select sum(autovacuum_count) from pg_stat_user_tables where schemaname = 'conch'"), 0);
  EXPECT_LT(most, 50 << 20);
  EXPECT_LT(p50(old), 1.5 * p50(young));
}

/// A report or a backup that takes long: dead rows stay for as long as it lasts. Shows the price, and that it ends with
/// it.
TEST_F(SlowPostgresqlCost, ABusyLockUnderAnOldSnapshot) {
  int const cycles = 8000;
  postgresql_probe report{server};
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings()};
    mutex m{c, "busy"};
    auto const measure = [&]() -> asio::awaitable<double> {
      std::vector<double> last;
      for (int i = 0; i < cycles; ++i) {
        auto const began = steady::now();
        hold h = co_await m.async_acquire();
        co_await h.async_release();
        if (i >= cycles - 1000) last.push_back(microseconds{steady::now() - began}.count());
      }
      co_return p50(last);
    };
    double const before = co_await measure();
    report.ask("begin isolation level repeatable read; select count(*) from conch.lock");
    double const under = co_await measure();
    report.ask("commit");
    report.ask("vacuum conch.lock");
    double const after = co_await measure();
    std::cout << "one lock, p50 of the last 1000 of " << cycles << " cycles: " << before
              << " us; under a snapshot that is as old as they are " << under << " us; after its end and a vacuum "
              << after << " us\n";
  };
  w.run(body, 600s);
}

}  // namespace
}  // namespace conch::test
