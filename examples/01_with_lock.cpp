// A mutex that the server keeps, and the shortest way to use it: with_lock.
//
//   example_01_with_lock [URL]        default: $CONCH_URL (use it if the URL has a password), else memory://

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <conch/with_lock.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct shop {
  int phones = 10;
  int sold = 0;
};

// Reads, waits, writes. Without the lock, several buyers would get the same phone.
asio::awaitable<void> buy(conch::mutex stock, shop& store) {
  auto sell = [&](conch::hold& lock) -> asio::awaitable<bool> {
    int const left = store.phones;
    asio::steady_timer pause{co_await asio::this_coro::executor, 1ms};
    co_await pause.async_wait(asio::use_awaitable);
    if (left == 0 || !lock.valid()) {
      co_return false;
    }
    store.phones = left - 1;
    co_return true;
  };
  bool const bought = co_await conch::with_lock(stock, sell);  // releases the lock, also after an exception
  store.sold += bought ? 1 : 0;
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  conch::mutex const stock{client, "example:stock"};

  shop store;
  constexpr int buyers = 25;
  int finished = 0;
  int failures = 0;
  auto on_done = [&](std::exception_ptr failure) {
    failures += failure != nullptr ? 1 : 0;
    if (++finished == buyers) {
      client.async_close(1s, [](conch::error_code) {});  // lets ctx.run() return
    }
  };
  for (int buyer = 0; buyer < buyers; ++buyer) {
    asio::co_spawn(ctx, buy(stock, store), on_done);
  }
  ctx.run();

  std::cout << buyers << " buyers, 10 phones: " << store.sold << " sold, " << store.phones << " left, " << failures
            << " failures\n";
  return store.sold == 10 && store.phones == 0 && failures == 0 ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
