// What the tests of conch::testing share. They include what a user includes, and nothing else of conch.
#pragma once

#include <conch/all.hpp>
#include <conch/testing.hpp>

#include "support/contains.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <string>

namespace conch::test {

/// What a process of a world does.
using body = boost::asio::awaitable<void>;

inline body sleep_for(std::chrono::nanoseconds length) {
  boost::asio::steady_timer timer{co_await boost::asio::this_coro::executor, length};
  co_await timer.async_wait(boost::asio::use_awaitable);
}

struct counter {
  int inside = 0, most = 0, done = 0;
};

inline body hold_three_times(testing::world& w, std::string process, std::string url, counter& seen) {
  conch::client client{w.executor(process), url};
  mutex stock{client, "stock"};
  for (int i = 0; i < 3; ++i) {
    hold h = co_await stock.async_acquire(boost::asio::use_awaitable);
    seen.most = std::max(seen.most, ++seen.inside);
    co_await sleep_for(std::chrono::milliseconds{50});
    --seen.inside;
    ++seen.done;
    co_await h.async_release(boost::asio::use_awaitable);
  }
}

}  // namespace conch::test
