// F13: does the work grow as the number of things that are done at once? Each case at four sizes or more; with it the
// longest turn of the event loop. Both in CPU time of this thread: what other programs do does not count. The shape is
// the exponent of the growth of the whole: 1.0 is a constant for each, whatever their number; 2.0 is quadratic. And the
// longest script, by the server's own clock, which goes on while others use its processor.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <conch/conch.hpp>

#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/growth.hpp"
#include "support/raw.hpp"
#include "support/report.hpp"
#include "support/server.hpp"
#include "support/workers.hpp"

namespace {

using namespace conch::bench;
using conch::error_code;

/// Waits that end at the same moment; all behind one lock, or each behind its own.
measured time_outs(server& redis, std::size_t n, bool one_lock) {
  crowd c{settings_for(redis.unix_url(), true)};
  crowd holder{settings_for(redis.unix_url(), true)};
  auto const held = holder.acquire(one_lock ? 1 : n, "t");
  std::size_t done = 0;
  auto const at = conch::clock::now() + 1s + n * 20us;
  for (std::size_t i = 0; i < n; ++i) {
    conch::mutex m{*c.client, "t" + std::to_string(one_lock ? 0 : i)};
    m.async_acquire({.wait = at - conch::clock::now()}, [&](error_code ec, conch::hold) { done += ec ? 1 : 0; });
    if (i % 500 == 499) c.in.until([&] { return c.client->stats().waiting == i + 1 - done; }, "in line");
  }
  while (conch::clock::now() < at - 200ms) {
    c.in.context.restart();
    c.in.context.run_one_for(1ms);
  }
  c.in.longest_us = 0;
  double const begin = thread_cpu_us();
  c.in.until([&] { return done == n; }, "timed out");
  return {thread_cpu_us() - begin, c.in.longest_us};
}

/// A client that goes while it holds that many; from a server that has forgotten the scripts, or knows them.
measured closing(server& redis, std::size_t n, bool cold) {
  crowd c{settings_for(redis.unix_url(), true)};
  auto holds = c.acquire(n, "c");
  if (cold) redis.probe().command({"SCRIPT", "FLUSH"});
  double const begin = thread_cpu_us();
  c.client.reset();
  double const destroyed = thread_cpu_us() - begin;
  c.in.longest_us = destroyed;
  c.in.until([&] { return c.in.context.stopped() || c.in.context.poll() == 0; }, "closed");
  auto const end = steady::now() + 60s;
  while (!c.in.context.stopped() && steady::now() < end) {
    double const before = thread_cpu_us();
    c.in.context.run_one_for(10ms);
    c.in.longest_us = std::max(c.in.longest_us, thread_cpu_us() - before);
  }
  double const all = thread_cpu_us() - begin;
  auto const left = redis.probe().integer({"DBSIZE"}) - static_cast<std::int64_t>(n);  // but for the fences
  return {all, c.in.longest_us, std::to_string(left) + " left behind"};
}

/// A client that goes while that many wait for other clients' locks.
measured closing_waiters(server& redis, std::size_t n) {
  crowd c{settings_for(redis.unix_url(), true)};
  crowd holder{settings_for(redis.unix_url(), true)};
  auto const held = holder.acquire(1, "w");
  std::size_t done = 0;
  for (std::size_t i = 0; i < n; ++i) {
    conch::mutex m{*c.client, "w0"};
    m.async_acquire([&](error_code, conch::hold) { ++done; });
  }
  c.in.until([&] { return c.client->stats().scripts > 0; }, "in line");
  c.in.longest_us = 0;
  double const begin = thread_cpu_us();
  c.client.reset();
  c.in.longest_us = thread_cpu_us() - begin;
  c.in.until([&] { return done == n; }, "closed");
  return {thread_cpu_us() - begin, c.in.longest_us};
}

/// A connection that goes and comes while that many are held, or waited for.
measured reconnecting(server& redis, std::size_t n, bool held) {
  crowd c{settings_for(redis.unix_url(), true)};
  crowd other{settings_for(redis.unix_url(), true)};
  std::vector<conch::hold> holds = (held ? c : other).acquire(n, "r");
  if (!held) {
    for (std::size_t i = 0; i < n; ++i) {
      conch::mutex m{*c.client, "r" + std::to_string(i)};
      m.async_acquire([](error_code, conch::hold) {});
      if (i % 500 == 499) c.in.until([&] { return c.client->stats().scripts > i; }, "in line");
    }
    auto const quiet_from = steady::now() + 300ms;
    c.in.until([&] { return steady::now() > quiet_from; }, "quiet");
  }
  auto const renewed = c.client->stats().renewals;
  auto const scripts = c.client->stats().scripts;
  c.in.longest_us = 0;
  double const begin = thread_cpu_us();
  redis.probe().command({"CLIENT", "KILL", "TYPE", "pubsub"});
  c.in.until(
      [&] {
        auto const s = c.client->stats();
        return s.disconnects == 1 && (held ? s.renewals >= renewed + n : s.scripts >= scripts + n);
      },
      "reconnected");
  return {thread_cpu_us() - begin, c.in.longest_us};
}

measured inspecting(server& redis, std::size_t n) {
  crowd c{settings_for(redis.unix_url(), true)};
  c.acquire(1, "i");
  std::size_t done = 0, failed = 0;
  conch::mutex m{*c.client, "i0"};
  double const begin = thread_cpu_us();
  for (std::size_t i = 0; i < n; ++i) {
    m.async_inspect([&](error_code ec, conch::lock_status const&) {
      ++done;
      failed += ec ? 1 : 0;
    });
  }
  c.in.until([&] { return done == n; }, "inspected");
  return {thread_cpu_us() - begin, c.in.longest_us,
          std::to_string(c.client->stats().disconnects) + " disconnects, " + std::to_string(failed) + " errors"};
}

/// Many that watch one hold, cancelled one after the other, the youngest first.
measured watching(server& redis, std::size_t n) {
  crowd c{settings_for(redis.unix_url(), true)};
  auto holds = c.acquire(1, "l");
  std::deque<asio::cancellation_signal> signals(n);
  std::size_t done = 0;
  double const begin = thread_cpu_us();
  for (asio::cancellation_signal& s : signals) {
    holds[0].async_lost(asio::bind_cancellation_slot(s.slot(), [&](error_code) { ++done; }));
  }
  for (auto s = signals.rbegin(); s != signals.rend(); ++s) s->emit(asio::cancellation_type::total);
  c.in.until([&] { return done == n; }, "cancelled");
  return {thread_cpu_us() - begin, c.in.longest_us};
}

asio::awaitable<void> nested(conch::client& client, std::size_t depth, std::size_t level, double& begin, double& all) {
  if (level == depth) {
    begin = thread_cpu_us();
    for (int i = 0; i < 20; ++i) co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
    all = thread_cpu_us() - begin;
    co_return;
  }
  conch::mutex m{client, "n" + std::to_string(level)};
  auto body = [&client, depth, level, &begin, &all](conch::hold&) {
    return nested(client, depth, level + 1, begin, all);
  };
  co_await conch::with_lock(m, body);
}

/// with_lock inside with_lock, this many levels deep: from the first to the last and back.
measured nesting(server&, std::size_t depth) {
  crowd c{settings_for("memory://growth", true)};
  double post_began = 0, posts = 0;
  bool done = false;
  double const begin = thread_cpu_us();
  asio::co_spawn(c.in.context, nested(*c.client, depth, 0, post_began, posts), [&](std::exception_ptr e) {
    done = true;
    stop_on_error(e);
  });
  c.in.until([&] { return done; }, "nested");
  return {thread_cpu_us() - begin, c.in.longest_us, std::to_string(posts / 20) + " us a post at the bottom"};
}

measured many_at_once(server& redis, std::size_t n) {
  crowd c{settings_for(redis.unix_url(), true)};
  c.acquire(1, "warm");
  std::vector<conch::mutex> locks;
  for (std::size_t i = 0; i < n; ++i) locks.emplace_back(*c.client, "m" + std::to_string(i));
  conch::multi_lock all{std::move(locks)};
  auto const before = c.client->stats().scripts;
  double const begin = thread_cpu_us();
  bool done = false;
  conch::multi_hold held;
  all.async_acquire([&](error_code ec, conch::multi_hold h) {
    if (ec) throw boost::system::system_error{ec};
    held = std::move(h);
    done = true;
  });
  c.in.until([&] { return done; }, "all of them");
  measured const m{thread_cpu_us() - begin, c.in.longest_us,
                   std::to_string(c.client->stats().scripts - before) + " scripts"};
  done = false;
  held.async_release([&](error_code, bool) { done = true; });
  c.in.until([&] { return done; }, "given back");
  return m;
}

/// As many coroutines in line for one lock in this process, each of which takes it and gives it on.
measured local_line(server& redis, std::size_t n) {
  crowd c{settings_for(redis.unix_url(), true)};
  auto holds = c.acquire(1, "q");
  std::size_t done = 0;
  conch::mutex m{*c.client, "q0"};
  double const begin = thread_cpu_us();
  for (std::size_t i = 0; i < n; ++i) {
    m.async_acquire([&](error_code ec, conch::hold) { done += ec ? 0 : 1; });  // the hold ends with the handler
  }
  holds.clear();
  c.in.until([&] { return done == n; }, "all had it");
  return {thread_cpu_us() - begin, c.in.longest_us};
}

/// As many owners of one semaphore, all of one client: taken, then given back.
measured permits(server& redis, std::size_t n) {
  crowd c{settings_for(redis.unix_url(), true)};
  c.acquire(1, "warm");
  std::vector<conch::hold> holds(n);
  std::size_t done = 0, failed = 0;
  conch::semaphore s{*c.client, "owners", static_cast<std::uint32_t>(n)};
  double const begin = thread_cpu_us();
  for (std::size_t i = 0; i < n; ++i) {
    s.async_acquire([&, i](error_code ec, conch::hold h) {
      ++done;
      failed += ec ? 1 : 0;
      holds[i] = std::move(h);
    });
  }
  c.in.until([&] { return done == n; }, "acquired");
  done = 0;
  for (conch::hold& h : holds) h.async_release([&](error_code ec, bool) { ++done, failed += ec ? 1 : 0; });
  c.in.until([&] { return done == n; }, "released");
  return {thread_cpu_us() - begin, c.in.longest_us, std::to_string(failed) + " errors"};
}

asio::awaitable<void> cycles(conch::client& client, std::size_t number, std::atomic<bool> const& stop,
                             std::uint64_t& done) {
  conch::mutex m{client, "y" + std::to_string(number)};
  while (!stop.load(std::memory_order_relaxed)) {
    conch::hold h = co_await m.async_acquire(asio::use_awaitable);
    co_await h.async_release(asio::use_awaitable);
    ++done;
  }
}

/// CPU time of a cycle, all threads together: one client for all of them, or one client and one event loop each.
measured threads(std::string const& url, std::size_t n, bool one_client) {
  constexpr std::size_t coroutines = 120;
  struct part {
    explicit part(std::size_t all) : context{static_cast<int>(all)} {}
    asio::io_context context;
    std::optional<conch::client> client;
  };
  struct alignas(64) counter {
    std::uint64_t n = 0;
  };
  std::vector<counter> done(coroutines);
  std::atomic<bool> stop = false;
  std::deque<part> parts;
  for (std::size_t i = 0; i < (one_client ? 1 : n); ++i) {
    part& p = parts.emplace_back(one_client ? n : 1);
    conch::config settings = settings_for(url.starts_with("memory:") ? url + std::to_string(i) : url, !one_client);
    p.client.emplace(p.context.get_executor(), settings);
  }
  for (std::size_t i = 0; i < coroutines; ++i) {
    part& p = parts[i % parts.size()];
    asio::co_spawn(p.context, cycles(*p.client, i, stop, done[i].n), asio::detached);
  }
  auto const cpu_of_all = [] {
    timespec t{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
  };
  double const begin = cpu_of_all();
  auto const began = steady::now();
  std::vector<std::thread> all;
  for (std::size_t i = 0; i < n; ++i) {
    all.emplace_back([&context = parts[i % parts.size()].context] { context.run(); });
  }
  std::this_thread::sleep_for(1s);
  stop = true;
  while (std::any_of(parts.begin(), parts.end(),
                     [](part const& p) { return p.client->stats().held != 0 || p.client->stats().waiting != 0; })) {
    std::this_thread::sleep_for(1ms);
  }
  double const spent = cpu_of_all() - begin;
  double const took = std::chrono::duration<double>(steady::now() - began).count();
  for (part& p : parts) p.client.reset();
  for (part& p : parts) p.context.stop();
  for (std::thread& t : all) t.join();
  std::uint64_t count = 0;
  for (counter const& c : done) count += c.n;
  double const each = spent / static_cast<double>(count);
  return {each * static_cast<double>(n), 0,
          std::to_string(static_cast<std::uint64_t>(static_cast<double>(count) / took / 1000)) + " thousand cycles/s"};
}

/// The longest command since the last call, in ms; 0: less than one.
double longest_script(server& redis) {
  std::string const latest = redis.probe().command({"LATENCY", "LATEST"});  // [[event, when, last, longest], ...]
  double longest = 0;
  for (std::size_t at = latest.find(']'); at != std::string::npos; at = latest.find(']', at + 1)) {
    std::size_t const comma = latest.rfind(' ', at);
    if (comma != std::string::npos) longest = std::max(longest, std::atof(latest.c_str() + comma));
  }
  redis.probe().command({"LATENCY", "RESET"});
  return longest;
}

}  // namespace

int main(int argc, char** argv) try {
  options const chosen = parse_options(argc, argv, "F13: what grows with the number of things that are done at once.");
  if (!chosen.wants("F13")) return 0;
  // glibc joins all small pieces that were freed when a large one is, which takes 10 ms after 100,000 holds: its turn,
  // not ours.
  ::mallopt(M_MXFAST, 0);
  server redis;
  raw_connection setup{redis.unix_url()};
  load_scripts(setup);
  redis.probe().command({"CONFIG", "SET", "latency-monitor-threshold", "1"});
  report out{chosen};
  std::vector<std::size_t> const usual{1'000, 3'000, 10'000, 30'000, 100'000};
  std::vector<series> const all{
      {"acquires, then releases, at once",
       {1'000, 10'000, 100'000, 300'000},
       [&](std::size_t n) { return burst(redis.unix_url(), n); }},
      {"waits for one lock that time out together", usual, [&](std::size_t n) { return time_outs(redis, n, true); }},
      {"waits for as many locks that time out together", usual,
       [&](std::size_t n) { return time_outs(redis, n, false); }},
      {"holds of a client that goes", usual, [&](std::size_t n) { return closing(redis, n, false); }},
      {"holds of a client that goes, the server having forgotten the scripts", usual,
       [&](std::size_t n) { return closing(redis, n, true); }},
      {"waiters of a client that goes", usual, [&](std::size_t n) { return closing_waiters(redis, n); }},
      {"holds when the connection breaks", usual, [&](std::size_t n) { return reconnecting(redis, n, true); }},
      {"waiters when the connection breaks", usual, [&](std::size_t n) { return reconnecting(redis, n, false); }},
      {"async_inspect at once", {1'000, 3'000, 10'000, 30'000}, [&](std::size_t n) { return inspecting(redis, n); }},
      {"async_lost cancelled", {1'000, 3'000, 10'000, 30'000}, [&](std::size_t n) { return watching(redis, n); }},
      {"levels of with_lock", {1, 10, 30, 100}, [&](std::size_t n) { return nesting(redis, n); }},
      {"coroutines in line in one process", usual, [&](std::size_t n) { return local_line(redis, n); }},
      {"clients in line", with_descriptors({10, 100, 1'000, 3'000, 9'500}, 2),
       [&](std::size_t n) { return clients_in_line(redis.unix_url(), n); }},
      {"owners of a semaphore", {100, 1'000, 10'000, 30'000}, [&](std::size_t n) { return permits(redis, n); }},
      {"threads with one client, locks in memory",
       {1, 2, 4},
       [&](std::size_t n) { return threads("memory://growth", n, true); },
       false},
      {"threads with a client each, locks in memory",
       {1, 2, 4},
       [&](std::size_t n) { return threads("memory://growth", n, false); },
       false},
      {"threads with one client", {1, 2, 4}, [&](std::size_t n) { return threads(redis.unix_url(), n, true); }, false},
      {"threads with a client each",
       {1, 2, 4},
       [&](std::size_t n) { return threads(redis.unix_url(), n, false); },
       false},
      {"locks of a multi_lock", {16, 64, 128, 512}, [&](std::size_t n) { return many_at_once(redis, n); }},
  };
  growth table{out, chosen};
  table.prepare = [&] {
    redis.probe().command({"FLUSHALL"});
    longest_script(redis);
  };
  table.longest_script = [&] { return longest_script(redis); };
  for (series const& one : all) table.run(one);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_growth: %s\n", error.what());
  return 1;
}
