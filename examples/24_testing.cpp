// Your own code under a lock, in a simulated world: two shops sell the same stock. The first version trusts its hold,
// and is found to write too late; the second lets the stock check the fence.
//
//   example_24_testing [SEEDS]        default: 10000
//
// Needs the component conch::testing.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <conch/conch.hpp>
#include <conch/testing.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using conch::testing::fencing;

constexpr int items = 5;

// The critical section. In production the stock is a row of a database.
asio::awaitable<bool> sell(conch::client& client, conch::testing::resource& stock) {
  conch::mutex lock{client, "stock"};
  auto const acquired = co_await lock.async_acquire(asio::as_tuple(asio::use_awaitable));
  auto const& [ec, h] = acquired;
  if (ec) co_return false;  // the server cannot be reached just now
  std::int64_t const left = stock.read(h.fence());
  asio::steady_timer payment{co_await asio::this_coro::executor, 20ms};
  co_await payment.async_wait(asio::use_awaitable);
  // The process may be paused between the check and the write.
  co_return left > 0 && h.valid() && stock.write(h.fence(), left - 1);
}

asio::awaitable<void> shop(conch::testing::world& w, std::string process, std::shared_ptr<int> sold) {
  conch::client client{w.executor(process), w.url()};
  for (int i = 0; i < items; ++i) {
    bool const one = co_await sell(client, w.resource("stock"));
    if (one) ++*sold;
  }
}

asio::awaitable<void> sale(conch::testing::world& w, fencing f) {
  auto& stock = w.resource("stock", f);
  stock.set(items);
  auto const sold = std::make_shared<int>(0);
  w.at_end([&w, &stock, sold] { w.expect(stock.value() == items - *sold, "each item is sold once"); });
  w.spawn("second shop", shop(w, "second shop", sold));
  co_await shop(w, "main", sold);
}

int main(int argc, char** argv) try {
  std::uint64_t const seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000;
  auto const careless = conch::testing::explore(seeds, [](conch::testing::world& w) { return sale(w, fencing::off); });
  std::cout << "trusts its hold: " << careless << '\n';
  auto const careful = conch::testing::explore(seeds, [](conch::testing::world& w) { return sale(w, fencing::on); });
  std::cout << "checks fences: " << careful << '\n';
  return !careless && careful ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
