// Several locks at once: transfers between two accounts run in both directions at the same time, without a deadlock.
//
//   example_10_multi_lock [URL]        default: $CONCH_URL (use it if the URL has a password), else memory://

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

// A multi_lock acquires all locks or none. The order of `locks` does not matter.
asio::awaitable<void> transfer(account& from, account& to, int sum) {
  std::vector<conch::mutex> locks;
  locks.push_back(from.lock);
  locks.push_back(to.lock);
  conch::multi_lock both{locks};
  auto move = [&](conch::multi_hold& held) -> asio::awaitable<bool> {
    int const from_before = from.balance;
    int const to_before = to.balance;
    asio::steady_timer work{co_await asio::this_coro::executor, 1ms};
    co_await work.async_wait(asio::use_awaitable);
    from.balance = from_before - sum;
    to.balance = to_before + sum;
    co_return held.valid();
  };
  co_await conch::with_lock(both, move);  // releases both, also after an exception
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  account alice{conch::mutex{client, "example:alice"}, 100};
  account bob{conch::mutex{client, "example:bob"}, 100};

  int finished = 0;
  int failures = 0;
  auto on_done = [&](std::exception_ptr failure) {
    failures += failure != nullptr ? 1 : 0;
    if (++finished == 20) client.async_close(1s, [](conch::error_code) {});
  };
  for (int i = 0; i < 10; ++i) {
    asio::co_spawn(ctx, transfer(alice, bob, 3), on_done);
    asio::co_spawn(ctx, transfer(bob, alice, 1), on_done);
  }
  ctx.run();

  std::cout << "alice " << alice.balance << ", bob " << bob.balance << '\n';
  return failures == 0 && alice.balance == 80 && bob.balance == 120 ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
