// Watchers: they wait until a lock is free, and take nothing. For each kind of lock.

#include "integration/family.hpp"
#include "integration/places.hpp"
#include "support/tcp_proxy.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <vector>

namespace conch::test {
namespace {

/// What one async_wait_free has completed with.
struct watcher {
  void wait(mutex const& of, duration how_long = duration::max()) {
    done = false;
    of.async_wait_free(how_long, [this](error_code ec) {
      done = true;
      why = ec;
    });
  }
  bool done = false;
  error_code why;
};

class WaitFree : public with_each_kind<WaitFree> {};

INSTANTIATE_TEST_SUITE_P(Each, WaitFree, testing::ValuesIn(every_kind()), kind_name);

TEST_P(WaitFree, CompletesWhenNobodyHasTheLockAndTakesNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://watched"}}) {
      SCOPED_TRACE(url);
      client one{w.ctx.get_executor(), quick(url, 30s)}, two{w.ctx.get_executor(), quick(url, 30s)};
      mutex const any{two, name("watched")}, same{one, any.name()};
      co_await any.async_wait_free(asio::use_awaitable);

      hold h = co_await kind().acquire(one, any.name());
      watcher first, second, of_holder;
      first.wait(any);
      second.wait(any);
      of_holder.wait(same);
      auto const too_late = co_await any.async_wait_free(0s, as_tuple);
      EXPECT_EQ(std::get<0>(too_late), errc::timed_out) << "one question";
      EXPECT_FALSE(first.done || second.done || of_holder.done);
      lock_status const seen = co_await any.async_inspect(asio::use_awaitable);
      EXPECT_EQ(seen.waiting, 0u) << "it is not a place in the queue";

      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
      auto const told = [&] { return first.done && second.done && of_holder.done; };
      co_await until(told, "all are told");
      EXPECT_FALSE(first.why || second.why || of_holder.why);
      lock_status const then = co_await any.async_inspect(asio::use_awaitable);
      EXPECT_FALSE(then.locked());
    }
  };
  w.run(body);
}

TEST_P(WaitFree, IsNotToldOfAHandOver) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://handed"}}) {
      SCOPED_TRACE(url);
      client one{w.ctx.get_executor(), quick(url, 30s)}, two{w.ctx.get_executor(), quick(url, 30s)},
          three{w.ctx.get_executor(), quick(url, 30s)};
      mutex const any{three, name("handed")};
      hold h = co_await kind().acquire(one, any.name());
      hold next;
      auto const wait = [&]() -> asio::awaitable<void> { next = co_await kind().acquire(two, any.name()); };
      asio::co_spawn(w.ctx, wait(), asio::detached);
      lock_status seen;
      while (seen.waiting == 0) seen = co_await any.async_inspect(asio::use_awaitable);
      watcher observer;
      observer.wait(any);
      seen = co_await any.async_inspect(asio::use_awaitable);  // behind the question, so it is written down
      co_await h.async_release();
      co_await until([&] { return next.valid(); }, "handed over");
      seen = co_await any.async_inspect(asio::use_awaitable);
      EXPECT_FALSE(observer.done);
      co_await next.async_release();
      co_await until([&] { return observer.done; }, "told of the second release");
      EXPECT_FALSE(observer.why);
    }
  };
  w.run(body);
}

class WaitFreeOf : public with_server<WaitFreeOf> {
 public:
  static void SetUpTestSuite() { start_server({.tcp = true}); }
};

// Nobody tells of the end of a lease.
TEST_F(WaitFreeOf, P4ADeadHolderIsWaitedForUntilItsLeaseEnds) {
  auto const body = [&]() -> asio::awaitable<void> {
    client two{w.ctx.get_executor(), quick(server(), 30s)};
    mutex const any{two, "dead"};
    probe.command({"SET", "conch:{dead}", "0123456789abcdef0123456789abcdef.1 7 h", "PX", "700"});
    co_await any.async_wait_free(asio::use_awaitable);
    EXPECT_EQ(probe.integer({"EXISTS", "conch:{dead}"}), 0);
    probe.command({"HSET", "conch:{dead}", "what", "else"});
    auto const other = co_await any.async_wait_free(as_tuple);
    EXPECT_EQ(std::get<0>(other), errc::wrong_type);
  };
  w.run(body);
}

