// F6: holds per second of many coroutines in one process after one lock.
#include <conch/conch.hpp>

#include <cstdio>
#include <exception>
#include <string>

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

void alone(report& out, options const& chosen, server& redis) {
  for (bool const single_threaded : {false, true}) {
    asio::io_context context{1};
    crew workers{context};
    conch::client client{context.get_executor(), settings_for(redis.unix_url(), single_threaded)};
    conch::mutex lock{client, "bench:one"};
    asio::io_context bare{1};
    crew bare_workers{bare};
    for (std::size_t const coroutines : {2u, 1000u}) {
      std::string const name = std::to_string(coroutines) + " coroutines" + (single_threaded ? ", single_threaded" : "");
      auto const measure = [&](std::string const& what, auto work) {
        progress("F6 " + name + what);
        auto const [holds, floor] = interleave(
            chosen.repetitions,
            [&] { return workers.run(coroutines, in_seconds(chosen.seconds), [&](std::size_t) { return work(workers, lock); }); },
            [&] {
              return bare_workers.run(coroutines, in_seconds(chosen.seconds),
                                      [&](std::size_t) { return post_and_resume(bare_workers); });
            });
        out.add("F6", name + what, holds, "holds/s", &floor);
      };
      measure(", release awaited", awaited_releases);
      measure(", hold dropped", dropped_holds);
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  options const chosen =
      parse_options(argc, argv, "F6: local hand-offs of one lock against a bare loop of posting and resuming.");
  server redis;
  report out{chosen};
  if (chosen.wants("F6")) alone(out, chosen, redis);
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_local: %s\n", error.what());
  return 1;
}
