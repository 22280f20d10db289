// A shared mutex: readers share it, a writer has it alone, and both are served in the order of their requests.
//
//   example_07_shared_mutex [URL]        default: $CONCH_URL (use it if the URL has a password), else memory://

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <conch/shared_mutex.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct price_list {
  int version = 0;
  int readers = 0;
  int most_readers = 0;
  bool writing = false;
  bool torn = false;
};

asio::awaitable<void> read(conch::shared_mutex lock, price_list& list) {
  conch::hold reading = co_await lock.async_acquire_shared();
  list.torn = list.torn || list.writing;
  list.most_readers = std::max(list.most_readers, ++list.readers);
  asio::steady_timer work{co_await asio::this_coro::executor, 1ms};
  co_await work.async_wait(asio::use_awaitable);
  --list.readers;
  co_await reading.async_release();
}

asio::awaitable<void> write(conch::shared_mutex lock, price_list& list) {
  conch::hold writing = co_await lock.async_acquire();
  list.torn = list.torn || list.readers != 0;
  list.writing = true;
  asio::steady_timer work{co_await asio::this_coro::executor, 1ms};
  co_await work.async_wait(asio::use_awaitable);
  ++list.version;
  list.writing = false;
  co_await writing.async_release();
}

// `if` instead of `writes ? co_await ... : co_await ...`: there g++ 12 destroys the hold twice.
asio::awaitable<conch::hold> acquire(conch::shared_mutex lock, bool writes) {
  if (writes) co_return co_await lock.async_acquire();
  co_return co_await lock.async_acquire_shared();
}

// Takes the lock for reading or for writing: both give a conch::hold.
asio::awaitable<void> audit(conch::shared_mutex lock, price_list& list, bool corrects) {
  conch::hold held = co_await acquire(lock, corrects);
  if (corrects) {
    list.torn = list.torn || list.writing || list.readers != 0;
    ++list.version;
  }
  co_await held.async_release();
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  conch::shared_mutex const prices{client, "example:prices"};

  price_list list;
  int finished = 0;
  int failures = 0;
  auto on_done = [&](std::exception_ptr failure) {
    failures += failure != nullptr ? 1 : 0;
    if (++finished == 26) client.async_close(1s, [](conch::error_code) {});
  };
  for (int task = 0; task < 24; ++task) {
    asio::co_spawn(ctx, task % 8 == 7 ? write(prices, list) : read(prices, list), on_done);
  }
  for (bool const corrects : {false, true}) asio::co_spawn(ctx, audit(prices, list, corrects), on_done);
  ctx.run();

  std::cout << "version " << list.version << ", up to " << list.most_readers << " readers together\n";
  return failures == 0 && !list.torn && list.version == 4 && list.most_readers > 1 ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
