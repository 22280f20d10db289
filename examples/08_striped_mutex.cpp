// A lock in segments: the stock is split in five, so that five orders are served at the same time. An order that finds
// too little in one segment tries the next.
//
//   example_08_striped_mutex [URL]        default: $CONCH_URL (use it if the URL has a password), else memory://

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <conch/striped_mutex.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct shop {
  std::array<int, 5> stock{4, 4, 4, 4, 4};
  int sold = 0;
  int refused = 0;
};

asio::awaitable<void> order(conch::striped_mutex lock, int items, shop& store) {
  auto sell = [&](conch::hold& segment) -> asio::awaitable<conch::segment_verdict> {
    int& here = store.stock[segment.segment() - 1];
    int const left = here;
    asio::steady_timer work{co_await asio::this_coro::executor, 1ms};
    co_await work.async_wait(asio::use_awaitable);
    if (left < items) {
      co_return conch::segment_verdict::not_enough;
    }
    here = left - items;
    store.sold += items;
    co_return conch::segment_verdict::done;
  };
  // holds one segment at a time; false: no segment had enough
  bool const found = co_await conch::with_any_segment(lock, sell);
  store.refused += found ? 0 : items;
}

int main(int argc, char** argv) try {
  char const* const env_url = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : env_url != nullptr ? env_url : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  conch::striped_mutex const stock{client, "example:stock-in-segments", 5};

  shop store;
  int finished = 0;
  int failures = 0;
  auto on_done = [&](std::exception_ptr failure) {
    failures += failure != nullptr ? 1 : 0;
    if (++finished == 12) client.async_close(1s, [](conch::error_code) {});
  };
  for (int i = 0; i < 12; ++i) asio::co_spawn(ctx, order(stock, 2, store), on_done);  // 24 items wanted, 20 in stock
  ctx.run();

  int remaining = 0;
  for (int const here : store.stock) remaining += here;
  std::cout << store.sold << " sold, " << remaining << " left, " << store.refused << " refused\n";
  return failures == 0 && store.sold == 20 && remaining == 0 && store.refused == 4 ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
