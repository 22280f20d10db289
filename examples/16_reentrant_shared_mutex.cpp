// A reentrant read/write lock: what is called under the lock may read and write by itself, and the owner ends as a reader.
//
//   example_16_reentrant_shared_mutex [URL]        default: $CONCH_URL (the place for a password), else memory://

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
  int phones = 10, sold = 0;
};

// Each of these takes the lock as it needs it, whoever calls it.
asio::awaitable<int> left(conch::reentrant_shared_mutex lock, conch::owner who, stock& of) {
  conch::reentrant_hold reading = co_await lock.async_acquire_shared(who);
  co_return of.phones;
}

asio::awaitable<void> sell(conch::reentrant_shared_mutex lock, conch::owner who, stock& of) {
  conch::reentrant_hold writing = co_await lock.async_acquire(who);
  --of.phones;
  ++of.sold;
  std::cout << "sold one at depth " << writing.depth() << '\n';
}

asio::awaitable<bool> day(conch::client& client, stock& ours) {
  conch::reentrant_shared_mutex lock{client, "example:shelf"};
  conch::owner const me, somebody;
  conch::reentrant_hold writing = co_await lock.async_acquire(me);
  auto const scripts = client.stats().scripts;
  co_await sell(lock, me, ours);  // nested: no message, and no deadlock
  int const now = co_await left(lock, me, ours);
  bool const silent = client.stats().scripts == scripts;

  // Count at the end of the day, while others may read again: nobody writes in between.
  conch::reentrant_hold counting = co_await lock.async_acquire_shared(me);
  co_await writing.async_release();
  conch::reentrant_hold theirs = co_await lock.async_try_acquire_shared(somebody);
  std::cout << now << " left, " << ours.sold << " sold; somebody else " << (theirs ? "reads too" : "waits?!") << '\n';

  // A reader cannot become a writer: two would wait for each other.
  auto refused = co_await lock.async_acquire(me, asio::as_tuple(asio::use_awaitable));
  conch::error_code const why = std::get<0>(refused);
  std::cout << why.message() << '\n';
  co_return (silent && now == 9 && counting.valid() && theirs.valid() && why == conch::errc::would_deadlock);
}

int main(int argc, char** argv) try {
  char const* const set = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : set != nullptr ? set : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  stock ours;
  bool seen = false;
  auto finish = [&](std::exception_ptr failure, bool as_expected) {
    if (failure) std::rethrow_exception(failure);
    seen = as_expected;
    client.async_close(1s, [](conch::error_code) {});
  };
  asio::co_spawn(ctx, day(client, ours), finish);
  ctx.run();
  return seen ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
