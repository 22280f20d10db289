// The engine alone: a wire that answers from memory, no clock but a counter.
#include <benchmark/benchmark.h>

#include <array>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/cohort.hpp"
#include "memory/allocations.hpp"
#include "protocol/server.hpp"

namespace {

using namespace conch;
using namespace conch::engine;
using namespace conch::protocol;
using namespace conch::protocol;

/// The operating system's cost 15 ns each (src/base/entropy.hpp).
struct numbered_nonces final : entropy {
  std::uint64_t next() override { return ++last_; }
  std::uint64_t last_ = std::uint64_t{1} << 63;
};

/// Grants everything at once, one lock or many.
class world final : public wire, public acquisition_events, public log_sink {
 public:
  world() {
    server_ = std::make_unique<server>(settings_, 1, nonces_, timers_, *this, cohort_, *this, stats_);
    cohort_.use(*server_);
    server_->receiver().connected_as({1, "bench", server_us(), now_}, now_);
    answer_all();
  }

  void acquire(acquisition& a, std::string_view name) {
    a.lease = milliseconds{30'000};
    cohort_.acquire(a, name, step());
  }
  void release(acquisition& a) { cohort_.release(a, step()); }

  /// Every request sent so far is answered.
  void answer_all() {
    while (!numbers_.empty()) {
      auto const [count, values] = numbers_.front();
      numbers_.pop_front();
      server_->receiver().answered({fault::none, {}, std::span{values}.first(count)}, step());
    }
  }

  acquisition* last_granted = nullptr;
  std::uint64_t released = 0;

 private:
  // wire
  void send(command const& c) override {
    if (std::holds_alternative<acquire_command>(c)) {
      numbers_.push_back({3, {1, ++fence_, server_us(), 0, 0, 0}});
    } else if (auto const* r = std::get_if<release_command>(&c)) {
      numbers_.push_back({r->new_id != 0 ? 6u : 4u, {1, 0, 0, server_us(), 1, ++fence_}});
    } else {
      numbers_.push_back({1, {1, 0, 0, 0, 0, 0}});
    }
  }
  void want_connection() override {}
  void drop_connection(std::string_view) override {}
  // events
  void on_acquired(acquisition& a, acquired, error_code) override { last_granted = &a; }
  void on_lost(acquisition&, error_code) override {}
  void on_released(acquisition&, bool, error_code) override { ++released; }
  void note(bool, std::string_view) override {}

  time_point step() { return now_ += duration{100}; }
  std::int64_t server_us() const { return 1'700'000'000'000'000 + now_.time_since_epoch().count() / 1000; }

  struct reply {
    std::size_t count;
    std::array<std::int64_t, 6> values;
  };

  config settings_ = [] {
    config c;
    c.renew_every = std::chrono::seconds{10};
    return c;
  }();
  time_point now_{std::chrono::seconds{1000}};
  statistics stats_;
  timer_queue timers_;
  numbered_nonces nonces_;
  std::deque<reply> numbers_;
  std::int64_t fence_ = 0;
  std::unique_ptr<server> server_;  // outlives the cohort
  engine::cohort cohort_{settings_, timers_, *this, stats_};
};

void engine_cycle(benchmark::State& state) {
  world w;
  auto const locks = static_cast<std::size_t>(state.range(0));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < locks; ++i) names.push_back("stock:" + std::to_string(i));
  std::uint64_t const before = bench::allocations();
  for (auto _ : state) {
    std::deque<acquisition> all(locks);
    for (std::size_t i = 0; i < locks; ++i) w.acquire(all[i], names[i]);
    w.answer_all();
    for (acquisition& a : all) w.release(a);
    w.answer_all();
  }
  auto const cycles = static_cast<double>(state.iterations()) * static_cast<double>(locks);
  state.counters["allocations/cycle"] = static_cast<double>(bench::allocations() - before) / cycles;
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(engine_cycle)->Arg(1)->Arg(1000)->Arg(100000);

/// The engine's part of a local hand-off: one waits while the other releases.
void engine_hand_off(benchmark::State& state) {
  world w;
  std::array<std::unique_ptr<acquisition>, 2> two{std::make_unique<acquisition>(), std::make_unique<acquisition>()};
  w.acquire(*two[0], "stock");
  w.answer_all();
  std::size_t holder = 0;
  std::uint64_t const before = bench::allocations();
  for (auto _ : state) {
    std::size_t const next = 1 - holder;
    std::destroy_at(two[next].get());
    std::construct_at(two[next].get());
    w.acquire(*two[next], "stock");
    w.release(*two[holder]);
    w.answer_all();  // at the end of a slice, and after 4096
    holder = next;
  }
  state.counters["allocations/hold"] =
      static_cast<double>(bench::allocations() - before) / static_cast<double>(state.iterations());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(engine_hand_off);

void engine_memory(benchmark::State& state) {
  constexpr std::size_t count = 100'000;
  for (auto _ : state) {
    world w;
    std::deque<acquisition> all(count + 1);
    std::uint64_t const empty = bench::bytes_live();
    for (std::size_t i = 0; i < count; ++i) w.acquire(all[i], "lock-number-" + std::to_string(i));
    w.answer_all();
    state.counters["bytes/hold (engine)"] =
        static_cast<double>(bench::bytes_live() - empty) / count + static_cast<double>(sizeof(acquisition));
    state.counters["bytes/waiter (engine)"] = static_cast<double>(sizeof(acquisition));
    state.PauseTiming();
    for (std::size_t i = 0; i < count; ++i) w.release(all[i]);
    w.answer_all();
    state.ResumeTiming();
  }
}
BENCHMARK(engine_memory)->Iterations(1)->Unit(benchmark::kMillisecond);

void timer_rearm(benchmark::State& state) {
  auto const count = static_cast<std::size_t>(state.range(0));
  timer_queue queue;
  std::deque<timer> timers;
  std::minstd_rand random{1};
  auto const at = [&] { return time_point{duration{static_cast<std::int64_t>(random())}}; };
  for (std::size_t i = 0; i < count; ++i) {
    timers.emplace_back(nullptr, [](void*, time_point) {});
    queue.arm(timers.back(), at());
  }
  for (auto _ : state) queue.arm(timers[random() % count], at());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(timer_rearm)->Arg(10)->Arg(1000)->Arg(100000);

void timer_arm_cancel(benchmark::State& state) {
  auto const count = static_cast<std::size_t>(state.range(0));
  timer_queue queue;
  std::deque<timer> timers;
  for (std::size_t i = 0; i < count; ++i) {
    timers.emplace_back(nullptr, [](void*, time_point) {});
    queue.arm(timers.back(), time_point{duration{static_cast<std::int64_t>(i) * 1000}});
  }
  timer mine{nullptr, [](void*, time_point) {}};
  std::int64_t latest = static_cast<std::int64_t>(count) * 1000;
  for (auto _ : state) {
    queue.arm(mine, time_point{duration{++latest}});  // the usual case: due after all others
    mine.cancel();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(timer_arm_cancel)->Arg(10)->Arg(1000)->Arg(100000);

}  // namespace