TEST_F(WaitFreeOf, APermitIsOfAllOfThem) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick(server(), 30s)}, two{w.ctx.get_executor(), quick(server(), 30s)};
    semaphore permits{one, "workers", 3};
    hold a = co_await permits.async_acquire(), b = co_await permits.async_acquire(2);
    mutex const any{two, "workers"};
    watcher all;
    all.wait(any);
    lock_status seen = co_await permits.async_inspect();
    seen = co_await any.async_inspect(asio::use_awaitable);
    co_await a.async_release();
    co_await permits.async_release(b, 1);
    seen = co_await any.async_inspect(asio::use_awaitable);
    EXPECT_EQ(seen.taken, 1u);
    EXPECT_FALSE(all.done);
    co_await b.async_release();
    co_await until([&] { return all.done; }, "the last has ended");
    EXPECT_FALSE(all.why);
  };
  w.run(body);
}

TEST_F(WaitFreeOf, TellsThousandsAHundredInAScript) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick(server(), 30s)}, two{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{one, "thousands"};
    mutex const any{two, "thousands"};
    hold h = co_await m.async_acquire();
    std::vector<watcher> all(2500);
    for (watcher& each : all) each.wait(any);
    lock_status const seen = co_await any.async_inspect(asio::use_awaitable);
    EXPECT_TRUE(seen.locked());
    std::int64_t const written = probe.integer({"ZCARD", "conch:{thousands}:w"});
    EXPECT_EQ(written, 2500);
    co_await h.async_release();
    auto const told = [&] {
      return std::all_of(all.begin(), all.end(), [](watcher const& each) { return each.done && !each.why; });
    };
    co_await until(told, "all are told");
    EXPECT_EQ(probe.integer({"EXISTS", "conch:{thousands}:w", "conch:{thousands}:a"}), 0);
  };
  w.run(body);
}

TEST_F(WaitFreeOf, AClientThatWasAwayAsksOnItsNextConnection) {
  auto const body = [&]() -> asio::awaitable<void> {
    tcp_proxy proxy{server().port()};
    client one{w.ctx.get_executor(), quick(server(), 30s)}, away{w.ctx.get_executor(), quick(proxy.url(), 30s)};
    mutex m{one, "away"};
    mutex const any{away, "away"};
    hold h = co_await m.async_acquire();
    watcher observer;
    observer.wait(any);
    lock_status const seen = co_await any.async_inspect(asio::use_awaitable);
    EXPECT_TRUE(seen.locked());
    proxy.refuse(true);
    proxy.reset();
    auto const gone = [&] { return away.stats().disconnects != 0; };
    co_await until(gone, "no connection");
    co_await h.async_release();
    EXPECT_FALSE(observer.done);
    proxy.refuse(false);
    co_await until([&] { return observer.done; }, "told on the next connection");
    EXPECT_FALSE(observer.why);
  };
  w.run(body);
}

TEST_F(WaitFreeOf, EndsWithItsTimeItsCancellationAndItsClientAndLeavesNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{one, "ends"};
    hold h = co_await m.async_acquire();
    auto const late = co_await m.async_wait_free(50ms, as_tuple);
    EXPECT_EQ(std::get<0>(late), errc::timed_out);
    asio::cancellation_signal stop;
    error_code why;
    bool done = false;
    m.async_wait_free(asio::bind_cancellation_slot(stop.slot(), [&](error_code ec) {
      why = ec;
      done = true;
    }));
    lock_status const seen = co_await m.async_inspect();
    EXPECT_TRUE(seen.locked());
    stop.emit(asio::cancellation_type::total);
    co_await until([&] { return done; }, "cancelled");
    EXPECT_EQ(why, asio::error::operation_aborted);
    co_await until([&] { return probe.integer({"EXISTS", "conch:{ends}:w"}) == 0; }, "the server has forgotten them");

    watcher left;
    {
      client two{w.ctx.get_executor(), quick(server(), 30s)};
      left.wait(mutex{two, "ends"});
    }
    co_await until([&] { return left.done; }, "its client is gone");
    EXPECT_EQ(left.why, errc::closed);
  };
  w.run(body);
}

TEST_F(WaitFreeOf, LocksOverSeveralServersAreNotThere) {
  auto const body = [&]() -> asio::awaitable<void> {
    config several;
    several.quorum.servers = {server().url()};
    client c{w.ctx.get_executor(), several};
    mutex m{c, "votes"};
    auto const told = co_await m.async_wait_free(as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::not_supported);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
