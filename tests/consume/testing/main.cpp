// A world with the installed component: prints its trace, which the seed alone decides.
#include <conch/conch.hpp>
#include <conch/testing.hpp>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <iostream>
#include <string>

namespace asio = boost::asio;
using namespace std::chrono_literals;

asio::awaitable<void> hold_for_an_hour(conch::testing::world& w, std::string process) {
  conch::client client{w.executor(process), w.url()};
  conch::mutex lock{client, "lock"};
  conch::hold h = co_await lock.async_acquire();
  asio::steady_timer hour{co_await asio::this_coro::executor, 1h};
  co_await hour.async_wait(asio::use_awaitable);
  w.expect(h.valid(), "the hold is renewed");
}

int main() {
  conch::testing::world w{7, {.limit = 3h}};
  w.spawn("a", hold_for_an_hour(w, "a"));
  w.spawn("b", hold_for_an_hour(w, "b"));
  w.run();
  std::cout << w.trace();
}
