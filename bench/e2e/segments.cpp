// F11: orders of 20 ms, by 200 waiting coroutines in 4 processes: under one lock, and under one in 20 segments. The
// floor is what 20 ms allow if nothing else took time.
#include <boost/asio/steady_timer.hpp>
#include <conch/conch.hpp>
#include <conch/striped_mutex.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "support/processes.hpp"
#include "support/raw.hpp"
#include "support/report.hpp"
#include "support/server.hpp"
#include "support/workers.hpp"

namespace {

using namespace conch::bench;
using std::chrono::milliseconds;

constexpr milliseconds order_takes{20};
constexpr std::size_t processes = 4, waiters = 50, most = 200'000;

struct orders {
  barrier begin;
  std::atomic<std::size_t> count{0};
  std::array<std::int64_t, most> done_ns{};
};

asio::awaitable<conch::hold> next(conch::mutex& lock) { co_return co_await lock.async_acquire(asio::use_awaitable); }
asio::awaitable<conch::hold> next(conch::striped_mutex& lock) {
  co_return co_await lock.async_acquire_any(asio::use_awaitable);
}

template <class Lock>
asio::awaitable<void> sell(orders& all, Lock& lock, crew& with, asio::io_context& context) {
  asio::steady_timer timer{context};
  while (with.working()) {
    conch::hold h = co_await next(lock);
    timer.expires_after(order_takes);
    co_await timer.async_wait(asio::deferred);
    co_await h.async_release();
    std::size_t const at = all.count.fetch_add(1);
    if (at < most) all.done_ns[at] = steady::now().time_since_epoch().count();
  }
}

/// From the first order that is done in the second half to the last while all are at it; so it does not matter where
/// the time begins and ends.
double rate(orders const& all, std::chrono::nanoseconds how_long) {
  std::vector<std::int64_t> done(all.done_ns.begin(),
                                 all.done_ns.begin() + static_cast<std::ptrdiff_t>(std::min(all.count.load(), most)));
  std::sort(done.begin(), done.end());
  if (done.empty()) return 0;
  // In the beginning orders end together (see below), in the end some have already gone home.
  std::int64_t const from = done.front() + how_long.count() / 2, to = done.front() + how_long.count() * 9 / 10;
  auto const first = std::lower_bound(done.begin(), done.end(), from);
  auto const last = std::lower_bound(first, done.end(), to);
  if (last - first < 2) return 0;
  return static_cast<double>(last - first - 1) * 1e9 / static_cast<double>(*(last - 1) - *first);
}

template <class Make>
double measure(server& redis, std::chrono::nanoseconds how_long, Make make) {
  redis.probe().command({"FLUSHALL"});
  shared<orders> all;
  std::vector<std::unique_ptr<child>> children;
  for (std::size_t p = 0; p < processes; ++p) {
    children.push_back(std::make_unique<child>([&] {
      asio::io_context context{1};
      conch::client client{context.get_executor(), settings_for(redis.unix_url(), true)};
      auto lock = make(client);
      conch::mutex warm{client, "bench:warm:" + std::to_string(p)};
      crew with{context};
      with.run(1, milliseconds{1}, [&](std::size_t) { return uncontended_cycles(with, warm); });
      all->begin.wait(processes);
      with.run(waiters, how_long, [&](std::size_t) { return sell(*all, lock, with, context); });
    }));
  }
  for (auto& one : children) one->join();
  return rate(*all, how_long);
}

}  // namespace

int main(int argc, char** argv) try {
  options const chosen = parse_options(argc, argv, "F11: orders of 20 ms under one lock and under one in 20 segments.");
  if (!chosen.wants("F11")) return 0;
  server redis;
  raw_connection setup{redis.unix_url()};
  load_scripts(setup);
  report out{chosen};
  constexpr std::uint32_t segments = 20;
  constexpr double ideal = 1000.0 / static_cast<double>(order_takes.count());
  // All segments are free at the beginning, so that the first orders end together, and those behind them; they get out
  // of step little by little. It is the rate that lasts which is measured, not the first seconds.
  auto const how_long = in_seconds(chosen.seconds * 25);
  samples one, many, floor_of_one, floor_of_many;
  floor_of_one.add(ideal);
  floor_of_many.add(ideal * segments);
  for (int i = 0; i < chosen.repetitions; ++i) {
    progress("F11 one lock");
    one.add(measure(redis, how_long, [](conch::client& c) { return conch::mutex{c, "bench:stock"}; }));
    progress("F11 20 segments");
    many.add(measure(redis, how_long, [](conch::client& c) {
      return conch::striped_mutex{c, "bench:stock", segments};
    }));
  }
  out.add("F11", "4 x 50 waiters, orders of 20 ms, one lock", one, "orders/s", "20 ms an order", floor_of_one);
  out.add("F11", "4 x 50 waiters, orders of 20 ms, 20 segments", many, "orders/s", "20 ms an order", floor_of_many);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_segments: %s\n", error.what());
  return 1;
}
