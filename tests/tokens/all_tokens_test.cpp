// Every completion token and adapter of Asio that this Boost has, compiled and run with a lock in memory. What
// tokens_test.cpp has is not here.

#include "integration/fixture.hpp"

#include <boost/asio/append.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/consign.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/experimental/co_spawn.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <boost/asio/experimental/coro.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/experimental/promise.hpp>
#include <boost/asio/experimental/use_promise.hpp>
#include <boost/asio/packaged_task.hpp>
#include <boost/asio/prepend.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/version.hpp>
#if BOOST_VERSION >= 108600
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancel_at.hpp>
#endif

#include <future>
#include <memory>
#include <variant>
#include <vector>

namespace conch::test {
namespace {

class AllTokens : public testing::Test {
 protected:
  world w;
  client c{w.ctx.get_executor(), "memory://"};
  mutex m{c, "tokens"}, other{c, "others"};

  /// Waits until nobody has it: what a token did with its hold is seen from outside.
  void expect_free() {
    auto const body = [&]() -> asio::awaitable<void> {
      acquire_options const soon{.wait = 20s};
      hold h = co_await m.async_acquire(soon, asio::use_awaitable);
      EXPECT_TRUE(h.valid());
    };
    w.run(body);
  }
};

TEST_F(AllTokens, Detached) {
  m.async_acquire(asio::detached);
  expect_free();  // its hold was destroyed
}

TEST_F(AllTokens, RedirectError) {
  auto const body = [&]() -> asio::awaitable<void> {
    hold first = co_await m.async_acquire();
    error_code ec;
    acquire_options const soon{.wait = 1ms};
    hold none = co_await m.async_acquire(soon, asio::redirect_error(asio::use_awaitable, ec));
    EXPECT_FALSE(none.valid());
    EXPECT_EQ(ec, errc::timed_out);
  };
  w.run(body);
}

TEST_F(AllTokens, AppendAndPrepend) {
  int seen = 0;
  m.async_acquire(asio::append([&](error_code ec, hold h, int more) { seen = !ec && h.valid() ? more : -1; }, 7));
  w.run_until([&] { return seen != 0; }, "the appended number");
  EXPECT_EQ(seen, 7);
  seen = 0;
  m.async_acquire(asio::prepend([&](int more, error_code ec, hold h) { seen = !ec && h.valid() ? more : -1; }, 8));
  w.run_until([&] { return seen != 0; }, "the prepended number");
  EXPECT_EQ(seen, 8);
}

TEST_F(AllTokens, Consign) {
  auto kept = std::make_shared<int>(1);
  std::weak_ptr<int> const alive = kept;
  bool done = false;
  m.async_acquire(asio::consign(
      [&](error_code ec, hold) {
        EXPECT_FALSE(ec);
        EXPECT_FALSE(alive.expired());
        done = true;
      },
      std::move(kept)));
  EXPECT_FALSE(alive.expired());
  w.run_until([&] { return done && alive.expired(); }, "the end of what was consigned");
}

TEST_F(AllTokens, BindCancellationSlot) {
  hold first;
  m.async_acquire([&](error_code, hold h) { first = std::move(h); });
  w.run_until([&] { return first.valid(); }, "the first hold");
  asio::cancellation_signal stop;
  error_code why;
  m.async_acquire(asio::bind_cancellation_slot(stop.slot(), [&](error_code ec, hold) { why = ec; }));
  stop.emit(asio::cancellation_type::terminal);
  w.run_until([&] { return why.failed(); }, "the cancellation");
  EXPECT_EQ(why, asio::error::operation_aborted);
}

TEST_F(AllTokens, OfAnElection) {
  election e{c, "tokens"};
  auto const strand = asio::make_strand(w.ctx);
  leadership mine;
  int inside = 0;
  std::future<leader> first = e.async_observe(0, 10ms, asio::use_future);
  e.async_campaign(asio::bind_executor(strand, asio::append(
                                                   [&](error_code ec, leadership l, int more) {
                                                     EXPECT_FALSE(ec) << ec.message();
                                                     inside += strand.running_in_this_thread() ? more : 0;
                                                     mine = std::move(l);
                                                   },
                                                   7)));
  EXPECT_EQ(inside, 0);
  w.run_until([&] { return inside == 7; }, "elected, on the strand");
  e.async_leader(asio::bind_executor(strand, [&](error_code ec, leader const& now) {
    EXPECT_FALSE(ec) << ec.message();
    EXPECT_EQ(now.term, mine.term());
    inside += strand.running_in_this_thread();
  }));
  EXPECT_EQ(inside, 7);
  w.run_until([&] { return inside == 8; }, "the leader, on the strand");
  w.run_until([&] { return first.wait_for(0s) == std::future_status::ready; }, "the observer");
  EXPECT_EQ(first.get().term, mine.term());
  auto const body = [&]() -> asio::awaitable<void> {
    auto next = e.async_observe(mine.term());  // is deferred
    bool const led = co_await mine.async_resign();
    EXPECT_TRUE(led);
    leader const none = co_await std::move(next);
    EXPECT_FALSE(none);
    error_code ec;
    acquire_options const soon{.wait = 1s};
    leadership again = co_await e.async_campaign(soon, asio::redirect_error(asio::use_awaitable, ec));
    EXPECT_FALSE(ec) << ec.message();
    EXPECT_TRUE(again.valid());
  };
  w.run(body);
  expect_free();
}

TEST_F(AllTokens, PackagedTask) {
  std::packaged_task<bool(error_code, hold)> task{[](error_code ec, hold h) { return !ec && h.valid(); }};
  std::future<bool> answer = m.async_acquire(std::move(task));
  w.run_until([&] { return answer.wait_for(0s) == std::future_status::ready; }, "the future");
  EXPECT_TRUE(answer.get());
}

TEST_F(AllTokens, DeferredWithAContinuation) {
  bool valid = false, done = false;
  auto operation = m.async_acquire(asio::deferred)(asio::deferred([&](error_code ec, hold h) {
    valid = !ec && h.valid();
    return asio::deferred.values(3);
  }));
  std::move(operation)([&](int n) { done = n == 3; });
  w.run_until([&] { return done; }, "what follows the acquire");
  EXPECT_TRUE(valid);
}

TEST_F(AllTokens, AwaitableOperators) {
  using namespace asio::experimental::awaitable_operators;
  auto const body = [&]() -> asio::awaitable<void> {
    auto both = co_await (m.async_acquire(asio::use_awaitable) && other.async_acquire(asio::use_awaitable));
    EXPECT_TRUE(std::get<0>(both).valid());
    EXPECT_TRUE(std::get<1>(both).valid());
    asio::steady_timer soon{co_await asio::this_coro::executor, 1ms};
    auto first = co_await (m.async_acquire(asio::use_awaitable) || soon.async_wait(asio::use_awaitable));
    EXPECT_EQ(first.index(), 1u);
  };
  w.run(body);
}

TEST_F(AllTokens, ParallelGroup) {
  auto const body = [&]() -> asio::awaitable<void> {
    auto group =
        asio::experimental::make_parallel_group(m.async_acquire(asio::deferred), other.async_acquire(asio::deferred));
    auto got = co_await group.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
    auto& [order, first, a, second, b] = got;
    EXPECT_EQ(order.size(), 2u);
    EXPECT_FALSE(first || second);
    EXPECT_TRUE(a.valid());
    EXPECT_TRUE(b.valid());
  };
  w.run(body);
}

TEST_F(AllTokens, ParallelGroupOfAnyNumber) {
  auto const body = [&]() -> asio::awaitable<void> {
    hold held = co_await m.async_acquire();
    using operation = decltype(m.async_acquire(asio::deferred));
    std::vector<operation> operations;
    operations.push_back(m.async_acquire(asio::deferred));
    operations.push_back(other.async_acquire(asio::deferred));
    auto group = asio::experimental::make_parallel_group(std::move(operations));
    auto got = co_await group.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
    auto& [order, errors, holds] = got;
    EXPECT_EQ(order.front(), 1u);  // the other one is free
    EXPECT_TRUE(holds.at(1).valid());
    EXPECT_EQ(errors.at(0), asio::error::operation_aborted);
    EXPECT_FALSE(holds.at(0).valid());
  };
  w.run(body);
}

TEST_F(AllTokens, UsePromise) {
  auto const body = [&]() -> asio::awaitable<void> {
    auto promised = m.async_acquire(asio::experimental::use_promise);
    // A promise of Boost 1.81 that is waited for before it is done moves its result away first, and gives an empty
    // hold.
    auto const done = [&] { return promised.completed(); };
    co_await until(done, "the promise");
    hold h = co_await std::move(promised)(asio::use_awaitable);
    EXPECT_TRUE(h.valid());
  };
  w.run(body);
}

/// The experimental coroutine of Asio. (Its token use_coro does not compile with a result behind the error_code, in
/// Boost 1.81.)
asio::experimental::coro<void, bool> in_a_coro(asio::any_io_executor, mutex& m) {
  hold h = co_await m.async_acquire(asio::deferred);
  co_return h.valid();
}

TEST_F(AllTokens, DeferredInACoro) {
  bool valid = false;
  asio::experimental::co_spawn(in_a_coro(w.ctx.get_executor(), m),
                               [&](std::exception_ptr, bool answer) { valid = answer; });
  w.run_until([&] { return valid; }, "the end of the coroutine");
}

TEST_F(AllTokens, AHoldGoesThroughAChannel) {
  auto const body = [&]() -> asio::awaitable<void> {
    asio::experimental::channel<void(error_code, hold)> to{co_await asio::this_coro::executor, 1};
    hold mine = co_await m.async_acquire();
    std::int64_t const fence = mine.fence();
    EXPECT_TRUE(to.try_send(error_code{}, std::move(mine)));
    hold here = co_await to.async_receive(asio::use_awaitable);
    EXPECT_TRUE(here.valid());
    EXPECT_EQ(here.fence(), fence);
  };
  w.run(body);
  expect_free();
}

TEST_F(AllTokens, AHoldGoesThroughAConcurrentChannel) {
  auto const body = [&]() -> asio::awaitable<void> {
    asio::experimental::concurrent_channel<void(error_code, hold)> to{co_await asio::this_coro::executor, 1};
    hold mine = co_await m.async_acquire();
    co_await to.async_send(error_code{}, std::move(mine), asio::use_awaitable);
    hold here = co_await to.async_receive(asio::use_awaitable);
    EXPECT_TRUE(here.valid());
  };
  w.run(body);
  expect_free();
}

#if BOOST_VERSION >= 108600
/// Somebody has the lock: what cancels in time has something to cancel.
class CancelInTime : public AllTokens {
 protected:
  hold first;

