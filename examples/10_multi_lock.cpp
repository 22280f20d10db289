// Several locks together: a transfer between two accounts, in both directions at once, without a deadlock.
//
//   example_10_multi_lock [URL]        default: $CONCH_URL (the place for a password), else memory://

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <conch/multi_lock.hpp>
#include <conch/with_lock.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct account {
  conch::mutex lock;
  int balance;
};

// All or nothing; in which order they are named does not matter.
asio::awaitable<void> transfer(account& from, account& to, int sum) {
  std::vector<conch::mutex> locks;
  locks.push_back(from.lock);
  locks.push_back(to.lock);
  conch::multi_lock both{locks};
  auto move = [&](conch::multi_hold& held) -> asio::awaitable<bool> {
    int const had = from.balance;
    int const has = to.balance;
    asio::steady_timer work{co_await asio::this_coro::executor, 1ms};
    co_await work.async_wait(asio::use_awaitable);
    from.balance = had - sum;
    to.balance = has + sum;
    co_return held.valid();
  };
  co_await conch::with_lock(both, move);  // gives both back in any case
}

int main(int argc, char** argv) try {
  char const* const set = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : set != nullptr ? set : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  account alice{conch::mutex{client, "example:alice"}, 100};
  account bob{conch::mutex{client, "example:bob"}, 100};

  int ended = 0;
  int failures = 0;
  auto leave = [&](std::exception_ptr failure) {
    failures += failure != nullptr ? 1 : 0;
    if (++ended == 20) client.async_close(1s, [](conch::error_code) {});
  };
  for (int i = 0; i < 10; ++i) {
    asio::co_spawn(ctx, transfer(alice, bob, 3), leave);
    asio::co_spawn(ctx, transfer(bob, alice, 1), leave);
  }
  ctx.run();

  std::cout << "alice " << alice.balance << ", bob " << bob.balance << '\n';
  return failures == 0 && alice.balance == 80 && bob.balance == 120 ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
