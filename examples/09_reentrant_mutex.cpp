// A reentrant mutex: what is called under the lock may take the lock itself, for the same owner.
//
//   example_09_reentrant_mutex [URL]        default: $CONCH_URL (the place for a password), else memory://

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <conch/reentrant_mutex.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct account {
  int balance = 100;
};

// Takes the lock, whoever calls it. A coroutine has no identity of its own: the owner is handed on.
asio::awaitable<void> withdraw(conch::reentrant_mutex lock, conch::owner who, account& from, int sum) {
  conch::reentrant_hold held = co_await lock.async_acquire(who);
  from.balance -= sum;
  std::cout << "took " << sum << " at depth " << held.depth() << '\n';
}

asio::awaitable<bool> pay_with_fee(conch::client& client, account& mine) {
  conch::reentrant_mutex lock{client, "example:account"};
  conch::owner const me;
  conch::reentrant_hold held = co_await lock.async_acquire(me);
  auto const scripts = client.stats().scripts;
  co_await withdraw(lock, me, mine, 30);  // nested: no message, and no deadlock
  co_await withdraw(lock, me, mine, 1);
  bool const silent = client.stats().scripts == scripts;

  conch::owner const somebody;
  conch::reentrant_hold theirs = co_await lock.async_try_acquire(somebody);
  std::cout << "somebody else: " << (theirs ? "granted?!" : "busy") << '\n';
  co_await held.async_release();
  theirs = co_await lock.async_try_acquire(somebody);
  co_return (silent && theirs.valid() && mine.balance == 69);
}

int main(int argc, char** argv) try {
  char const* const set = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : set != nullptr ? set : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  account mine;
  bool seen = false;
  auto finish = [&](std::exception_ptr failure, bool as_expected) {
    if (failure) std::rethrow_exception(failure);
    seen = as_expected;
    client.async_close(1s, [](conch::error_code) {});
  };
  asio::co_spawn(ctx, pay_with_fee(client, mine), finish);
  ctx.run();
  return seen ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
