// A lock in segments: a stock that is split in five, so that five can sell at the same time; an order that finds too
// little in one segment moves on to the next.
//
//   example_08_striped_mutex [URL]        default: $CONCH_URL (the place for a password), else memory://

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

asio::awaitable<void> order(conch::striped_mutex lock, int items, shop& at) {
  auto sell = [&](conch::hold& segment) -> asio::awaitable<conch::segment_verdict> {
    int& here = at.stock[segment.segment() - 1];
    int const seen = here;
    asio::steady_timer work{co_await asio::this_coro::executor, 1ms};
    co_await work.async_wait(asio::use_awaitable);
    if (seen < items) {
      co_return conch::segment_verdict::not_enough;
    }
    here = seen - items;
    at.sold += items;
    co_return conch::segment_verdict::done;
  };
  bool const found = co_await conch::with_any_segment(lock, sell);  // holds one segment at a time
  at.refused += found ? 0 : items;
}

int main(int argc, char** argv) try {
  char const* const set = std::getenv("CONCH_URL");
  char const* const url = argc > 1 ? argv[1] : set != nullptr ? set : "memory://";

  asio::io_context ctx;
  conch::client client{ctx.get_executor(), url};
  conch::striped_mutex const stock{client, "example:stock-in-segments", 5};

  shop corner;
  int ended = 0;
  int failures = 0;
  auto leave = [&](std::exception_ptr failure) {
    failures += failure != nullptr ? 1 : 0;
    if (++ended == 12) client.async_close(1s, [](conch::error_code) {});
  };
  for (int i = 0; i < 12; ++i) asio::co_spawn(ctx, order(stock, 2, corner), leave);  // 24 items of 20
  ctx.run();

  int left = 0;
  for (int const here : corner.stock) left += here;
  std::cout << corner.sold << " sold, " << left << " left, " << corner.refused << " refused\n";
  return failures == 0 && corner.sold == 20 && left == 0 && corner.refused == 4 ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
