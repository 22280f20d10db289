// P11: a try and `.wait = 0` are one complete attempt, of every kind of lock and over every kind of server: a free lock
// is not "timed out", a server that is there is not "unreachable". And what is told when there is none.

#include "integration/redlock_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <deque>
#include <map>
#include <vector>

namespace conch::test {
namespace {

/// What came of it: a hold of any type, or none.
using outcome = std::function<void(error_code, std::shared_ptr<void>)>;
using attempt = std::function<void(client&, std::string const& name, bool as_try, asio::cancellation_slot, outcome)>;

auto telling(asio::cancellation_slot slot, outcome to) {
  return asio::bind_cancellation_slot(slot, [to = std::move(to)](error_code ec, auto h) {
    std::shared_ptr<void> held;
    if (h) held = std::make_shared<decltype(h)>(std::move(h));
    to(ec, std::move(held));
  });
}

acquire_options const no_time{.wait = 0s};

template <class Lock>
void start(Lock lock, bool as_try, asio::cancellation_slot slot, outcome to) {
  if (as_try) {
    lock.async_try_acquire(telling(slot, std::move(to)));
  } else {
    lock.async_acquire(no_time, telling(slot, std::move(to)));
  }
}

std::map<std::string, attempt> const& kinds() {
  static std::map<std::string, attempt> const all{
      {"mutex",
       [](client& c, auto& n, bool t, auto s, outcome o) {
         start(mutex{c, n}, t, s, std::move(o));
       }},
      {"semaphore",
       [](client& c, auto& n, bool t, auto s, outcome o) {
         start(semaphore{c, n, 1}, t, s, std::move(o));
       }},
      {"writer",
       [](client& c, auto& n, bool t, auto s, outcome o) {
         start(shared_mutex{c, n}, t, s, std::move(o));
       }},
      {"readers",
       [](client& c, auto& n, bool t, auto s, outcome o) {
         start(shared_mutex{c, n}.readers(), t, s, std::move(o));
       }},
      {"striped",
       [](client& c, auto& n, bool t, auto s, outcome o) {
         start(striped_mutex{c, n, 1}, t, s, std::move(o));
       }},
      {"reentrant",
       [](client& c, auto& n, bool t, auto s, outcome o) {
         reentrant_mutex m{c, n};
         owner const me;
         t ? m.async_try_acquire(me, telling(s, std::move(o))) : m.async_acquire(me, no_time, telling(s, std::move(o)));
       }},
      {"writer_again",
       [](client& c, auto& n, bool t, auto s, outcome o) {
         start(reentrant_shared_mutex{c, n}.for_owner(owner{}), t, s, std::move(o));
       }},
      {"readers_again",
       [](client& c, auto& n, bool t, auto s, outcome o) {
         start(reentrant_shared_mutex{c, n}.for_owner(owner{}).readers(), t, s, std::move(o));
       }},
      {"multi",
       [](client& c, auto& n, bool t, auto s, outcome o) {
         std::vector<mutex> both;
         for (char const* which : {"", " b"}) both.emplace_back(c, n + which);
         start(multi_lock{std::move(both)}, t, s, std::move(o));
       }},
  };
  return all;
}

struct setting {
  std::string kind, backend;
  bool as_try;
};

std::vector<setting> settings_over(std::vector<std::string> const& backends) {
  std::vector<setting> all;
  for (auto const& [kind, a] : kinds()) {
    for (bool const as_try : {false, true}) {
      for (std::string const& backend : backends) {
        bool const over_a_quorum = kind == "mutex" || kind == "multi";
        if (backend == "redlock" && !over_a_quorum) continue;
        all.push_back({kind, backend, as_try});
      }
    }
  }
  return all;
}

class Attempt : public testing::TestWithParam<setting> {
 protected:
  static void SetUpTestSuite() { servers_ = std::make_unique<redlock_servers>(); }
  static void TearDownTestSuite() { servers_.reset(); }

  config settings() {
    config c;
    if (GetParam().backend == "redlock") c = servers_->settings(10s);
    if (GetParam().backend == "redis") c.url = (*servers_)[0].url();
    if (GetParam().backend == "memory") c.url = "memory://attempts of " + GetParam().kind;
    return c;
  }

  std::string name(std::string const& what) {
    return GetParam().kind + (GetParam().as_try ? " try " : " no time ") + GetParam().backend + ' ' + what;
  }

  asio::awaitable<std::pair<error_code, std::shared_ptr<void>>> one(client& c, std::string what,
                                                                    asio::cancellation_slot slot = {}) {
    auto answer = std::make_shared<std::pair<error_code, std::shared_ptr<void>>>();
    auto done = std::make_shared<bool>(false);
    kinds().at(GetParam().kind)(c, name(what), GetParam().as_try, slot,
                                [answer, done](error_code ec, std::shared_ptr<void> held) {
                                  *answer = {ec, std::move(held)};
                                  *done = true;
                                });
    auto const told_so = [done] { return *done; };
    co_await until(told_so, "the end of the attempt", 25s);
    co_return std::move(*answer);
  }

