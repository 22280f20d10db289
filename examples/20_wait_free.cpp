// To wait until nobody has a lock, without taking it; and a count-down latch that is made of that: it opens when all workers have finished, or are
// dead.
//
//   example_20_wait_free [URL]       the default is $CONCH_URL (the place for a password), else memory://

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <conch/conch.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr int workers = 3;

// Elsewhere, in a process of its own: it has been sent its part of the latch as a text, together with its work.
asio::awaitable<void> work(conch::client& client, std::string part, int number) {
  conch::semaphore latch{client, "example:latch", workers};
  conch::hold mine = co_await latch.async_adopt(part);
  std::cout << "worker " << number << " has finished\n";
  bool const counted = co_await mine.async_release();  // counts down; if the worker dies, the end of the lease does
  if (!counted) throw std::runtime_error{"the part of the latch was lost"};
}

asio::awaitable<bool> demonstrate(std::string url) {
  auto const executor = co_await asio::this_coro::executor;
  conch::client client{executor, url}, others{executor, url};

  // A lock that somebody has. Nothing is taken, and nobody who acquires has to wait for those who look on.
  conch::mutex maintenance{others, "example:maintenance"}, seen{client, "example:maintenance"};
  conch::hold busy = co_await maintenance.async_acquire();
  seen.async_wait_free([](conch::error_code ec) { std::cout << (ec ? ec.message() : "the maintenance is over") << '\n'; });
  co_await busy.async_release();
  co_await seen.async_wait_free(10s);  // throws errc::timed_out

  // The latch: all its permits are taken here, and each goes to a worker.
  conch::semaphore latch{client, "example:latch", workers};
  for (int number = 1; number <= workers; ++number) {
    conch::hold part = co_await latch.async_acquire();
    std::string text = co_await part.async_detach();
    asio::co_spawn(executor, work(others, std::move(text), number), [](std::exception_ptr failed) {
      if (failed) std::rethrow_exception(failed);
    });
  }
  co_await latch.async_wait_free();
  std::cout << "all workers have finished\n";
  conch::lock_status const now = co_await latch.async_inspect();
  co_return !now.locked();
}

int main(int argc, char** argv) {
  char const* const from_environment = std::getenv("CONCH_URL");
  std::string const url = argc > 1 ? argv[1] : from_environment != nullptr ? from_environment : "memory://";
  asio::io_context context;
  bool done = false;
  asio::co_spawn(context, demonstrate(url), [&done](std::exception_ptr failed, bool ok) {
    if (failed) std::rethrow_exception(failed);
    done = ok;
  });
  try {
    context.run();
  } catch (std::exception const& error) {
    std::cerr << error.what() << '\n';
  }
  return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
