// with_lock: the body's result, its failures, and the lock given back in every case.

#include "integration/each_server.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>

#include <atomic>
#include <memory>
#include <string>

namespace conch::test {
namespace {

class WithLock : public with_each_server<WithLock> {};

INSTANTIATE_TEST_SUITE_P(Over, WithLock, testing::ValuesIn(servers_under_test()), server_name);

TEST_P(WithLock, RunsTheBodyUnderTheLockAndReturnsItsValue) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "value"};
    auto number = [&](hold& h) -> asio::awaitable<int> {
      EXPECT_TRUE(h.valid());
      EXPECT_TRUE(server().is_taken("value"));
      co_return 42;
    };
    int const result = co_await with_lock(m, number);
    EXPECT_EQ(result, 42);
    EXPECT_TRUE(is_free(server(), "value"));

    bool ran = false;
    auto nothing = [&](hold&) -> asio::awaitable<void> {
      co_await pause_for(1ms);
      ran = true;
    };
    co_await with_lock(m, nothing);
    EXPECT_TRUE(ran);
    EXPECT_TRUE(is_free(server(), "value"));

    auto text = [&](hold&) -> asio::awaitable<std::string> {
      co_return "a string that is too long to be stored inside";
    };
    std::string const words = co_await with_lock(m, {.wait = 2s}, text);
    EXPECT_EQ(words, "a string that is too long to be stored inside");

    auto moved = [&](hold&) -> asio::awaitable<std::shared_ptr<int>> { co_return std::make_shared<int>(7); };
    auto const pointer = co_await with_lock(m, moved);
    EXPECT_EQ(*pointer, 7);
  };
  w.run(body);
}

TEST_P(WithLock, ThrowsWhatTheBodyThrowsAndGivesTheLockBack) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "throws"};
    auto failing = [&](hold&) -> asio::awaitable<int> {
      co_await pause_for(1ms);
      throw std::runtime_error{"out of stock"};
    };
    std::string seen;
    try {
      co_await with_lock(m, failing);
    } catch (std::runtime_error const& e) {
      seen = e.what();
    }
    EXPECT_EQ(seen, "out of stock");
    EXPECT_TRUE(is_free(server(), "throws"));
  };
  w.run(body);
}

TEST_P(WithLock, ThrowsTheErrorOfTheAcquire) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "not had"};
    hold h = co_await m.async_acquire();
    bool ran = false;
    auto never = [&](hold&) -> asio::awaitable<void> {
      ran = true;
      co_return;
    };
    error_code seen;
    try {
      co_await with_lock(m, {.wait = short_wait}, never);
    } catch (boost::system::system_error const& e) {
      seen = e.code();
    }
    EXPECT_EQ(seen, errc::timed_out);
    EXPECT_FALSE(ran);
    co_await h.async_release();
  };
  w.run(body);
}

TEST_P(WithLock, P9CancelsTheBodyWhenTheLockIsLost) {
  NEEDS_A_CONNECTION();
  NEEDS(tells_of_loss);
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    mutex m{c, "lost"};
    bool cancelled = false, cleaned = false;
    auto endless = [&](hold& h) -> asio::awaitable<void> {
      server().forget("lost");
      auto const mark = [&](void*) { cleaned = true; };
      std::unique_ptr<void, decltype(mark)> const on_exit{&cleaned, mark};
      try {
        co_await pause_for(30s);
      } catch (boost::system::system_error const& e) {
        cancelled = e.code() == asio::error::operation_aborted;
        EXPECT_FALSE(h.valid());
        throw;
      }
    };
    error_code seen;
    try {
      co_await with_lock(m, endless);
    } catch (boost::system::system_error const& e) {
      seen = e.code();
    }
    EXPECT_EQ(seen, errc::lost) << seen.message();
    EXPECT_TRUE(cancelled);
    EXPECT_TRUE(cleaned);
  };
  w.run(body);
}

TEST_P(WithLock, ABodyThatIgnoresItsLossStillEndsInLost) {
  NEEDS_A_CONNECTION();
  NEEDS(tells_of_loss);
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    mutex m{c, "ignored"};
    auto stubborn = [&](hold& h) -> asio::awaitable<int> {
      server().forget("ignored");
      auto lost = co_await h.async_lost(as_tuple);
      (void)lost;
      co_return 1;
    };
    error_code seen;
    try {
      co_await with_lock(m, stubborn);
    } catch (boost::system::system_error const& e) {
      seen = e.code();
    }
    EXPECT_EQ(seen, errc::lost) << seen.message();
  };
  w.run(body);
}

TEST_P(WithLock, CancellingTheCallerCancelsTheBodyAndGivesTheLockBack) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "caller"};
    bool running = false, cancelled = false;
    auto endless = [&](hold&) -> asio::awaitable<void> {
      running = true;
      try {
        co_await pause_for(30s);
      } catch (boost::system::system_error const& e) {
        cancelled = e.code() == asio::error::operation_aborted;
        throw;
      }
    };
    auto const caller = [&]() -> asio::awaitable<void> { co_await with_lock(m, endless); };
    asio::cancellation_signal signal;
    std::exception_ptr error;
    bool ended = false;
    asio::co_spawn(w.ctx, caller(), asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr e) {
                     error = e;
                     ended = true;
                   }));
    auto const started = [&] { return running; };
    co_await until(started, "the body");
    signal.emit(asio::cancellation_type::terminal);
    auto const over = [&] { return ended; };
    co_await until(over, "the caller's end");
    EXPECT_TRUE(cancelled);
    EXPECT_TRUE(is_free(server(), "caller"));
    EXPECT_EQ(error_of([&] {
                if (error) std::rethrow_exception(error);
              }),
              asio::error::operation_aborted);
    EXPECT_EQ(c.stats().held, 0u);
  };
  w.run(body);
}

