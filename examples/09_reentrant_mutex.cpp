// A reentrant mutex: a function that is called under the lock may acquire it again for the same owner.
//
//   example_09_reentrant_mutex [URL]        default: $CONCH_URL (use it if the URL has a password), else memory://

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

// Acquires the lock even if the caller holds it. A coroutine has no identity, so the caller passes the owner.
asio::awaitable<void> withdraw(conch::reentrant_mutex lock, conch::owner owner, account& from, int sum) {
  conch::reentrant_hold held = co_await lock.async_acquire(owner);
  from.balance -= sum;
  std::cout << "withdrew " << sum << " at depth " << held.depth() << '\n';
}

asio::awaitable<bool> pay_with_fee(conch::client& client, account& mine) {
  conch::reentrant_mutex lock{client, "example:account"};
  conch::owner const me;
  conch::reentrant_hold held = co_await lock.async_acquire(me);
  auto const scripts = client.stats().scripts;
  co_await withdraw(lock, me, mine, 30);  // nested: no round trip, no deadlock
  co_await withdraw(lock, me, mine, 1);
  bool const no_round_trip = client.stats().scripts == scripts;

  conch::owner const another;
  conch::reentrant_hold theirs = co_await lock.async_try_acquire(another);
  std::cout << "another owner: " << (theirs ? "granted?!" : "busy") << '\n';
  co_await held.async_release();
  theirs = co_await lock.async_try_acquire(another);
  co_return (no_round_trip && theirs.valid() && mine.balance == 69);
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  account mine;
  bool ok = false;
  auto finish = [&](std::exception_ptr failure, bool as_expected) {
    if (failure) std::rethrow_exception(failure);
    ok = as_expected;
    client.async_close(1s, [](conch::error_code) {});
  };
  asio::co_spawn(ctx, pay_with_fee(client, mine), finish);
  ctx.run();
  return ok ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
