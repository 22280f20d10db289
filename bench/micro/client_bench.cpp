// The whole client on memory://: local hand-offs per second beside a bare post and resume, and memory per waiter and
// per hold. (bench/e2e/local.cpp is the same against a server; this one needs none.)
#include <benchmark/benchmark.h>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <conch/conch.hpp>

#include <deque>
#include <exception>
#include <vector>

#include "memory/allocations.hpp"

namespace {

namespace asio = boost::asio;

conch::config memory(char const* store) {
  conch::config c;
  c.url = std::string{"memory://"} + store;
  c.single_threaded = true;
  return c;
}

struct counter {
  asio::io_context& context;
  std::int64_t missing;
  std::size_t running;
};

asio::awaitable<void> holds(counter& c, conch::mutex& lock) {
  while (c.missing-- > 0) {
    conch::hold h = co_await lock.async_acquire();
    co_await h.async_release();
  }
  if (--c.running == 0) c.context.stop();
}

asio::awaitable<void> posts(counter& c) {
  auto const executor = co_await asio::this_coro::executor;
  while (c.missing-- > 0) co_await asio::post(executor, asio::deferred);
  if (--c.running == 0) c.context.stop();
}

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

constexpr std::int64_t batch = 100'000;

void report(benchmark::State& state, std::uint64_t allocations) {
  auto const count = static_cast<double>(state.iterations()) * static_cast<double>(batch);
  state.counters["allocations"] = static_cast<double>(allocations) / count;
  state.SetItemsProcessed(state.iterations() * batch);
}

void local_hand_off(benchmark::State& state) {
  asio::io_context context{1};
  conch::client client{context.get_executor(), memory("hand_off")};
  conch::mutex lock{client, "one"};
  std::uint64_t const before = conch::bench::allocations();
  for (auto _ : state) {
    counter c{context, batch, static_cast<std::size_t>(state.range(0))};
    for (std::size_t i = c.running; i > 0; --i) asio::co_spawn(context, holds(c, lock), rethrow);
    context.restart();
    context.run();
  }
  report(state, conch::bench::allocations() - before);
}
BENCHMARK(local_hand_off)->Arg(2)->Arg(1000)->Unit(benchmark::kMillisecond);

void bare_post_and_resume(benchmark::State& state) {
  asio::io_context context{1};
  std::uint64_t const before = conch::bench::allocations();
  for (auto _ : state) {
    counter c{context, batch, static_cast<std::size_t>(state.range(0))};
    for (std::size_t i = c.running; i > 0; --i) asio::co_spawn(context, posts(c), rethrow);
    context.restart();
    context.run();
  }
  report(state, conch::bench::allocations() - before);
}
BENCHMARK(bare_post_and_resume)->Arg(2)->Arg(1000)->Unit(benchmark::kMillisecond);

/// Callbacks instead of coroutines, so that what is counted is the library's own.
void memory_per_waiter_and_hold(benchmark::State& state) {
  constexpr std::size_t count = 100'000;
  for (auto _ : state) {
    asio::io_context context{1};
    conch::client client{context.get_executor(), memory("waiters")};
    std::vector<conch::hold> held(count + 1);
    conch::mutex one{client, "one"};
    std::size_t granted = 0;
    one.async_acquire([&](conch::error_code, conch::hold h) { held[granted++] = std::move(h); });
    while (granted == 0) context.run_one();

    std::uint64_t before = conch::bench::bytes_live();
    for (std::size_t i = 0; i < count; ++i) one.async_acquire([](conch::error_code, conch::hold) {});
    context.poll();
    state.counters["bytes/waiter"] = static_cast<double>(conch::bench::bytes_live() - before) / count;

    conch::client other{context.get_executor(), memory("holds")};
    std::deque<conch::mutex> many;
    for (std::size_t i = 0; i < count; ++i) many.emplace_back(other, "lock-number-" + std::to_string(i));
    before = conch::bench::bytes_live();
    for (conch::mutex& m : many)
      m.async_acquire([&](conch::error_code, conch::hold h) { held[granted++] = std::move(h); });
    while (granted < count + 1) context.run_one();
    context.poll();
    state.counters["bytes/hold"] = static_cast<double>(conch::bench::bytes_live() - before) / count;
  }
}
BENCHMARK(memory_per_waiter_and_hold)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