  asio::awaitable<void> is_granted(client& c, std::string what) {
    auto const r = co_await one(c, what);
    EXPECT_FALSE(r.first) << what << ": " << r.first.message();
    EXPECT_TRUE(r.second) << what << " was called busy";
  }

  static void forget_scripts() {
    for (std::size_t i = 0; i < masters; ++i) redis_probe{(*servers_)[i]}.command({"SCRIPT", "FLUSH"});
  }

  world w;

 private:
  static inline std::unique_ptr<redlock_servers> servers_;
};

/// What memory:// has none of: scripts, and a connection.
class AttemptAtAServer : public Attempt {};

std::string name_of(testing::TestParamInfo<setting> const& of) {
  return of.param.kind + (of.param.as_try ? "_try_" : "_no_time_") + of.param.backend;
}

INSTANTIATE_TEST_SUITE_P(Of, Attempt, testing::ValuesIn(settings_over({"memory", "redis", "redlock"})), name_of);
INSTANTIATE_TEST_SUITE_P(Of, AttemptAtAServer, testing::ValuesIn(settings_over({"redis", "redlock"})), name_of);

TEST_P(Attempt, P11OfAFreeLockIsGrantedAsTheFirstOperationOfAClient) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < 20; ++i) {
      client c{w.ctx.get_executor(), settings()};
      co_await is_granted(c, "first " + std::to_string(i));
    }
  };
  w.run(body, 60s);
}

TEST_P(AttemptAtAServer, P11OfAFreeLockIsGrantedWhenTheServerHasForgottenTheScripts) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings()};
    co_await is_granted(c, "connects");
    for (int i = 0; i < 20; ++i) {
      forget_scripts();
      co_await is_granted(c, "flushed " + std::to_string(i));
    }
  };
  w.run(body, 60s);
}

TEST_P(Attempt, P11OfAFreeLockIsGrantedFiveHundredTimes) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings()};
    for (int i = 0; i < 500; ++i) co_await is_granted(c, "many " + std::to_string(i));
  };
  w.run(body, 120s);
}

TEST_P(Attempt, P11OfALockThatSomebodyHasSaysSo) {
  auto const body = [&]() -> asio::awaitable<void> {
    client holder{w.ctx.get_executor(), settings()};
    auto const held = co_await one(holder, "busy");
    EXPECT_TRUE(held.second) << held.first.message();
    client other{w.ctx.get_executor(), settings()};
    for (client* const c : {&other, &other, &holder}) {   // also in the process that has it
      if (GetParam().kind.starts_with("readers")) break;  // they have it together
      auto const r = co_await one(*c, "busy");
      EXPECT_FALSE(r.second);
      if (GetParam().as_try) {
        EXPECT_FALSE(r.first) << r.first.message();
      } else {
        EXPECT_EQ(r.first, errc::timed_out) << r.first.message();
      }
    }
  };
  w.run(body, 60s);
}

TEST_P(AttemptAtAServer, P6CancelledWhileItConnectsEndsAtOnceAndP11ElseSaysWhyThereIsNoServer) {
  auto const body = [&]() -> asio::awaitable<void> {
    config nowhere = settings();
    nowhere.url = "unix:///nowhere/at/all";
    if (!nowhere.quorum.servers.empty())
      nowhere.quorum.servers = {"unix:///nowhere/at/all", "unix:///nor/here", "unix:///nor/there"};
    for (auto const type :
         {asio::cancellation_type::terminal, asio::cancellation_type::partial, asio::cancellation_type::total}) {
      client c{w.ctx.get_executor(), nowhere};
      asio::cancellation_signal signal;
      asio::steady_timer soon{w.ctx, 5ms};
      soon.async_wait([&](auto) { signal.emit(type); });
      auto const began = steady::now();
      auto const r = co_await one(c, "cancelled", signal.slot());
      EXPECT_EQ(r.first, asio::error::operation_aborted) << r.first.message();
      EXPECT_LT(steady::now() - began, 5s);  // offline_timeout is 10 s
    }
    nowhere.offline_timeout = 300ms;
    client c{w.ctx.get_executor(), nowhere};
    auto const r = co_await one(c, "unreachable");
    EXPECT_EQ(r.first, errc::unreachable) << r.first.message();
    EXPECT_NE(r.first.message().find("No such file"), std::string::npos) << r.first.message();
  };
  w.run(body, 60s);
}

// ---- durations near their ends ------------------------------------------------------------------------------------

class Durations : public testing::Test {
 protected:
  config settings{.url = "memory://durations"};
  world w;
};

