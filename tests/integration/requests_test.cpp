// Holders that are asked to let go, and go on or release. For each kind of lock.

#include "integration/family.hpp"
#include "integration/places.hpp"
#include "support/tcp_proxy.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <vector>

namespace conch::test {
namespace {

/// What one async_requested has completed with.
struct ear {
  void listen(hold& h) {
    done = false;
    h.async_requested([this](error_code ec) {
      done = true;
      why = ec;
    });
  }
  bool done = false;
  error_code why;
};

class Requests : public with_each_kind<Requests> {};

INSTANTIATE_TEST_SUITE_P(Each, Requests, testing::ValuesIn(every_kind()), kind_name);

TEST_P(Requests, AreHeardByTheHolderWhoLetsTheNextIn) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://requests"}}) {
      SCOPED_TRACE(url);
      client one{w.ctx.get_executor(), quick(url, 30s)}, two{w.ctx.get_executor(), quick(url, 30s)};
      mutex const any{two, name("asked for")};
      std::uint32_t asked = co_await any.async_request_release(asio::use_awaitable);
      EXPECT_EQ(asked, 0u) << "it has no holder";

      hold h = co_await kind().acquire(one, any.name());
      ear first, second;
      first.listen(h);
      second.listen(h);
      hold next;
      auto const wait = [&]() -> asio::awaitable<void> { next = co_await kind().acquire(two, any.name()); };
      asio::co_spawn(w.ctx, wait(), asio::detached);
      auto const before = std::chrono::system_clock::now();
      asked = co_await any.async_request_release(asio::use_awaitable);
      auto const after = std::chrono::system_clock::now();
      EXPECT_EQ(asked, 1u);
      auto const heard = [&] { return first.done && second.done; };
      co_await until(heard, "both have heard");
      EXPECT_FALSE(first.why || second.why);
      EXPECT_TRUE(h.valid()) << "nothing is taken away";

      lock_status const seen = co_await any.async_inspect(asio::use_awaitable);
      CO_ASSERT(seen.holders.size() == 1);
      EXPECT_EQ(seen.holders[0].asked_by, two.id());
      EXPECT_GE(seen.holders[0].asked_at, before - 1ms);
      EXPECT_LE(seen.holders[0].asked_at, after + 1ms);

      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
      auto const handed = [&] { return next.valid(); };
      co_await until(handed, "the next has it");
      lock_status const then = co_await any.async_inspect(asio::use_awaitable);
      CO_ASSERT(then.holders.size() == 1);
      EXPECT_EQ(then.holders[0].asked_by, "") << "nobody has asked the next";
    }
  };
  w.run(body);
}

TEST_P(Requests, ThatCameBeforeAnybodyListenedAreHeardAtOnce) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://requests"}}) {
      SCOPED_TRACE(url);
      client one{w.ctx.get_executor(), quick(url, 30s)}, two{w.ctx.get_executor(), quick(url, 30s)};
      hold h = co_await kind().acquire(one, name("before"));
      mutex const any{two, name("before")};
      std::uint32_t asked =
          co_await any.async_request_release(h.fence() + (std::int64_t{1} << 20), asio::use_awaitable);
      EXPECT_EQ(asked, 0u) << "the token of nobody";
      asked = co_await any.async_request_release(h.fence(), asio::use_awaitable);
      EXPECT_EQ(asked, 1u);
      co_await h.async_requested();
      EXPECT_TRUE(h.valid());
      co_await h.async_requested();  // a later listener is told, too
    }
  };
  w.run(body);
}

TEST_P(Requests, EndWithTheHold) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick(server(), 30s)}, two{w.ctx.get_executor(), quick(server(), 30s)};
    auto of_nothing = co_await hold{}.async_requested(as_tuple);
    EXPECT_EQ(std::get<0>(of_nothing), errc::not_held);

    hold h = co_await kind().acquire(one, name("ends"));
    ear released;
    released.listen(h);
    co_await h.async_release();
    co_await until([&] { return released.done; }, "told of the release");
    EXPECT_EQ(released.why, asio::error::operation_aborted);
    auto const after = co_await h.async_requested(as_tuple);
    EXPECT_EQ(std::get<0>(after), errc::not_held);

    hold again = co_await kind().acquire(one, name("ends"));
    ear lost;
    lost.listen(again);
    mutex const any{two, name("ends")};
    std::uint32_t const from = co_await any.async_force_release(asio::use_awaitable);
    EXPECT_EQ(from, 1u);
    co_await until([&] { return lost.done; }, "told of the loss");
    EXPECT_EQ(lost.why, errc::lost);
  };
  w.run(body);
}

