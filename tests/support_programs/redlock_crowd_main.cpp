// One process of a crowd after one lock over several servers.
//
//   conch-redlock-crowd URL NAME COROUTINES ROUNDS FILE
//
// Each coroutine takes the lock ROUNDS times and, under it, adds one to the number in FILE by reading and writing: two at a
// time would lose one. Waits for a line of input before it begins; then writes one line:
// GRANTS VOTES_GIVEN_BACK SCRIPTS P99_WAIT_US MAX_WAIT_US SECONDS_US LOSSES

#include <conch/conch.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace {

namespace asio = boost::asio;

struct crowd {
  conch::mutex& lock;
  int file;
  int rounds;
  std::vector<long> waits_us;
  long losses = 0;
};

long microseconds(std::chrono::steady_clock::duration d) {
  return static_cast<long>(std::chrono::duration_cast<std::chrono::microseconds>(d).count());
}

void add_one(int file) {
  char text[24] = {};
  if (::pread(file, text, sizeof text - 1, 0) < 0) std::abort();
  int const size = std::snprintf(text, sizeof text, "%-20ld", std::atol(text) + 1);
  if (::pwrite(file, text, static_cast<std::size_t>(size), 0) != size) std::abort();
}

asio::awaitable<void> one_of_many(crowd& all) {
  for (int i = 0; i < all.rounds; ++i) {
    auto const asked = std::chrono::steady_clock::now();
    conch::hold h = co_await all.lock.async_acquire();
    all.waits_us.push_back(microseconds(std::chrono::steady_clock::now() - asked));
    add_one(all.file);
    bool const was_held = co_await h.async_release();
    if (!was_held) ++all.losses;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    asio::io_context ctx;
    conch::config settings;
    settings.url = argv[1];
    conch::client client{ctx.get_executor(), settings};
    conch::mutex lock{client, argv[2]};
    int const file = ::open(argv[5], O_RDWR);
    if (file < 0) return 3;
    crowd all{lock, file, std::atoi(argv[4]), {}};
    if (std::getchar() == EOF) return 4;
    int left = std::atoi(argv[3]);
    auto const began = std::chrono::steady_clock::now();
    for (int i = left; i > 0; --i) {
      asio::co_spawn(ctx, one_of_many(all), [&](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
        if (--left == 0) ctx.stop();
      });
    }
    ctx.run();
    auto const took = std::chrono::steady_clock::now() - began;
    std::sort(all.waits_us.begin(), all.waits_us.end());
    conch::statistics const s = client.stats();
    std::size_t const p99 = all.waits_us.size() * 99 / 100;
    std::printf("%zu %llu %llu %ld %ld %ld %ld\n", all.waits_us.size(), static_cast<unsigned long long>(s.votes_given_back),
                static_cast<unsigned long long>(s.scripts), all.waits_us[p99], all.waits_us.back(), microseconds(took), all.losses);
    client.async_close(std::chrono::seconds{5}, [](conch::error_code) {});
    ctx.restart();
    ctx.run();
    return 0;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
