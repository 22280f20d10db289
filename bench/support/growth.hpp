// F13, growth: what many things at once cost, at several sizes, and how that grows.
#pragma once

#include <conch/conch.hpp>

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/report.hpp"
#include "support/workers.hpp"

namespace conch::bench {

using namespace std::chrono_literals;

/// For this thread: what other programs do does not count.
inline double thread_cpu_us() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

/// An event loop that knows how long its longest turn took.
struct loop {
  asio::io_context context{1};
  double longest_us = 0;

  void until(std::function<bool()> const& reached, char const* what) {
    auto const end = steady::now() + 120s;
    while (!reached()) {
      if (steady::now() > end) throw std::runtime_error(std::string{"never seen: "} + what);
      double const before = thread_cpu_us();
      context.restart();
      context.run_one_for(1ms);
      longest_us = std::max(longest_us, thread_cpu_us() - before);
    }
  }
};

struct measured {
  double all_us = 0, longest_us = 0;
  std::string remark = {};
  double clock_us = 0;  // 0: the clock says nothing that the CPU time does not
};

/// What a number of locks and their holds need.
struct crowd {
  explicit crowd(conch::config settings) : client{std::in_place, in.context.get_executor(), std::move(settings)} {}

  std::vector<conch::hold> acquire(std::size_t n, std::string const& prefix) {
    std::vector<conch::hold> holds(n);
    std::size_t done = 0;
    for (std::size_t i = 0; i < n; ++i) {
      conch::mutex m{*client, prefix + std::to_string(i)};
      m.async_acquire([&, i](conch::error_code ec, conch::hold h) {
        ++done;
        if (ec) throw boost::system::system_error{ec};
        holds[i] = std::move(h);
      });
      if (i % 500 == 499) in.until([&] { return done == i + 1; }, "holds");
    }
    in.until([&] { return done == n; }, "holds");
    in.longest_us = 0;
    return holds;
  }

  loop in;
  std::optional<conch::client> client;
};

/// One thing that is done n times at once.
struct series {
  std::string name;
  std::vector<std::size_t> sizes;  // ascending
  std::function<measured(std::size_t)> run;
  bool in_one_loop = true;  // then the longest turn of it says something
  char const* unit = "us each";
};

/// The exponent: how the whole grew from the first size to the last.
inline double power_of(std::vector<std::size_t> const& sizes, std::vector<double> const& each) {
  return 1 + std::log(each.back() / each.front()) /
                 std::log(static_cast<double>(sizes.back()) / static_cast<double>(sizes.front()));
}

/// How the cost of each depends on their number: hardly (the whole is a straight line, with a power of 0.9 to 1.05), or
/// as a + b ln n, a sixth off at most (a logarithm), or neither.
inline std::string shape_of(std::vector<std::size_t> const& sizes, std::vector<double> const& each) {
  double const power = power_of(sizes, each);
  if (power < 0.9) return "a straight line at most: each gets cheaper";
  if (power <= 1.05) return "a straight line: each costs the same";
  double x = 0, y = 0, xx = 0, xy = 0;
  auto const n = static_cast<double>(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    double const at = std::log(static_cast<double>(sizes[i]));
    x += at, y += each[i], xx += at * at, xy += at * each[i];
  }
  double const slope = (n * xy - x * y) / (n * xx - x * x), start = (y - slope * x) / n;
  double off = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    double const fitted = start + slope * std::log(static_cast<double>(sizes[i]));
    off += (fitted / each[i] - 1) * (fitted / each[i] - 1);
  }
  return std::sqrt(off / n) <= 1. / 6 ? "each as the logarithm" : "each by more than the logarithm";
}

/// Runs series, and writes their rows. CONCH_GROWTH_CASE: only those whose names have this in them.
class growth {
 public:
  growth(report& out, options const& chosen) : out_{out}, chosen_{chosen} {}

  /// Before each run.
  std::function<void()> prepare = [] {};
  /// In ms, since the last prepare(); none: nobody knows.
  std::function<double()> longest_script;

