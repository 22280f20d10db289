// The first figures of conch as Google Benchmarks. Each iteration measures conch and its floor one after the other, so
// that what the machine does meanwhile to one it does to the other; the ratio is the result, the rates are there to be
// doubted.
#include <benchmark/benchmark.h>

#include <memory>

#include "support/raw.hpp"
#include "support/report.hpp"
#include "support/server.hpp"
#include "support/workers.hpp"

namespace {

using namespace conch::bench;

constexpr double slice_seconds = 0.05;

server& redis() {
  static auto const instance = [] {
    auto started = std::make_unique<server>();
    raw_connection setup{started->unix_url()};
    load_scripts(setup);
    return started;
  }();
  return *instance;
}

/// Runs `ours` and `floor`, which answer rates, by turns; their medians and the median of their ratios are the result.
template <class Ours, class Floor>
void compare(benchmark::State& state, Ours ours, Floor floor) {
  samples rates, floors, ratios;
  for (auto _ : state) {
    double const rate = ours();
    double const bound = floor();
    rates.add(rate);
    floors.add(bound);
    ratios.add(rate / bound);
    state.SetIterationTime(slice_seconds);
  }
  state.counters["rate"] = rates.median();
  state.counters["floor"] = floors.median();
  state.counters["ratio"] = ratios.median();
}

/// Acquire and release of a lock of its own by each coroutine; the floor sends the same scripts over a raw socket.
void uncontended_cycles_a_second(benchmark::State& state) {
  auto const coroutines = static_cast<std::size_t>(state.range(0));
  asio::io_context context{1};
  crew workers{context};
  conch::client client{context.get_executor(), settings_for(redis().unix_url(), true)};
  auto locks = make_locks(client, coroutines, "bench:");
  auto const work = [&](std::size_t i) { return uncontended_cycles(workers, locks[i]); };
  workers.run(coroutines, in_seconds(slice_seconds), work);  // connects

  raw_connection raw{redis().unix_url()};
  std::vector<lane> lanes;
  for (std::size_t i = 0; i < coroutines; ++i) lanes.push_back(conch_lane("bench:raw:" + std::to_string(i), i + 1));

  compare(
      state, [&] { return workers.run(coroutines, in_seconds(slice_seconds), work); },
      [&] {
        auto const begin = steady::now();
        auto const cycles = run_lanes(raw, lanes, in_seconds(slice_seconds));
        return static_cast<double>(cycles) / seconds_since(begin);
      });
}

asio::awaitable<void> holds(crew& with, conch::mutex& lock) {
  do {
    conch::hold h = co_await lock.async_acquire();
    co_await h.async_release();
    with.count();
  } while (with.working());
}

/// Coroutines of one process after one lock, handed on in memory; the floor is a bare post and resume.
void hand_offs_a_second(benchmark::State& state) {
  auto const coroutines = static_cast<std::size_t>(state.range(0));
  asio::io_context context{1}, bare{1};
  crew workers{context}, bare_workers{bare};
  conch::client client{context.get_executor(), settings_for(redis().unix_url(), true)};
  conch::mutex lock{client, "bench:one"};
  compare(
      state,
      [&] {
        return workers.run(coroutines, in_seconds(slice_seconds), [&](std::size_t) { return holds(workers, lock); });
      },
      [&] {
        return bare_workers.run(coroutines, in_seconds(slice_seconds),
                                [&](std::size_t) { return post_and_resume(bare_workers); });
      });
}

BENCHMARK(uncontended_cycles_a_second)
    ->Arg(1)
    ->Arg(1000)
    ->UseManualTime()
    ->Iterations(15)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(hand_offs_a_second)->Arg(2)->Arg(1000)->UseManualTime()->Iterations(15)->Unit(benchmark::kMillisecond);

}  // namespace