TEST_P(WithLock, CancellingTheCallerWhileItWaitsLeavesTheLine) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    client other{w.ctx.get_executor(), server().url()};
    mutex m{c, "waiting caller"};
    mutex theirs{other, "waiting caller"};
    hold h = co_await theirs.async_acquire();
    auto never = [&](hold&) -> asio::awaitable<void> {
      ADD_FAILURE() << "ran";
      co_return;
    };
    auto const caller = [&]() -> asio::awaitable<void> { co_await with_lock(m, never); };
    asio::cancellation_signal signal;
    std::exception_ptr error;
    bool ended = false;
    asio::co_spawn(w.ctx, caller(), asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr e) {
                     error = e;
                     ended = true;
                   }));
    auto const queued = [&] { return in_line(server(), "waiting caller") == 1; };
    co_await until(queued, "in line");
    signal.emit(asio::cancellation_type::terminal);
    auto const over = [&] { return ended && in_line(server(), "waiting caller") == 0; };
    co_await until(over, "the caller's end, and out of the line");
    EXPECT_EQ(error_of([&] {
                if (error) std::rethrow_exception(error);
              }),
              asio::error::operation_aborted);
    co_await h.async_release();
  };
  w.run(body);
}

TEST_P(WithLock, ABodyMayGiveTheLockBackItself) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "early"};
    auto early = [&](hold& h) -> asio::awaitable<int> {
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
      EXPECT_TRUE(is_free(server(), "early"));
      co_return 3;
    };
    int const result = co_await with_lock(m, early);
    EXPECT_EQ(result, 3);
  };
  w.run(body);
}

/// A strand over a strand over a strand would make each step of the innermost cost as much as there are levels.
TEST_P(WithLock, InsideAnotherRunsOnTheStrandOfThat) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick(server())};
    mutex outer{c, "outer"}, inner{c, "inner"}, innermost{c, "innermost"};
    asio::any_io_executor const home = w.ctx.get_executor();
    asio::any_io_executor of_outer, of_inner, of_innermost;
    auto third = [&](hold&) -> asio::awaitable<void> { of_innermost = co_await asio::this_coro::executor; };
    auto second = [&](hold&) -> asio::awaitable<void> {
      of_inner = co_await asio::this_coro::executor;
      co_await with_lock(innermost, third);
    };
    auto first = [&](hold&) -> asio::awaitable<void> {
      of_outer = co_await asio::this_coro::executor;
      co_await with_lock(inner, second);
    };
    co_await with_lock(outer, first);
    EXPECT_NE(of_outer, home);
    EXPECT_EQ(of_inner, of_outer);
    EXPECT_EQ(of_innermost, of_outer);

    // The user's own strand is as good.
    asio::any_io_executor const own = asio::make_strand(w.ctx.get_executor());
    auto on_it = [&]() -> asio::awaitable<void> { co_await with_lock(innermost, third); };
    co_await asio::co_spawn(own, on_it, asio::use_awaitable);
    EXPECT_EQ(of_innermost, own);
  };
  w.run(body);
}

TEST_P(WithLock, P9TheLossOfTheOuterLockEndsTheInnerBody) {
  NEEDS_A_CONNECTION();
  NEEDS(tells_of_loss);
  asio::thread_pool pool{3};
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = quick(server(), 600ms);
    settings.single_threaded = false;
    client c{co_await asio::this_coro::executor, settings};
    mutex outer{c, "lost outside"}, inner{c, "ended inside"};
    bool inner_ended = false;
    auto second = [&](hold&) -> asio::awaitable<void> {
      server().forget("lost outside");
      try {
        co_await pause_for(20s);
      } catch (boost::system::system_error const& e) {
        inner_ended = e.code() == asio::error::operation_aborted;
        throw;
      }
    };
    auto first = [&](hold&) -> asio::awaitable<void> { co_await with_lock(inner, second); };
    auto ended = co_await asio::co_spawn(co_await asio::this_coro::executor, with_lock(outer, first), as_tuple);
    EXPECT_TRUE(inner_ended);
    CO_ASSERT(std::get<0>(ended) != nullptr);
    EXPECT_EQ(error_of([&] { std::rethrow_exception(std::get<0>(ended)); }), errc::lost);
  };
  asio::co_spawn(pool, body, asio::use_future).get();
  EXPECT_TRUE(is_free(server(), "ended inside"));
}

TEST_P(WithLock, ExcludesOthersOnAPoolOfThreads) {
  asio::thread_pool pool{4};
  client one{pool.get_executor(), server().url()};
  client two{pool.get_executor(), server().url()};
  mutex a{one, "pool"};
  mutex b{two, "pool"};
  int plain = 0;  // not atomic: the lock is what guards it
  auto increment = [&](hold&) -> asio::awaitable<void> {
    int const before = plain;
    co_await asio::post(asio::use_awaitable);
    plain = before + 1;
  };
  auto const worker = [&](mutex& m) -> asio::awaitable<void> {
    for (int i = 0; i < 10; ++i) co_await with_lock(m, increment);
  };
  std::vector<std::future<void>> all;
  for (int i = 0; i < 20; ++i) all.push_back(asio::co_spawn(pool, worker(i % 2 == 0 ? a : b), asio::use_future));
  for (auto& f : all) {
    ASSERT_EQ(f.wait_for(60s), std::future_status::ready);
    f.get();
  }
  EXPECT_EQ(plain, 200);
}

}  // namespace
}  // namespace conch::test
