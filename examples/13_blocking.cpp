// Threads instead of coroutines: mutexes for std::unique_lock, std::shared_lock and std::scoped_lock.
//
//   example_13_blocking [URL]        default: $CONCH_URL (use it if the URL has a password), else memory://

#include <boost/asio/use_future.hpp>
#include <conch/blocking.hpp>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace asio = boost::asio;
namespace blocking = conch::blocking;
using namespace std::chrono_literals;

// Two threads lock the same two accounts in opposite orders: std::scoped_lock avoids the deadlock.
int transfer(blocking::client& client) {
  blocking::mutex one{client, "example:account:1"}, two{client, "example:account:2"};
  int balance_one = 0, balance_two = 0;
  {
    std::jthread const one_to_two{[&] {
      for (int i = 0; i < 10; ++i) {
        std::scoped_lock const both{one, two};
        --balance_one, ++balance_two;
      }
    }};
    std::jthread const two_to_one{[&] {
      for (int i = 0; i < 10; ++i) {
        std::scoped_lock const both{two, one};
        --balance_two, ++balance_one;
      }
    }};
  }
  std::cout << "after twenty transfers: " << balance_one << " and " << balance_two << '\n';
  return balance_one == 0 && balance_two == 0 ? 0 : 1;
}

int read_together(blocking::client& client) {
  blocking::shared_mutex prices{client, "example:prices"};
  std::shared_lock const reading{prices, 5s};  // false after five seconds; throws if no server answers
  bool another_reads = false;
  std::jthread{[&] { another_reads = std::shared_lock{prices, 5s}.owns_lock(); }}.join();
  std::unique_lock const writing{prices, std::try_to_lock};
  std::cout << "a second reader: " << (another_reads ? "granted" : "refused")
            << ", a writer: " << (writing ? "granted" : "refused") << '\n';
  return reading && another_reads && !writing ? 0 : 1;
}

// A worker that waits for the lock stops at once when it is asked to.
int stop_a_worker(blocking::client& client) {
  blocking::mutex job{client, "example:job"};
  std::lock_guard const held{job};
  bool locked = true;
  std::jthread worker{[&](std::stop_token stop) { locked = job.lock(stop); }};
  worker.request_stop();
  worker.join();
  std::cout << "the worker stopped without the lock\n";
  return locked ? 1 : 0;
}

// A hold can be lost. on_lost lets the code under the lock stop.
int stop_after_a_loss(blocking::client& client) {
  blocking::mutex job{client, "example:lost"};
  std::stop_source stop;
  job.on_lost([&](conch::error_code why, std::int64_t fence) {
    std::cout << "lost the hold with token " << fence << ": " << why.message() << '\n';
    stop.request_stop();
  });
  std::unique_lock const held{job};
  // An operator takes the lock. The same client also serves futures, callbacks and coroutines.
  conch::mutex{client.async(), "example:lost"}.async_force_release(asio::use_future).get();

  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock working{mutex};
  wake.wait(working, stop.get_token(), [] { return false; });  // stands for work that can be stopped
  return job.valid() ? 1 : 0;
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";

  blocking::client client{url};
  return transfer(client) + read_together(client) + stop_a_worker(client) + stop_after_a_loss(client);
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
