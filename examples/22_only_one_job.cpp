// A job that cron starts on each of many machines, and that one of them does: once in each period, also if the clocks of the machines differ.
//
//   example_22_only_one_job [URL]       the default is $CONCH_URL (the place for a password), else memory://

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

// What cron calls on each machine. True: the job was done here.
asio::awaitable<bool> nightly(conch::client& client, conch::duration period, int& done) {
  conch::mutex job{client, "example:nightly"};
  conch::hold mine = co_await job.async_try_acquire();
  if (!mine) co_return false;  // another machine is at it, or has done it

  ++done;  // the work; the lock is renewed meanwhile, and a machine that dies gives it up with its lease

  // Released now, it would be free for a machine whose clock is a second late. Instead it goes on for most of the period, and nobody
  // renews it: also not if this process ends now.
  bool const held = co_await mine.async_extend(period);
  if (held) co_await mine.async_detach();
  co_return true;
}

// Three machines, and a fourth that comes late.
asio::awaitable<bool> demonstrate(std::string url) {
  auto const executor = co_await asio::this_coro::executor;
  int done = 0;
  int said_so = 0;
  conch::duration const period = std::chrono::hours{23};  // of a job that runs once a day
  for (int machine = 1; machine <= 4; ++machine) {
    conch::client client{executor, url};
    bool const here = co_await nightly(client, period, done);
    std::cout << "machine " << machine << (here ? " has done it\n" : " leaves it to another\n");
    said_so += here ? 1 : 0;
  }
  bool const once = done == 1 && said_so == 1;

  conch::client client{executor, url};
  conch::mutex const job{client, "example:nightly"};
  conch::lock_status const now = co_await job.async_inspect();
  bool const kept = now.holders.size() == 1 && now.holders[0].lease_left > std::chrono::hours{22} && now.holders[0].lease_left <= period;

  // To do it again before that, an operator takes the lock away: `conch unlock example:nightly`.
  std::uint32_t const from = co_await job.async_force_release();
  bool const again = co_await nightly(client, period, done);
  std::cout << "after an operator has freed the lock it is done " << (again ? "again\n" : "no more?!\n");
  co_await job.async_force_release();
  bool const as_expected = once && kept && from == 1 && again && done == 2;
  co_return as_expected;
}

int main(int argc, char** argv) {
  char const* const set = std::getenv("CONCH_URL");
  std::string const url = argc > 1 ? argv[1] : set != nullptr ? set : "memory://";
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
