// cron starts this job on many machines, and one of them does it: once per period, even if the machines' clocks differ.
//
//   example_22_only_one_job [URL]       default: $CONCH_URL (use it if the URL has a password), else memory://

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <conch/conch.hpp>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

namespace asio = boost::asio;
using namespace std::chrono_literals;

// What cron runs on each machine. Returns true if this machine did the job.
asio::awaitable<bool> nightly(conch::client& client, conch::duration period, int& done) {
  conch::mutex job{client, "example:nightly"};
  conch::hold mine = co_await job.async_try_acquire();
  if (!mine) co_return false;  // another machine does the job or has done it

  ++done;  // stands for the work; the client renews the lock meanwhile, and if this machine dies, the lease expires

  // If the job released the lock now, a machine whose clock is a second late would do the job again. So the hold is
  // extended for most of the period and detached: it then expires by itself, even if this process ends now.
  bool const held = co_await mine.async_extend(period);
  if (held) co_await mine.async_detach();
  co_return true;
}

// Four machines run the job one after the other.
asio::awaitable<bool> demonstrate(std::string url) {
  auto const executor = co_await asio::this_coro::executor;
  int done = 0;
  int reported = 0;
  conch::duration const period = std::chrono::hours{23};  // of a job that runs once a day
  for (int machine = 1; machine <= 4; ++machine) {
    conch::client client{executor, url};
    bool const here = co_await nightly(client, period, done);
    std::cout << "machine " << machine << (here ? " did the job\n" : " skipped the job\n");
    reported += here ? 1 : 0;
  }
  bool const once = done == 1 && reported == 1;

  conch::client client{executor, url};
  conch::mutex const job{client, "example:nightly"};
  conch::lock_status const now = co_await job.async_inspect();
  bool const kept = now.holders.size() == 1 && now.holders[0].lease_left > std::chrono::hours{22} &&
                    now.holders[0].lease_left <= period;

  // To run the job again earlier, an operator takes the lock away: `conch unlock example:nightly`.
  std::uint32_t const revoked = co_await job.async_force_release();
  bool const again = co_await nightly(client, period, done);
  std::cout << "after an operator has freed the lock, the job " << (again ? "runs again\n" : "does not run?!\n");
  co_await job.async_force_release();
  bool const as_expected = once && kept && revoked == 1 && again && done == 2;
  co_return as_expected;
}

int main(int argc, char** argv) {
  char const* const env_url = std::getenv("CONCH_URL");
  std::string const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";
  asio::io_context context;
  bool ok = false;
  asio::co_spawn(context, demonstrate(url), [&ok](std::exception_ptr failed, bool as_expected) {
    if (failed) std::rethrow_exception(failed);
    ok = as_expected;
  });
  try {
    context.run();
  } catch (std::exception const& error) {
    std::cerr << error.what() << '\n';
  }
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
