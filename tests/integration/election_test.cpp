// conch::election over every kind of server.

#include "integration/child.hpp"
#include "integration/each_server.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>

namespace conch::test {
namespace {

class Election : public with_each_server<Election> {
 protected:
  config labelled(std::string label, std::chrono::milliseconds lease = 30s) {
    config c = quick(server(), lease);
    c.label = std::move(label);
    return c;
  }
  auto in_lines(std::string const& name, std::int64_t count) {
    return [this, name, count] { return in_line(server(), name) == count; };
  }
};

INSTANTIATE_TEST_SUITE_P(Over, Election, testing::ValuesIn(servers_under_test()), server_name);

/// What an async_observe or an async_leader has completed with.
struct seen_leader {
  bool done = false;
  error_code why;
  leader who;

  auto handler() {
    return [this](error_code ec, leader l) {
      EXPECT_FALSE(done);
      done = true;
      why = ec;
      who = std::move(l);
    };
  }
};

acquire_options noted(std::string_view note) {
  acquire_options o;
  o.note = note;
  return o;
}

TEST_P(Election, OneLeadsAndTheNextFollowsWhenItResigns) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), labelled("one")}, two{w.ctx.get_executor(), labelled("two")};
    election first{one, "resigns"}, second{two, "resigns"};
    leadership mine = co_await first.async_campaign(noted("10.0.0.1:80"), asio::use_awaitable);
    EXPECT_TRUE(mine.valid());
    EXPECT_EQ(mine.term(), mine.fence());
    leadership theirs;
    second.async_campaign(noted("10.0.0.2:80"), [&](error_code ec, leadership l) {
      EXPECT_FALSE(ec) << ec.message();
      theirs = std::move(l);
    });
    auto const waits = in_lines("resigns", 1);
    co_await until(waits, "the second candidate in line");
    bool const led = co_await mine.async_resign(asio::use_awaitable);
    EXPECT_TRUE(led);
    EXPECT_FALSE(mine.valid());
    auto const leads = [&] { return theirs.valid(); };
    co_await until(leads, "the second leader");
    EXPECT_GT(theirs.term(), mine.term());
    co_await theirs.async_resign(asio::use_awaitable);
  };
  w.run(body, 60s);
}

TEST_P(Election, OthersSeeWhoLeadsAndWhoFollows) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), labelled("one")}, two{w.ctx.get_executor(), labelled("two")};
    election first{one, "seen"}, second{two, "seen"};
    leader now = co_await second.async_leader(asio::use_awaitable);
    EXPECT_FALSE(now);
    EXPECT_EQ(now.term, 0);
    leadership mine = co_await first.async_campaign(noted("10.0.0.1:80"), asio::use_awaitable);
    leadership theirs;
    second.async_campaign(noted("10.0.0.2:80"), [&](error_code, leadership l) { theirs = std::move(l); });
    auto const waits = in_lines("seen", 1);
    co_await until(waits, "the second candidate in line");
    now = co_await second.async_observe(now.term, asio::use_awaitable);
    EXPECT_TRUE(now);
    EXPECT_EQ(now.client, one.id());
    EXPECT_EQ(now.label, "one");
    EXPECT_EQ(now.note, "10.0.0.1:80");
    EXPECT_EQ(now.term, mine.term());
    auto const age = std::chrono::system_clock::now() - now.since;
    EXPECT_LT(age > 0s ? age : -age, 1h) << "clocks of one machine";

    seen_leader next;
    second.async_observe(now.term, 20ms, next.handler());
    co_await pause_for(100ms);
    EXPECT_FALSE(next.done) << "nothing has changed: " << next.why.message();
    co_await mine.async_resign(asio::use_awaitable);
    auto const told = [&] { return next.done; };
    co_await until(told, "the next leader");
    EXPECT_FALSE(next.why) << next.why.message();
    auto const leads = [&] { return theirs.valid(); };
    co_await until(leads, "it knows");
    EXPECT_EQ(next.who.label, "two");
    EXPECT_EQ(next.who.note, "10.0.0.2:80");
    EXPECT_EQ(next.who.term, theirs.term());
    EXPECT_GT(next.who.term, now.term);
    co_await theirs.async_resign(asio::use_awaitable);
  };
  w.run(body, 60s);
}

