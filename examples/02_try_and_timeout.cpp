// Three ways to acquire: try once, wait with a timeout, or wait without a limit.
//
//   example_02_try_and_timeout [URL]        default: $CONCH_URL (use it if the URL has a password), else memory://

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <conch/with_lock.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>

namespace asio = boost::asio;
using namespace std::chrono_literals;

// The two clients stand for two processes.
asio::awaitable<bool> ask(conch::client& one, conch::client& two) {
  conch::mutex mine{one, "example:door"};
  conch::mutex theirs{two, "example:door"};

  conch::hold first = co_await mine.async_acquire();
  std::cout << "the first client holds the lock\n";

  // A try never waits. "Busy" is not an error: the hold is empty.
  conch::hold tried = co_await theirs.async_try_acquire();
  std::cout << "try while it is held: " << (tried ? "granted?!" : "busy") << '\n';

  // A timeout is an error. as_tuple returns it as a value instead of throwing it.
  conch::acquire_options const at_most_100_ms{.wait = 100ms};
  auto const began = conch::clock::now();
  auto result = co_await theirs.async_acquire(at_most_100_ms, asio::as_tuple(asio::use_awaitable));
  auto& [error, no_hold] = result;
  auto const waited = std::chrono::duration_cast<std::chrono::milliseconds>(conch::clock::now() - began);
  std::cout << "wait for 100 ms: " << error.message() << " after " << waited.count() << " ms\n";
  bool const timed_out = error == conch::errc::timed_out && !no_hold;

  bool const was_held = co_await first.async_release();
  conch::hold second = co_await theirs.async_try_acquire();
  std::cout << "try after the release: " << (second ? "granted" : "busy?!") << '\n';
  bool const fenced = second.fence() > 0;
  co_await second.async_release();

  co_return !tried && timed_out && was_held && fenced;
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";

  asio::io_context ctx;
  conch::client one{ctx.get_executor(), url};
  conch::client two{ctx.get_executor(), url};
  bool ok = false;
  auto finish = [&](std::exception_ptr failure, bool as_expected) {
    if (failure) {
      std::rethrow_exception(failure);
    }
    ok = as_expected;
    one.async_close(1s, [](conch::error_code) {});
    two.async_close(1s, [](conch::error_code) {});
  };
  asio::co_spawn(ctx, ask(one, two), finish);
  ctx.run();
  return ok ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
