// A mutex that lives on the server, and the short way to use it: with_lock.
//
//   example_01_with_lock [URL]        default: $CONCH_URL (the place for a password), else memory://

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

// Looks, takes its time, writes: without the lock, several buyers would get the same phone.
asio::awaitable<void> buy(conch::mutex stock, shop& at) {
  auto sell = [&](conch::hold& lock) -> asio::awaitable<bool> {
    int const seen = at.phones;
    asio::steady_timer pause{co_await asio::this_coro::executor, 1ms};
    co_await pause.async_wait(asio::use_awaitable);
    if (seen == 0 || !lock.valid()) {
      co_return false;
    }
    at.phones = seen - 1;
    co_return true;
  };
  bool const bought = co_await conch::with_lock(stock, sell);  // gives the lock back in any case
  at.sold += bought ? 1 : 0;
}

int main(int argc, char** argv) try {
  char const* const set = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : set != nullptr ? set : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  conch::mutex const stock{client, "example:stock"};

  shop corner;
  constexpr int buyers = 25;
  int gone = 0;
  int failures = 0;
  auto leave = [&](std::exception_ptr failure) {
    failures += failure != nullptr ? 1 : 0;
    if (++gone == buyers) {
      client.async_close(1s, [](conch::error_code) {});  // nothing is left to do for ctx
    }
  };
  for (int buyer = 0; buyer < buyers; ++buyer) {
    asio::co_spawn(ctx, buy(stock, corner), leave);
  }
  ctx.run();

  std::cout << buyers << " buyers, 10 phones: " << corner.sold << " sold, " << corner.phones << " left, " << failures << " failures\n";
  return corner.sold == 10 && corner.phones == 0 && failures == 0 ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
