// Without coroutines: every async_ function also takes a callback or asio::use_future.
//
//   example_03_callbacks_and_futures [URL]        default: $CONCH_URL (use it if the URL has a password), else
//   memory://

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <conch/mutex.hpp>
#include <cstdlib>
#include <exception>
#include <future>
#include <iostream>
#include <memory>
#include <thread>

namespace asio = boost::asio;
using namespace std::chrono_literals;

// Callbacks run in the thread that runs the io_context. Each passes the hold to the next.
void count_down(conch::mutex lock, int rounds, std::promise<int> done) {
  auto granted = [lock, rounds, done = std::move(done)](conch::error_code error, conch::hold held) mutable {
    if (error) {
      done.set_exception(std::make_exception_ptr(boost::system::system_error{error}));
      return;
    }
    std::cout << "callback: granted with fence " << held.fence() << '\n';
    auto released = [lock, rounds, done = std::move(done)](conch::error_code, bool) mutable {
      if (rounds == 1) {
        done.set_value(rounds);
      } else {
        count_down(std::move(lock), rounds - 1, std::move(done));
      }
    };
    held.async_release(std::move(released));  // `held` may go out of scope before `released` runs
  };
  lock.async_acquire(std::move(granted));
}

int main(int argc, char** argv) {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";

  asio::io_context ctx;
  auto work = asio::make_work_guard(ctx);
  std::jthread const runner{[&] { ctx.run(); }};
  int code = 1;
  try {
    conch::client client{ctx.get_executor(), url};
    conch::mutex lock{client, "example:printer"};

    std::promise<int> promise;
    std::future<int> counted = promise.get_future();
    count_down(lock, 3, std::move(promise));
    int const last = counted.get();

    // get() blocks the thread, so never call it in a thread that runs the io_context.
    std::future<conch::hold> waiting = lock.async_acquire({.wait = 5s}, asio::use_future);
    conch::hold held = waiting.get();  // throws boost::system::system_error
    std::cout << "future: granted with fence " << held.fence() << '\n';
    bool const was_held = held.async_release(asio::use_future).get();
    client.async_close(1s, asio::use_future).get();
    code = last == 1 && was_held ? 0 : 1;
  } catch (std::exception const& error) {
    std::cerr << error.what() << '\n';
  }
  work.reset();
  return code;
}
