// What is different where one thread does everything: handlers are called in the turn in which they come up.

#include "integration/fixture.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace conch::test {
namespace {

class SingleThreaded : public with_server<SingleThreaded> {
 protected:
  config settings() {
    config c = steady_config(server());
    c.single_threaded = true;
    return c;
  }
};

TEST_F(SingleThreaded, AHandlerIsNeverCalledWhileAnotherRuns) {
  client c{w.ctx.get_executor(), settings()};
  mutex m{c, "one at a time"};
  int running = 0, done = 0;
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    m.async_acquire([&, i](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      EXPECT_EQ(running++, 0);
      order.push_back(i);
      h.async_release([&](error_code, bool was_held) {
        EXPECT_EQ(running++, 0);
        EXPECT_TRUE(was_held);
        ++done;
        --running;
      });
      --running;
    });
  }
  w.run_until([&] { return done == 100; }, "all of them");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_F(SingleThreaded, AnIoContextWithoutLocksIsRefusedAtOnce) {
  for (bool const single : {false, true}) {
    asio::io_context unsafe{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
    config c = settings();
    c.single_threaded = single;
    std::string what;
    EXPECT_EQ(error_of([&] { client refused{unsafe.get_executor(), c}; }, &what), errc::invalid_config);
    EXPECT_NE(what.find("BOOST_ASIO_CONCURRENCY_HINT_UNSAFE"), std::string::npos) << what;
    EXPECT_NE(what.find("io_context{1}"), std::string::npos) << what;
  }
  for (int const hint : {1, 2, BOOST_ASIO_CONCURRENCY_HINT_SAFE, BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO}) {
    asio::io_context context{hint};
    EXPECT_NO_THROW((client{context.get_executor(), settings()})) << hint;
  }
}

TEST_F(SingleThreaded, WhoThrowsStopsNobodyElse) {
  client c{w.ctx.get_executor(), settings()};
  mutex other{c, "does not throw"}, m{c, "throws"};
  int done = 0, thrown = 0;
  // The first comes with an answer of the server, the others are handed on to.
  for (int i = 0; i < 50; ++i) {
    m.async_acquire([&](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      h.async_release([&](error_code, bool was_held) {
        EXPECT_TRUE(was_held);
        ++done;
      });
      throw std::runtime_error{"of the user"};
    });
  }
  auto const end = steady::now() + 15s;
  while (done < 50 && steady::now() < end) {
    try {
      w.ctx.restart();
      w.ctx.run_one_for(2ms);
    } catch (std::runtime_error const& e) {
      EXPECT_STREQ(e.what(), "of the user");
      ++thrown;
    }
  }
  EXPECT_EQ(done, 50);
  EXPECT_EQ(thrown, 50);
  auto const body = [&]() -> asio::awaitable<void> {  // the connection is still read
    hold h = co_await other.async_acquire({.wait = 5s});
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const free = [&] { return is_free(probe, "throws"); };
    co_await until(free, "all given back");
  };
  w.run(body);
  EXPECT_EQ(c.stats().disconnects, 0u);
}

TEST_F(SingleThreaded, AnEndlessHandOverKeepsNobodyFromTheEventLoop) {
  client c{w.ctx.get_executor(), settings()};
  mutex m{c, "endless"};
  bool stop = false;
  int left = 2;
  long holds = 0;
  auto const forever = [&]() -> asio::awaitable<void> {
    while (!stop) {
      hold h = co_await m.async_acquire();
      ++holds;
    }
    --left;
  };
  for (int i = 0; i < 2; ++i) asio::co_spawn(w.ctx, forever(), asio::detached);
  w.run_until([&] { return holds > 1000; }, "handed on");
  // Somebody else's posts and timers come in between, each after a few holds at most.
  long most = 0;
  int posts = 0;
  std::function<void()> const again = [&] {
    if (++posts == 1000) return;
    asio::post(w.ctx, [&, before = holds] {
      most = std::max(most, holds - before);
      again();
    });
  };
  again();
  w.run_until([&] { return posts == 1000; }, "a thousand posts");
  EXPECT_LE(most, 40);
  stop = true;
  w.run_until([&] { return left == 0; }, "both ended");
}

TEST_F(SingleThreaded, WhatIsStillDueWhenTheContextGoesIsDropped) {
  auto ctx = std::make_unique<asio::io_context>();
  auto const witness = std::make_shared<int>(0);
  {
    client c{ctx->get_executor(), settings()};
    mutex m{c, "due"};
    bool held = false;
    for (int i = 0; i < 50; ++i) {
      m.async_acquire([&, witness](error_code, hold) {
        held = true;
        ++*witness;
        throw std::runtime_error{"ends the turn"};
      });
    }
    while (!held) {
      try {
        ctx->run_one();
      } catch (std::runtime_error const&) {
      }
    }
  }
  EXPECT_GE(*witness, 1);
  EXPECT_LT(*witness, 50);
  ctx.reset();
  EXPECT_EQ(witness.use_count(), 1);
}

TEST_F(SingleThreaded, AHandlerMayDestroyTheClientAndAllThatIsHis) {
  auto c = std::make_unique<client>(w.ctx.get_executor(), settings());
  auto m = std::make_unique<mutex>(*c, "destroyed");
  int granted = 0, refused = 0;
  for (int i = 0; i < 20; ++i) {
    m->async_acquire([&](error_code ec, hold h) {
      if (ec) {
        EXPECT_EQ(ec, errc::closed);
        EXPECT_FALSE(h);
        ++refused;
        return;
      }
      if (++granted == 3) {
        m.reset();
        c.reset();
      }
    });
  }
  w.run_until([&] { return granted + refused == 20; }, "everybody told");
  EXPECT_GE(granted, 3);
  auto const body = [&]() -> asio::awaitable<void> {
    auto const free = [&] { return is_free(probe, "destroyed"); };
    co_await until(free, "given back");
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
