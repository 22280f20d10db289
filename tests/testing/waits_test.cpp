// When waits end, to the millisecond: real clients in virtual time.
#include <conch/all.hpp>
#include <conch/testing.hpp>

#include "testing/shared.hpp"

#include <gtest/gtest.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using conch::test::body;
using conch::test::sleep_for;
using conch::testing::world;

body emit_after(conch::duration length, asio::cancellation_signal& stop) {
  co_await sleep_for(length);
  stop.emit(asio::cancellation_type::total);
}

/// The second acquire of an owner waits for the first, which is cancelled, and then for the server.
body acquire_twice(world& w, conch::duration cancelled_after, conch::duration& took) {
  conch::client one{w.executor(), w.url()}, two{w.executor(), w.url()};
  conch::reentrant_shared_mutex held{one, "busy"}, busy{two, "busy"};
  conch::owner holder, waiter;
  conch::reentrant_hold h = co_await held.async_acquire(holder, asio::use_awaitable);
  asio::cancellation_signal stop;
  bool first_has_ended = false;
  busy.async_acquire(waiter, asio::bind_cancellation_slot(stop.slot(), [&](conch::error_code, conch::reentrant_hold) {
                       first_has_ended = true;
                     }));
  asio::co_spawn(co_await asio::this_coro::executor, emit_after(cancelled_after, stop), asio::detached);
  auto const began = w.now();
  conch::acquire_options const two_seconds{.wait = 2s};
  auto const ended = co_await busy.async_acquire(waiter, two_seconds, asio::as_tuple(asio::use_awaitable));
  took = w.now() - began;
  w.expect(first_has_ended, "the first has ended");
  w.expect(std::get<0>(ended) == conch::errc::timed_out, std::get<0>(ended).message());
  co_await h.async_release(asio::use_awaitable);
}

TEST(TestingWaits, OfASecondAcquireOfAnOwnerLastNoLongerWhereTheFirstIsCancelled) {
  for (conch::duration const cancelled_after : {100ms, 1000ms, 1900ms}) {
    world w{1};
    conch::duration took{};
    w.run(acquire_twice(w, cancelled_after, took));
    EXPECT_GE(took, 2s);
    EXPECT_LT(took, 2s + 250ms);
  }
}

}  // namespace