  void run(series const& one) {
    char const* const only = std::getenv("CONCH_GROWTH_CASE");
    if (only != nullptr && one.name.find(only) == one.name.npos) return;
    std::vector<double> medians, by_the_clock;
    for (std::size_t const n : one.sizes) {
      samples each, longest, scripts, clock;
      std::string remark;
      for (int i = 0; i < chosen_.repetitions; ++i) {
        progress("F13 " + one.name + ", " + std::to_string(n));
        prepare();
        measured const m = one.run(n);
        each.add(m.all_us / static_cast<double>(n));
        longest.add(m.longest_us / 1000);
        clock.add(m.clock_us / static_cast<double>(n));
        if (longest_script) scripts.add(longest_script());
        remark = m.remark;
      }
      medians.push_back(each.median());
      std::string const name = std::to_string(n) + ' ' + one.name;
      out_.add("F13", name + (remark.empty() ? "" : " (" + remark + ")"), each, one.unit);
      if (clock.median() > 0) {
        by_the_clock.push_back(clock.median());
        out_.add("F13", name + ": by the clock", clock, one.unit);
      }
      if (!one.in_one_loop) continue;
      out_.add("F13", name + ": longest turn of the loop", longest, "ms");
      if (longest_script) out_.add("F13", name + ": longest script, in the best run", scripts.quantile(0), "ms");
    }
    shape(one, "", medians);
    if (by_the_clock.size() == one.sizes.size()) shape(one, ", by the clock", by_the_clock);
  }

 private:
  void shape(series const& of, std::string const& how, std::vector<double> const& each) {
    out_.add("F13", of.name + how + ": grows with the power (" + shape_of(of.sizes, each) + ")",
             power_of(of.sizes, each), "");
  }

  report& out_;
  options const& chosen_;
};

/// Without those sizes for which there are not enough file descriptors, of which each needs that many here; a client
/// has a socket and a timer.
inline std::vector<std::size_t> with_descriptors(std::vector<std::size_t> sizes, std::size_t for_each = 1) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  std::erase_if(sizes, [&](std::size_t n) {
    bool const too_many = n * for_each + 200 > limit.rlim_cur;
    if (too_many)
      progress("left out: " + std::to_string(n) + " connections, with a limit of " + std::to_string(limit.rlim_cur) +
               " open files");
    return too_many;
  });
  return sizes;
}

/// That a client's place is in the server's line.
struct in_line : conch::observer {
  bool seen = false;
  void on_queued(conch::lock_event const&) override { seen = true; }
};

/// As many clients, each with a connection of its own, in line for one lock: until all had it.
inline measured clients_in_line(std::string const& url, std::size_t n) {
  crowd holder{settings_for(url, true)};
  std::string const name = "k" + std::to_string(steady::now().time_since_epoch().count());
  auto holds = holder.acquire(1, name);
  loop in;
  std::deque<conch::client> clients;
  std::vector<std::shared_ptr<in_line>> places;
  std::size_t done = 0, failed = 0;
  for (std::size_t i = 0; i < n; ++i) {
    conch::config settings = settings_for(url, true);
    settings.observer = places.emplace_back(std::make_shared<in_line>());
    conch::mutex m{clients.emplace_back(in.context.get_executor(), settings), name + '0'};
    m.async_acquire([&](conch::error_code ec, conch::hold) { ++(ec ? failed : done); });
    if (i % 100 != 99 && i + 1 != n) continue;
    // Some at a time: a server's backlog of connections is not what is measured here.
    std::size_t next = i / 100 * 100;
    in.until(
        [&] {
          while (next <= i && places[next]->seen) ++next;
          return next > i;
        },
        "in line");
  }
  in.longest_us = 0;
  double const begin = thread_cpu_us();
  auto const began = steady::now();
  holds.clear();
  holder.in.until([&] { return holder.client->stats().cleanups_pending == 0; }, "given back");
  in.until([&] { return done + failed == n; }, "all had it");
  double const took = seconds_since(began) * 1e6;
  return {thread_cpu_us() - begin, in.longest_us, std::to_string(failed) + " errors", took};
}

/// Free locks: all acquires at once, then all releases at once.
inline measured burst(std::string const& url, std::size_t n) {
  crowd c{settings_for(url, true)};
  c.acquire(1, "warm");
  std::vector<conch::hold> holds(n);
  std::size_t done = 0, failed = 0;
  double const begin = thread_cpu_us();
  for (std::size_t i = 0; i < n; ++i) {
    conch::mutex m{*c.client, "b" + std::to_string(i)};
    m.async_acquire([&, i](conch::error_code ec, conch::hold h) {
      ++done;
      failed += ec ? 1 : 0;
      holds[i] = std::move(h);
    });
  }
  c.in.until([&] { return done == n; }, "acquired");
  done = 0;
  for (conch::hold& h : holds) {
    h.async_release([&](conch::error_code ec, bool) {
      ++done;
      failed += ec ? 1 : 0;
    });
  }
  c.in.until([&] { return done == n; }, "released");
  double const all = thread_cpu_us() - begin;
  auto const disconnects = c.client->stats().disconnects;
  return {all, c.in.longest_us, std::to_string(disconnects) + " disconnects, " + std::to_string(failed) + " errors"};
}

}  // namespace conch::bench
