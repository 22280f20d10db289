// A reentrant read/write lock: a function that is called under the lock may acquire it again, and a writer may become a
// reader.
//
//   example_16_reentrant_shared_mutex [URL]        default: $CONCH_URL (use it if the URL has a password), else
//   memory://

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <conch/reentrant_shared_mutex.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct stock {
  int left = 10, sold = 0;
};

// Both functions acquire the lock even if their caller holds it.
asio::awaitable<int> count(conch::reentrant_shared_mutex lock, conch::owner owner, stock& phones) {
  conch::reentrant_hold reading = co_await lock.async_acquire_shared(owner);
  co_return phones.left;
}

asio::awaitable<void> sell(conch::reentrant_shared_mutex lock, conch::owner owner, stock& phones) {
  conch::reentrant_hold writing = co_await lock.async_acquire(owner);
  --phones.left;
  ++phones.sold;
  std::cout << "sold one at depth " << writing.depth() << '\n';
}

asio::awaitable<bool> day(conch::client& client, stock& ours) {
  conch::reentrant_shared_mutex lock{client, "example:shelf"};
  conch::owner const me, another;
  conch::reentrant_hold writing = co_await lock.async_acquire(me);
  auto const scripts = client.stats().scripts;
  co_await sell(lock, me, ours);  // nested: no round trip, no deadlock
  int const left = co_await count(lock, me, ours);
  bool const no_round_trip = client.stats().scripts == scripts;

  // The writer becomes a reader: others may read again, and nothing was written in between.
  conch::reentrant_hold reading = co_await lock.async_acquire_shared(me);
  co_await writing.async_release();
  conch::reentrant_hold theirs = co_await lock.async_try_acquire_shared(another);
  std::cout << left << " left, " << ours.sold << " sold; another owner " << (theirs ? "reads too" : "is refused?!")
            << '\n';

  // A reader cannot become a writer: two readers that try would deadlock.
  auto refused = co_await lock.async_acquire(me, asio::as_tuple(asio::use_awaitable));
  conch::error_code const why = std::get<0>(refused);
  std::cout << why.message() << '\n';
  co_return (no_round_trip && left == 9 && reading.valid() && theirs.valid() && why == conch::errc::would_deadlock);
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  stock ours;
  bool ok = false;
  auto finish = [&](std::exception_ptr failure, bool as_expected) {
    if (failure) std::rethrow_exception(failure);
    ok = as_expected;
    client.async_close(1s, [](conch::error_code) {});
  };
  asio::co_spawn(ctx, day(client, ours), finish);
  ctx.run();
  return ok ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
