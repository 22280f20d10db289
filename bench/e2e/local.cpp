// F6: holds per second of many coroutines in one process after one lock.
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/steady_timer.hpp>
#include <conch/conch.hpp>

#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <exception>
#include <string>
#include <string_view>

#include "support/processes.hpp"
#include "support/report.hpp"
#include "support/server.hpp"
#include "support/workers.hpp"

namespace {

using namespace conch::bench;

asio::awaitable<void> awaited_releases(crew& with, conch::mutex& lock) {
  do {
    conch::hold h = co_await lock.async_acquire();
    co_await h.async_release();
    with.count();
  } while (with.working());
}

asio::awaitable<void> dropped_holds(crew& with, conch::mutex& lock) {
  do {
    conch::hold h = co_await lock.async_acquire();
    with.count();
  } while (with.working());
}

/// The least that hands something on between coroutines of one event loop: a line of handlers. No server, no lease, no
/// time-out, no cancellation, one thread.
struct line_of_handlers {
  using handler = asio::any_completion_handler<void()>;

  auto async_acquire() {
    return asio::async_initiate<asio::deferred_t const, void()>(
        [this](auto h) {
          if (taken) {
            waiting.emplace_back(std::move(h));
          } else {
            taken = true;
            asio::post(executor, std::move(h));
          }
        },
        asio::deferred);
  }

  auto async_release() {
    return asio::async_initiate<asio::deferred_t const, void()>(
        [this](auto h) {
          if (waiting.empty()) {
            taken = false;
          } else {
            asio::post(executor, std::move(waiting.front()));
            waiting.pop_front();
          }
          asio::post(executor, std::move(h));
        },
        asio::deferred);
  }

  asio::any_io_executor executor;
  std::deque<handler> waiting = {};
  bool taken = false;
};

asio::awaitable<void> passed_on(crew& with, line_of_handlers& line) {
  do {
    co_await line.async_acquire();
    co_await line.async_release();
    with.count();
  } while (with.working());
}

constexpr std::string_view posting_alone = "coroutines that post themselves";

void line_alone(report& out, options const& chosen, std::string const& name, std::size_t coroutines,
                asio::io_context& bare, crew& workers) {
  progress("F6 " + name + ", a line of handlers");
  line_of_handlers line{bare.get_executor()};
  auto const [passes, floor] = interleave(
      chosen.repetitions,
      [&] {
        return workers.run(coroutines, in_seconds(chosen.seconds),
                           [&](std::size_t) { return passed_on(workers, line); });
      },
      [&] {
        return workers.run(coroutines, in_seconds(chosen.seconds),
                           [&](std::size_t) { return post_and_resume(workers); });
      });
  out.add("F6", name + ", nothing but a line of handlers, in place of conch", passes, "holds/s", posting_alone, floor);
}

void alone(report& out, options const& chosen, server& redis) {
  for (bool const single_threaded : {false, true}) {
    // The last hold that was dropped may not have been given back before its context ended: it would cost its lease.
    redis.probe().command({"FLUSHALL"});
    asio::io_context context{1};
    crew workers{context};
    conch::client client{context.get_executor(), settings_for(redis.unix_url(), single_threaded)};
    conch::mutex lock{client, "bench:one"};
    asio::io_context bare{1};
    crew bare_workers{bare};
    for (std::size_t const coroutines : {2u, 1000u}) {
      std::string const name =
          std::to_string(coroutines) + " coroutines" + (single_threaded ? ", single_threaded" : "");
      auto const measure = [&](std::string const& what, auto work) {
        progress("F6 " + name + what);
        auto const [holds, floor] = interleave(
            chosen.repetitions,
            [&] {
              return workers.run(coroutines, in_seconds(chosen.seconds),
                                 [&](std::size_t) { return work(workers, lock); });
            },
            [&] {
              return bare_workers.run(coroutines, in_seconds(chosen.seconds),
                                      [&](std::size_t) { return post_and_resume(bare_workers); });
            });
        out.add("F6", name + what, holds, "holds/s", posting_alone, floor);
      };
      measure(", release awaited", awaited_releases);
      measure(", hold dropped", dropped_holds);
      if (!single_threaded) line_alone(out, chosen, name, coroutines, bare, bare_workers);
    }
  }
}

struct competition {
  barrier begin;
  std::atomic<bool> over{false};
  std::atomic<std::size_t> count{0};
  std::array<float, 100'000> wait_ms{};
};

/// Wants the lock now and then.
asio::awaitable<void> compete(competition& c, conch::mutex& lock, crew& with, asio::io_context& context) {
  asio::steady_timer timer{context};
  do {
    auto const begin = steady::now();
    conch::hold h = co_await lock.async_acquire();
    std::size_t const at = c.count.load();
    if (at < c.wait_ms.size()) {
      c.wait_ms[at] = static_cast<float>(seconds_since(begin) * 1e3);
      c.count = at + 1;
    }
    co_await h.async_release();
    with.count();
    timer.expires_after(std::chrono::milliseconds{1});
    co_await timer.async_wait(asio::deferred);
  } while (with.working());
}

void with_competitor(report& out, options const& chosen, server& redis) {
  progress("F6 with a competitor");
  samples holds, floor, p50, p99;
  double slice_ms = 0;
  for (int i = 0; i < chosen.repetitions; ++i) {
    redis.probe().command({"FLUSHALL"});
    shared<competition> c;
    child other{[&] {
      asio::io_context context{1};
      conch::client client{context.get_executor(), settings_for(redis.unix_url(), true)};
      conch::mutex lock{client, "bench:contested"};
      crew with{context};
      c->begin.wait(2);
      with.run(1, in_seconds(chosen.seconds * 2), [&](std::size_t) { return compete(*c, lock, with, context); });
    }};
    {
      asio::io_context context{1};
      conch::client client{context.get_executor(), settings_for(redis.unix_url(), true)};
      slice_ms = std::chrono::duration<double, std::milli>(client.settings().local_slice).count();
      conch::mutex lock{client, "bench:contested"};
      crew with{context};
      c->begin.wait(2);
      holds.add(
          with.run(1000, in_seconds(chosen.seconds * 2), [&](std::size_t) { return awaited_releases(with, lock); }));
    }
    other.join();
    asio::io_context bare{1};
    crew with{bare};
    floor.add(with.run(1000, in_seconds(chosen.seconds), [&](std::size_t) { return post_and_resume(with); }));
    samples waits;
    for (std::size_t k = 0; k < c->count; ++k) waits.add(static_cast<double>(c->wait_ms[k]));
    p50.add(waits.quantile(0.5));
    p99.add(waits.quantile(0.99));
  }
  samples slice;
  slice.add(slice_ms);
  out.add("F6", "1000 coroutines, single_threaded, with a competing process", holds, "holds/s", posting_alone, floor);
  out.add("F6", "the competitor's wait, p50", p50, "ms", "local_slice", slice);
  out.add("F6", "the competitor's wait, p99", p99, "ms", "local_slice", slice);
}

}  // namespace

int main(int argc, char** argv) try {
  options const chosen =
      parse_options(argc, argv, "F6: local hand-offs of one lock against a bare loop of posting and resuming.");
  server redis;
  report out{chosen};
  if (chosen.wants("F6")) {
    alone(out, chosen, redis);
    with_competitor(out, chosen, redis);
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_local: %s\n", error.what());
  return 1;
}