class RequestsOf : public with_server<RequestsOf> {
 public:
  static void SetUpTestSuite() { start_server({.tcp = true}); }
};

TEST_F(RequestsOf, AClientThatWasAwayAreHeardOnItsNextConnection) {
  auto const body = [&]() -> asio::awaitable<void> {
    tcp_proxy proxy{server().port()};
    config const away = quick(proxy.url(), 30s);
    client one{w.ctx.get_executor(), away}, two{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{one, "away"};
    hold h = co_await m.async_acquire();
    ear holder;
    holder.listen(h);
    proxy.refuse(true);
    proxy.reset();
    auto const gone = [&] { return one.stats().disconnects != 0; };
    co_await until(gone, "no connection");
    mutex const any{two, "away"};
    std::uint32_t const asked = co_await any.async_request_release(asio::use_awaitable);
    EXPECT_EQ(asked, 1u);
    EXPECT_FALSE(holder.done);
    proxy.refuse(false);
    co_await until([&] { return holder.done; }, "heard on the next connection");
    EXPECT_FALSE(holder.why);
    EXPECT_TRUE(h.valid());
  };
  w.run(body);
}

TEST_F(RequestsOf, AMutexIsHandedToWhoeverAskedAndNotToANeighbour) {
  auto const body = [&]() -> asio::awaitable<void> {
    config patient = quick(server(), 30s);
    patient.local_slice = 10s;
    client one{w.ctx.get_executor(), patient}, two{w.ctx.get_executor(), quick(server(), 30s)};
    mutex mine{one, "neighbours"}, theirs{two, "neighbours"};
    hold h = co_await mine.async_acquire();
    hold neighbours, others;
    auto const get = [](mutex& m, hold& to) -> asio::awaitable<void> { to = co_await m.async_acquire(); };
    asio::co_spawn(w.ctx, get(theirs, others), asio::detached);
    co_await until([&] { return in_line(probe, "neighbours") == 1; }, "the other client is in line");
    asio::co_spawn(w.ctx, get(mine, neighbours), asio::detached);
    std::uint32_t const asked = co_await theirs.async_request_release();
    EXPECT_EQ(asked, 1u);
    co_await h.async_requested();
    co_await h.async_release();
    co_await until([&] { return others.valid(); }, "handed over");
    EXPECT_FALSE(neighbours.valid());
    co_await others.async_release();
    co_await until([&] { return neighbours.valid(); }, "then the neighbour");
  };
  w.run(body);
}

TEST_F(RequestsOf, OneOfSeveralOwnersMeanThatOneOnly) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick(server(), 30s)}, two{w.ctx.get_executor(), quick(server(), 30s)};
    semaphore permits{one, "three of them", 3}, same{two, "three of them", 3};
    hold a = co_await permits.async_acquire(), b = co_await permits.async_acquire();
    ear of_a, of_b;
    of_a.listen(a);
    of_b.listen(b);
    lock_status const seen = co_await same.async_inspect();
    CO_ASSERT(seen.holders.size() == 2);
    std::uint32_t asked = co_await same.async_request_release(seen.holders[1]);
    EXPECT_EQ(asked, 1u);
    co_await until([&] { return of_b.done; }, "the second has heard");
    EXPECT_FALSE(of_a.done);
    asked = co_await same.async_request_release();
    EXPECT_EQ(asked, 2u);
    co_await until([&] { return of_a.done; }, "the first has heard");
  };
  w.run(body);
}

TEST_F(RequestsOf, AReentrantMutexAreHeardByItsLevels) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick(server(), 30s)}, two{w.ctx.get_executor(), quick(server(), 30s)};
    owner const me;
    reentrant_mutex m{one, "levels"}, same{two, "levels"};
    reentrant_hold outer = co_await m.async_acquire(me), inner = co_await m.async_acquire(me);
    std::uint32_t const asked = co_await same.async_request_release();
    EXPECT_EQ(asked, 1u);
    co_await inner.async_requested();
    co_await outer.async_requested();
    auto const of_none = co_await reentrant_hold{}.async_requested(as_tuple);
    EXPECT_EQ(std::get<0>(of_none), errc::not_held);
  };
  w.run(body);
}

