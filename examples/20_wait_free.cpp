// Wait until a lock is free without acquiring it. Also: a count-down latch made of a semaphore, which opens when all
// workers have finished or are dead.
//
//   example_20_wait_free [URL]       default: $CONCH_URL (use it if the URL has a password), else memory://

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

// Stands for a worker process. It gets its permit of the latch as a text (`detached`), together with its work.
asio::awaitable<void> work(conch::client& client, std::string detached, int number) {
  conch::semaphore latch{client, "example:latch", workers};
  conch::hold mine = co_await latch.async_adopt(detached);
  std::cout << "worker " << number << " has finished\n";
  // counts down; if the worker dies, the expiry of the lease counts down
  bool const counted = co_await mine.async_release();
  if (!counted) throw std::runtime_error{"the permit of the latch was lost"};
}

asio::awaitable<bool> demonstrate(std::string url) {
  auto const executor = co_await asio::this_coro::executor;
  conch::client client{executor, url}, other{executor, url};

  // async_wait_free acquires nothing, so it never delays a waiter.
  conch::mutex maintenance{other, "example:maintenance"}, watched{client, "example:maintenance"};
  conch::hold busy = co_await maintenance.async_acquire();
  watched.async_wait_free(
      [](conch::error_code ec) { std::cout << (ec ? ec.message() : "the maintenance has ended") << '\n'; });
  co_await busy.async_release();
  co_await watched.async_wait_free(10s);  // throws errc::timed_out

  // The latch: acquire all its permits here and give one to each worker.
  conch::semaphore latch{client, "example:latch", workers};
  for (int number = 1; number <= workers; ++number) {
    conch::hold permit = co_await latch.async_acquire();
    std::string text = co_await permit.async_detach();
    asio::co_spawn(executor, work(other, std::move(text), number), [](std::exception_ptr failed) {
      if (failed) std::rethrow_exception(failed);
    });
  }
  co_await latch.async_wait_free();
  std::cout << "all workers have finished\n";
  conch::lock_status const now = co_await latch.async_inspect();
  co_return !now.locked();
}

int main(int argc, char** argv) {
  char const* const env_url = std::getenv("CONCH_URL");
  std::string const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";
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
