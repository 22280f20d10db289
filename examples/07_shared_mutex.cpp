// A shared mutex: readers together, a writer alone, everybody in the order of asking.
//
//   example_07_shared_mutex [URL]        default: $CONCH_URL (the place for a password), else memory://

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

// Chosen with `if`: g++ 12 destroys the hold twice that comes out of `writes ? co_await ... : co_await ...`.
asio::awaitable<conch::hold> acquire(conch::shared_mutex lock, bool writes) {
  if (writes) co_return co_await lock.async_acquire();
  co_return co_await lock.async_acquire_shared();
}

// Looks at the prices, and writes them down anew only if it must.
asio::awaitable<void> audit(conch::shared_mutex lock, price_list& list, bool corrects) {
  conch::hold in = co_await acquire(lock, corrects);
  if (corrects) {
    list.torn = list.torn || list.writing || list.readers != 0;
    ++list.version;
  }
  co_await in.async_release();
}

int main(int argc, char** argv) try {
  char const* const set = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : set != nullptr ? set : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  conch::shared_mutex const prices{client, "example:prices"};

  price_list list;
  int ended = 0;
  int failures = 0;
  auto leave = [&](std::exception_ptr failure) {
    failures += failure != nullptr ? 1 : 0;
    if (++ended == 26) client.async_close(1s, [](conch::error_code) {});
  };
  for (int task = 0; task < 24; ++task) {
    asio::co_spawn(ctx, task % 8 == 7 ? write(prices, list) : read(prices, list), leave);
  }
  for (bool const corrects : {false, true}) asio::co_spawn(ctx, audit(prices, list, corrects), leave);
  ctx.run();

  std::cout << "version " << list.version << ", up to " << list.most_readers << " readers together\n";
  return failures == 0 && !list.torn && list.version == 4 && list.most_readers > 1 ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