TEST_F(RequestsOf, LocksOverSeveralServersAreNotThere) {
  auto const body = [&]() -> asio::awaitable<void> {
    config several;
    several.quorum.servers = {server().url()};
    client c{w.ctx.get_executor(), several};
    mutex m{c, "votes"};
    hold h = co_await m.async_acquire();
    auto const heard = co_await h.async_requested(as_tuple);
    EXPECT_EQ(std::get<0>(heard), errc::not_supported);
    auto const asked = co_await m.async_request_release(as_tuple);
    EXPECT_EQ(std::get<0>(asked), errc::not_supported);
    auto const no_token = co_await m.async_request_release(0, as_tuple);
    EXPECT_EQ(std::get<0>(no_token), errc::invalid_config);
  };
  w.run(body);
}

TEST_F(RequestsOf, AListenerThatIsCancelledHearsNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick(server(), 30s)};
    mutex m{one, "cancelled"};
    hold h = co_await m.async_acquire();
    asio::cancellation_signal stop;
    error_code why;
    bool done = false;
    h.async_requested(asio::bind_cancellation_slot(stop.slot(), [&](error_code ec) {
      why = ec;
      done = true;
    }));
    stop.emit(asio::cancellation_type::total);
    co_await until([&] { return done; }, "cancelled");
    EXPECT_EQ(why, asio::error::operation_aborted);
    EXPECT_TRUE(h.valid());
  };
  w.run(body);
}

TEST_F(RequestsOf, SeveralLocksAreHeardOfEachOfThem) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://requests of several"}}) {
      SCOPED_TRACE(url);
      client one{w.ctx.get_executor(), quick(url, 30s)}, two{w.ctx.get_executor(), quick(url, 30s)},
          other{w.ctx.get_executor(), quick(url, 30s)};
      multi_lock both{{mutex{one, "left"}, mutex{other, "right"}}};
      multi_hold h = co_await both.async_acquire();
      int heard = 0;
      error_code why;
      auto const count = [&](error_code ec) {
        ++heard;
        why = ec;
      };
      asio::cancellation_signal stop;
      error_code of_cancelled;
      h.async_requested(asio::bind_cancellation_slot(stop.slot(), [&](error_code ec) { of_cancelled = ec; }));
      stop.emit(asio::cancellation_type::total);
      h.async_requested(count);
      h.async_requested(count);
      mutex const right{two, "right"};
      std::uint32_t asked = co_await right.async_request_release(asio::use_awaitable);
      EXPECT_EQ(asked, 1u);
      co_await until([&] { return heard == 2; }, "both have heard");
      EXPECT_FALSE(why);
      EXPECT_EQ(of_cancelled, asio::error::operation_aborted);
      co_await h.async_requested();  // a later listener is told, too
      co_await h.holds()[1].async_requested();
      mutex const left{two, "left"};
      asked = co_await left.async_request_release(asio::use_awaitable);
      EXPECT_EQ(asked, 1u);
      co_await h.holds()[0].async_requested();
      EXPECT_EQ(heard, 2) << "once for each that listens";
      EXPECT_TRUE(h.valid()) << "nothing is taken away";
      co_await h.async_release();
      auto const after = co_await h.async_requested(as_tuple);
      EXPECT_EQ(std::get<0>(after), errc::not_held);
    }
  };
  w.run(body);
}

TEST_F(RequestsOf, SeveralLocksEndWithTheHold) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), quick(server(), 30s)}, two{w.ctx.get_executor(), quick(server(), 30s)};
    multi_lock both{{mutex{one, "left"}, mutex{one, "right"}}};
    multi_hold h = co_await both.async_acquire();
    error_code released;
    h.async_requested([&](error_code ec) { released = ec; });
    co_await h.async_release();
    co_await until([&] { return static_cast<bool>(released); }, "told of the release");
    EXPECT_EQ(released, asio::error::operation_aborted);

    h = co_await both.async_acquire();
    error_code lost;
    h.async_requested([&](error_code ec) { lost = ec; });
    mutex const left{two, "left"};
    co_await left.async_force_release(asio::use_awaitable);
    co_await until([&] { return static_cast<bool>(lost); }, "told of the loss");
    EXPECT_EQ(lost, errc::lost);
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