TEST_P(Election, AnOfficeThatBecomesFreeIsToldByAPush) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), labelled("one")}, two{w.ctx.get_executor(), labelled("two")};
    election first{one, "free"}, watched{two, "free"};
    leadership mine = co_await first.async_campaign(asio::use_awaitable);
    seen_leader next;
    watched.async_observe(mine.term(), 1h, next.handler());
    leader const now = co_await watched.async_leader(asio::use_awaitable);
    EXPECT_EQ(now.term, mine.term());
    bool const counts = server().can().counts && !server().is_here();
    if (counts) {
      co_await pause_for(100ms);  // the question who leads, and the one for a free office, are answered
      server().begin_to_count({});
      co_await pause_for(300ms);
      EXPECT_EQ(server().counted().requests, 0) << "an observer asks only when it is time";
    }
    EXPECT_FALSE(next.done);
    co_await mine.async_resign(asio::use_awaitable);
    auto const told = [&] { return next.done; };
    co_await until(told, "nobody leads");
    EXPECT_FALSE(next.why) << next.why.message();
    EXPECT_FALSE(next.who) << next.who.term;
  };
  w.run(body, 60s);
}

TEST_P(Election, NobodyIsAskedMoreOftenThanSaidWhileThereIsNoLeader) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), labelled("one")}, two{w.ctx.get_executor(), labelled("two")};
    election first{one, "vacant"}, watched{two, "vacant"};
    leader const now = co_await watched.async_leader(asio::use_awaitable);
    EXPECT_FALSE(now);
    seen_leader next;
    watched.async_observe(0, 700ms, next.handler());
    if (server().can().counts && !server().is_here()) {
      co_await pause_for(100ms);
      server().begin_to_count({});
      auto const from = steady::now();
      co_await pause_for(300ms);
      auto const asked = server().counted().requests;
      EXPECT_LE(asked, 1 + (steady::now() - from) / 700ms);
    }
    EXPECT_FALSE(next.done);
    leadership mine = co_await first.async_campaign(noted("here"), asio::use_awaitable);
    auto const told = [&] { return next.done; };
    co_await until(told, "the first leader");
    EXPECT_FALSE(next.why) << next.why.message();
    EXPECT_EQ(next.who.term, mine.term());
    EXPECT_EQ(next.who.note, "here");
    co_await mine.async_resign(asio::use_awaitable);
  };
  w.run(body, 60s);
}

TEST_P(Election, ALeaderWhoseProcessDiesIsFollowed) {
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    bool const can_observe = server().can().operators;
    client one{w.ctx.get_executor(), labelled("one")}, two{w.ctx.get_executor(), labelled("two")};
    election next{one, "dies"}, watched{two, "dies"};
    child dead{server().url(), "dies", 1000ms};
    std::int64_t const term = std::stoll(dead.wait_for("held ").substr(5));
    seen_leader seen;
    if (can_observe) {
      leader const now = co_await watched.async_leader(asio::use_awaitable);
      EXPECT_EQ(now.term, term);
      EXPECT_TRUE(now.label.starts_with("conch-lock-holder@")) << now.label;
      watched.async_observe(term, 50ms, seen.handler());
    }
    leadership mine;
    next.async_campaign(noted("after it"), [&](error_code ec, leadership l) {
      EXPECT_FALSE(ec) << ec.message();
      mine = std::move(l);
    });
    auto const waits = in_lines("dies", 1);
    co_await until(waits, "the next one in line");
    dead.kill();
    auto const leads = [&] { return mine.valid(); };
    co_await until(leads, "the next leader", 40s);
    EXPECT_GT(mine.term(), term);
    if (can_observe) {
      auto const told = [&] { return seen.done; };
      co_await until(told, "seen");
      EXPECT_FALSE(seen.why) << seen.why.message();
      // Between the end of the lease and the grant nobody leads.
      leader now = seen.who;
      if (!now) now = co_await watched.async_observe(0, 20ms, asio::use_awaitable);
      EXPECT_EQ(now.term, mine.term());
      EXPECT_EQ(now.note, "after it");
    }
    co_await mine.async_resign(asio::use_awaitable);
  };
  w.run(body, 90s);
}

TEST_P(Election, AServerThatIsSlowForAMomentEndsNoObserver) {
  NEEDS(operators);
  NEEDS_A_CONNECTION();
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), labelled("one")}, two{w.ctx.get_executor(), labelled("two")};
    election first{one, "slow"}, watched{two, "slow"};
    leadership mine = co_await first.async_campaign(asio::use_awaitable);
    seen_leader next, now;
    watched.async_observe(mine.term(), 500ms, next.handler());
    co_await pause_for(100ms);
    server().stop();
    watched.async_leader(now.handler());  // is not answered when it is time to ask again
    co_await pause_for(1s);
    server().cont();
    auto const answered = [&] { return now.done; };
    co_await until(answered, "the answer");
    EXPECT_FALSE(now.why) << now.why.message();
    EXPECT_FALSE(next.done) << next.why.message();
    co_await mine.async_resign(asio::use_awaitable);
    auto const told = [&] { return next.done; };
    co_await until(told, "nobody leads");
    EXPECT_FALSE(next.why) << next.why.message();
  };
  w.run(body, 60s);
}