  void SetUp() override {
    m.async_acquire([&](error_code, hold h) { first = std::move(h); });
    w.run_until([&] { return first.valid(); }, "the first hold");
  }
};

TEST_F(CancelInTime, CancelAtWithACallback) {
  error_code why;
  m.async_acquire(asio::cancel_at(steady::now() + 5ms, [&](error_code ec, hold) { why = ec; }));
  w.run_until([&] { return why.failed(); }, "the cancellation");
  EXPECT_EQ(why, asio::error::operation_aborted);
}

TEST_F(CancelInTime, CancelAfterInACoroutine) {
  auto const body = [&]() -> asio::awaitable<void> {
    auto late = co_await m.async_acquire(asio::cancel_after(5ms, as_tuple));
    EXPECT_EQ(std::get<0>(late), asio::error::operation_aborted);
    EXPECT_FALSE(std::get<1>(late).valid());
    auto in_time = co_await other.async_acquire(asio::cancel_after(20s, as_tuple));
    EXPECT_FALSE(std::get<0>(in_time));
    EXPECT_TRUE(std::get<1>(in_time).valid());
  };
  w.run(body);
}

TEST_F(CancelInTime, CancelAtInACoroutine) {
  auto const body = [&]() -> asio::awaitable<void> {
    auto late = co_await m.async_acquire(asio::cancel_at(steady::now() + 5ms, as_tuple));
    EXPECT_EQ(std::get<0>(late), asio::error::operation_aborted);
  };
  w.run(body);
}

/// Without a token of its own it goes around the one that is the default.
TEST_F(CancelInTime, CancelAfterAlone) {
  auto const body = [&]() -> asio::awaitable<void> {
    hold h = co_await other.async_acquire(asio::cancel_after(20s));
    EXPECT_TRUE(h.valid());
    error_code why;
    try {
      hold none = co_await m.async_acquire(asio::cancel_after(5ms));
    } catch (boost::system::system_error const& e) {
      why = e.code();
    }
    EXPECT_EQ(why, asio::error::operation_aborted);
  };
  w.run(body);
}

TEST_F(CancelInTime, AReleaseAndALossWithCancelAfter) {
  auto const body = [&]() -> asio::awaitable<void> {
    auto not_lost = co_await first.async_lost(asio::cancel_after(5ms, as_tuple));
    EXPECT_EQ(std::get<0>(not_lost), asio::error::operation_aborted);
    bool const was_held = co_await first.async_release(asio::cancel_after(20s, asio::use_awaitable));
    EXPECT_TRUE(was_held);
  };
  w.run(body);
  expect_free();
}
#endif

}  // namespace
}  // namespace conch::test