TEST_F(Durations, TheLongestWaitHasNoEndAndTheShortestIsOneAttempt) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings}, other{w.ctx.get_executor(), settings};
    acquire_options const longest{.wait = duration::max()}, nearly{.wait = duration::max() - 1h},
        shortest{.wait = duration::min()};
    for (std::string const what : {"free", "taken"}) {
      mutex first{other, what + " a"};
      shared_mutex shared{other, what + " shared"};
      std::vector<mutex> both{mutex{c, what + " a"}, mutex{c, what + " b"}};
      multi_lock all{both};
      mutex one{c, what + " a"};
      reentrant_mutex again{c, what + " again"};
      hold blocker;
      if (what == "taken") blocker = co_await first.async_acquire();
      if (what == "free") {
        multi_hold h = co_await all.async_acquire(shortest);
        EXPECT_TRUE(h.valid());
        co_await h.async_release();
        hold single = co_await one.async_acquire(shortest);
        EXPECT_TRUE(single.valid());
        co_await single.async_release();
      } else {
        auto const refused = co_await all.async_acquire(shortest, as_tuple);
        EXPECT_EQ(std::get<0>(refused), errc::timed_out);
        auto const one_refused = co_await one.async_acquire(shortest, as_tuple);
        EXPECT_EQ(std::get<0>(one_refused), errc::timed_out);
        // A wait without a limit is granted when the lock becomes free.
        asio::steady_timer soon{w.ctx, 20ms};
        soon.async_wait([&](auto) { blocker = hold{}; });
      }
      for (acquire_options const& long_wait : {longest, nearly}) {
        multi_hold h = co_await all.async_acquire(long_wait);
        EXPECT_TRUE(h.valid());
        co_await h.async_release();
        hold single = co_await one.async_acquire(long_wait);
        EXPECT_TRUE(single.valid());
      }
      owner const me;
      reentrant_hold level = co_await again.async_acquire(me, longest);
      EXPECT_TRUE(level.valid());
      reentrant_hold nested = co_await again.async_acquire(me, shortest);
      EXPECT_TRUE(nested.valid());
    }
  };
  w.run(body);
}

TEST_F(Durations, OfWithAnySegmentToo) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings};
    striped_mutex m{c, "segments", 3};
    for (duration const wait : {duration::max(), duration::min(), duration::max() - 1h, duration::zero()}) {
      int visits = 0;
      auto not_enough = [&](hold&) -> asio::awaitable<segment_verdict> {
        ++visits;
        co_return segment_verdict::not_enough;
      };
      acquire_options const how{.wait = wait};
      bool const done = co_await with_any_segment(m, how, not_enough);
      EXPECT_FALSE(done);
      EXPECT_EQ(visits, 3);
    }
  };
  w.run(body);
}

TEST_F(Durations, TheLongestCloseWaitsForWhoHolds) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings}, other{w.ctx.get_executor(), settings};
    mutex m{c, "closing"};
    hold h = co_await m.async_acquire();
    bool closed = false;
    c.async_close(duration::max(), [&](error_code ec) {
      EXPECT_FALSE(ec) << ec.message();
      closed = true;
    });
    co_await pause_for(20ms);  // of which nothing depends: it must not have been closed however long it takes
    EXPECT_FALSE(closed);
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
    auto const is_closed = [&] { return closed; };
    co_await until(is_closed, "the close");

    client second{w.ctx.get_executor(), settings};
    mutex n{second, "closing at once"};
    hold kept = co_await n.async_acquire();
    auto const ended = co_await second.async_close(duration::min(), as_tuple);
    EXPECT_FALSE(std::get<0>(ended)) << std::get<0>(ended).message();
    EXPECT_FALSE(kept.valid());
  };
  w.run(body);
}

TEST_F(Durations, OfAConfigurationMayBeTheLongest) {
  auto const body = [&]() -> asio::awaitable<void> {
    config c = settings;
    c.stop_margin = c.claim = c.command_timeout = duration::max();
    c.max_hold = duration::max();
    client one{w.ctx.get_executor(), c};
    mutex m{one, "longest"};
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h.valid());
    lock_options const for_ever{.max_hold = duration::max()};
    mutex n{one, "longest too", for_ever};
    hold h2 = co_await n.async_acquire();
    EXPECT_TRUE(h2.valid());

    redlock_servers servers;
    config several = servers.settings();
    several.quorum.min_server_uptime = 24h * 30;  // the longest: nobody has a vote
    several.offline_timeout = 300ms;
    client voter{w.ctx.get_executor(), several};
    mutex v{voter, "no votes"};
    auto const r = co_await v.async_try_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::unreachable);
    EXPECT_NE(std::get<0>(r).message().find("just started"), std::string::npos) << std::get<0>(r).message();
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