TEST_P(Election, AnObserverIsCancelled) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), labelled("one")};
    election e{one, "cancelled"};
    leadership mine;
    for (bool const there_is_a_leader : {false, true}) {
      if (there_is_a_leader) mine = co_await e.async_campaign(asio::use_awaitable);
      for (auto const type :
           {asio::cancellation_type::terminal, asio::cancellation_type::partial, asio::cancellation_type::total}) {
        for (auto const after : {0ms, 50ms}) {  // while it asks, and while it waits
          asio::cancellation_signal stop;
          seen_leader seen;
          e.async_observe(mine.term(), 1h, asio::bind_cancellation_slot(stop.slot(), seen.handler()));
          if (after > 0ms) co_await pause_for(after);
          EXPECT_FALSE(seen.done);
          stop.emit(type);
          EXPECT_FALSE(seen.done) << "inside emit";
          auto const told = [&] { return seen.done; };
          co_await until(told, "cancelled");
          EXPECT_EQ(seen.why, asio::error::operation_aborted) << seen.why.message();
          EXPECT_FALSE(seen.who);
        }
      }
    }
    EXPECT_TRUE(mine.valid());
    co_await mine.async_resign(asio::use_awaitable);
  };
  w.run(body, 60s);
}

TEST_P(Election, AClientThatGoesEndsWhatItObserves) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), labelled("one")};
    election e{one, "left"};
    seen_leader with, without;
    leadership mine = co_await e.async_campaign(asio::use_awaitable);
    {
      client two{w.ctx.get_executor(), labelled("two")};
      election const led{two, "left"}, vacant{two, "left by nobody"};
      led.async_observe(mine.term(), 1h, with.handler());
      vacant.async_observe(0, 50ms, without.handler());
      leader const now = co_await led.async_leader(asio::use_awaitable);
      EXPECT_EQ(now.term, mine.term());
    }
    auto const told = [&] { return with.done && without.done; };
    co_await until(told, "both");
    EXPECT_EQ(with.why, errc::closed) << with.why.message();
    EXPECT_EQ(without.why, errc::closed) << without.why.message();
    co_await mine.async_resign(asio::use_awaitable);
  };
  w.run(body, 60s);
}

TEST_P(Election, ALockOfAnotherKindHasNoLeader) {
  NEEDS(operators);
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), labelled("one")};
    semaphore s{one, "several", 2};
    hold h = co_await s.async_acquire(asio::use_awaitable);
    election const e{one, "several"};
    auto const now = co_await e.async_leader(as_tuple);
    EXPECT_EQ(std::get<0>(now), errc::wrong_type) << std::get<0>(now).message();
    co_await h.async_release();
  };
  w.run(body, 60s);
}

TEST_P(Election, WhereNobodyCanBeInspectedTheErrorSaysSo) {
  if (server().can().operators) GTEST_SKIP() << "this kind of server can be inspected: the other tests ask it";
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()};
    election e{one, "unseen"};
    leadership mine = co_await e.async_campaign(noted("nobody reads this"), asio::use_awaitable);
    EXPECT_TRUE(mine.valid());
    seen_leader now, next;
    e.async_leader(now.handler());
    e.async_observe(0, next.handler());
    auto const told = [&] { return now.done && next.done; };
    co_await until(told, "both");
    for (error_code const& why : {now.why, next.why}) {
      EXPECT_EQ(why, errc::not_supported);
      EXPECT_NE(why.message().find("async_inspect"), std::string::npos) << why.message();
    }
    co_await mine.async_resign(asio::use_awaitable);
  };
  w.run(body, 60s);
}

TEST_P(Election, IsALockForWithLock) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()};
    election e{one, "with lock"};
    std::int64_t term = 0;
    auto const lead = [&](leadership& mine) -> asio::awaitable<void> {
      term = mine.term();
      co_return;
    };
    co_await with_lock(e, noted("a term"), lead);
    EXPECT_GT(term, 0);
    EXPECT_TRUE(is_free(server(), "with lock"));
  };
  w.run(body, 60s);
}

}  // namespace
}  // namespace conch::test
