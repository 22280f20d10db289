// One lock over five servers, some of which are ill: killed (nobody answers), stopped (nobody answers, and the
// connection stays), or back without their data.

#include "integration/redlock_fixture.hpp"

#include <optional>
#include <vector>

namespace conch::test {
namespace {

enum class illness { killed, stopped };

/// `count` of the five servers fall ill, in the way `how`, at the moment the test chooses.
struct trouble {
  std::size_t count;
  illness how;
};

class RedlockFaults : public testing::TestWithParam<trouble> {
 protected:
  void strike() {
    for (std::size_t i = 0; i < GetParam().count; ++i) {
      GetParam().how == illness::killed ? servers.kill(i) : servers.stop(i);
    }
  }
  void mend() {
    for (std::size_t i = 0; i < GetParam().count; ++i) {
      GetParam().how == illness::killed ? servers.restart(i, true) : servers.cont(i);
    }
  }

  /// Both clients know all servers and have their scripts there.
  asio::awaitable<void> warm_up(mutex& lock) {
    hold h = co_await lock.async_acquire();
    co_await h.async_release();
  }

  redlock_servers servers;
  world w;
};

/// Well below any time-out that a sick server could make a client wait for: command_timeout is 3 s here, a vote's claim
/// 2.5 s.
constexpr auto at_once = 1500ms;

TEST_P(RedlockFaults, BeforeTheAcquireDelaysNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), servers.calm()};
    mutex m{c, "a"};
    co_await warm_up(m);
    strike();
    for (int i = 0; i < 5; ++i) {
      auto const began = steady::now();
      hold h = co_await m.async_acquire();
      EXPECT_TRUE(h.valid());
      EXPECT_LT(steady::now() - began, at_once);
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
      EXPECT_LT(steady::now() - began, 2 * at_once);
    }
    mend();
    auto const clean = [&] { return servers.nothing_left("a"); };
    co_await until(clean, "nothing is left, also where nobody answered");
  };
  w.run(body);
}

TEST_P(RedlockFaults, BeforeTheFirstConnectionDelaysNothing) {
  auto const body = [&]() -> asio::awaitable<void> {
    strike();
    client c{w.ctx.get_executor(), servers.calm()};
    mutex m{c, "a"};
    auto const began = steady::now();
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h.valid());
    EXPECT_LT(steady::now() - began, at_once);
    co_await h.async_release();
  };
  w.run(body);
}

TEST_P(RedlockFaults, WhileHeldTheHoldLivesOn) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), servers.calm()};
    mutex m{c, "a"};
    hold h = co_await m.async_acquire();
    strike();
    // Renewed twice, by those that are left.
    for (int i = 0; i < 2; ++i) {
      time_point const before = h.deadline();
      auto const renewed = [&] { return h.deadline() > before; };
      co_await until(renewed, "it is renewed");
    }
    EXPECT_TRUE(h.valid());
    auto const began = steady::now();
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    EXPECT_LT(steady::now() - began, at_once);
    mend();
    auto const clean = [&] { return servers.nothing_left("a"); };
    co_await until(clean, "nothing is left, also where nobody answered");
  };
  w.run(body);
}

TEST_P(RedlockFaults, WhileOthersWaitTheLockIsHandedOn) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), servers.calm()}, two{w.ctx.get_executor(), servers.calm()};
    mutex mine{one, "a"}, theirs{two, "a"};
    co_await warm_up(theirs);
    hold h = co_await mine.async_acquire();
    std::optional<hold> next;
    theirs.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const waits = [&] { return servers.lines("a") == masters; };
    co_await until(waits, "the second is queued everywhere");
    strike();
    auto const began = steady::now();
    co_await h.async_release();
    auto const granted = [&] { return next.has_value(); };
    co_await until(granted, "the second has it");
    EXPECT_LT(steady::now() - began, at_once);
    EXPECT_TRUE(next->valid());
    co_await next->async_release();
    mend();
    auto const clean = [&] { return servers.nothing_left("a"); };
    co_await until(clean, "nothing is left");
  };
  w.run(body);
}

TEST_P(RedlockFaults, ATryIsAnsweredAsIfNothingWere) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), servers.calm()}, two{w.ctx.get_executor(), servers.calm()};
    mutex mine{one, "a"}, theirs{two, "a"};
    co_await warm_up(theirs);
    strike();
    auto const began = steady::now();
    hold h = co_await mine.async_try_acquire();
    CO_ASSERT(h.valid());
    hold none = co_await theirs.async_try_acquire();
    EXPECT_FALSE(none);
    EXPECT_LT(steady::now() - began, 2 * at_once);
    co_await h.async_release();
  };
  w.run(body);
}

TEST_P(RedlockFaults, AreVisibleInTheStatistics) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = servers.settings();
    journal log;
    settings.log = log.hook();
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "a"};
    hold first = co_await m.async_acquire();
    auto const all = [&] {
      statistics const s = c.stats();
      return s.servers.size() == masters && std::all_of(s.servers.begin(), s.servers.end(), [](auto const& one) {
               return one.connected && one.votes != 0;
             });
    };
    co_await until(all, "all servers have voted");
    co_await first.async_release();
    strike();
    hold h = co_await m.async_acquire();
    auto const seen = [&] {
      statistics const s = c.stats();
      return static_cast<std::size_t>(std::count_if(s.servers.begin(), s.servers.end(), [](auto const& one) {
               return one.disconnects != 0 && !one.last_trouble.empty();
             })) == GetParam().count;
    };
    co_await until(seen, "the sick ones are shown as such");
    EXPECT_TRUE(log.contains("lost the connection to") == (GetParam().count != 0));
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
  };
  w.run(body);
}

std::string named(testing::TestParamInfo<trouble> const& info) {
  return std::to_string(info.param.count) + (info.param.how == illness::killed ? "Killed" : "Stopped");
}

INSTANTIATE_TEST_SUITE_P(OfFive, RedlockFaults,
                         testing::Values(trouble{0, illness::killed}, trouble{1, illness::killed},
                                         trouble{2, illness::killed}, trouble{1, illness::stopped},
                                         trouble{2, illness::stopped}),
                         named);

// ------------------------------------------------------------------------------------------ the majority is away

class RedlockMajority : public testing::TestWithParam<illness> {
 protected:
  void strike() {
    for (std::size_t i = 0; i < 3; ++i) GetParam() == illness::killed ? servers.kill(i) : servers.stop(i);
  }
  void mend() {
    for (std::size_t i = 0; i < 3; ++i) GetParam() == illness::killed ? servers.restart(i, true) : servers.cont(i);
  }
  redlock_servers servers;
  world w;
};

TEST_P(RedlockMajority, IsMissedWithAClearErrorInTime) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = servers.settings();
    settings.offline_timeout = 1s;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "a"};
    hold h = co_await m.async_acquire();
    co_await h.async_release();
    strike();
    auto const began = steady::now();
    auto r = co_await m.async_acquire(as_tuple);
    auto& [ec, got] = r;
    EXPECT_EQ(ec, errc::unreachable) << ec.message();
    EXPECT_GE(steady::now() - began, 900ms);
    EXPECT_LT(steady::now() - began, 10s);
    mend();
    auto const clean = [&] { return servers.nothing_left("a"); };
    co_await until(clean, "the minority is given back");
  };
  w.run(body);
}

TEST_P(RedlockMajority, IsWaitedForByWhoWaits) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), servers.settings()};
    mutex m{c, "a"};
    hold first = co_await m.async_acquire();
    co_await first.async_release();
    strike();
    std::optional<hold> got;
    m.async_acquire([&](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      got = std::move(h);
    });
    auto const minority = [&] { return servers.owned("a") == 2; };
    co_await until(minority, "two have voted");
    EXPECT_FALSE(got.has_value());
    mend();
    auto const granted = [&] { return got.has_value(); };
    co_await until(granted, "the lock is granted once they are back");
    EXPECT_TRUE(got->valid());
    co_await got->async_release();
  };
  w.run(body);
}

TEST_P(RedlockMajority, ThatDisappearsIsToldToTheHolderBeforeItsValidityEnds) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), servers.settings(1s)};
    mutex m{c, "a"};
    hold h = co_await m.async_acquire();
    auto const confirmed = [&] { return h.deadline() > clock::now() + 500ms; };
    co_await until(confirmed, "it is confirmed");
    strike();
    time_point told{}, deadline{};
    error_code why;
    h.async_lost([&](error_code ec) {
      why = ec;
      told = clock::now();
    });
    auto const lost = [&] {
      if (told == time_point{}) deadline = std::max(deadline, h.deadline());
      return told != time_point{};
    };
    co_await until(lost, "the loss is told");
    EXPECT_EQ(why, errc::lost) << why.message();
    EXPECT_LE(told, deadline);
    EXPECT_FALSE(h.valid());
    bool const was_held = co_await h.async_release();
    EXPECT_FALSE(was_held);
    mend();
    auto const clean = [&] { return servers.nothing_left("a"); };
    co_await until(clean, "nothing is left");
  };
  w.run(body);
}

TEST_P(RedlockMajority, ThatIsAwayEndsATryWithAnError) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = servers.settings();
    settings.offline_timeout = 500ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "a"};
    hold first = co_await m.async_acquire();
    co_await first.async_release();
    // That is answered by a majority. A server that does not know the script yet is asked twice, and has the lock until
    // then.
    auto const free = [&] { return servers.nothing_left("a"); };
    co_await until(free, "it is released everywhere");
    strike();
    auto const began = steady::now();
    auto r = co_await m.async_try_acquire(as_tuple);
    auto& [ec, got] = r;
    EXPECT_EQ(ec, errc::unreachable) << ec.message();
    EXPECT_LT(steady::now() - began, 10s);
  };
  w.run(body);
}

INSTANTIATE_TEST_SUITE_P(OfFive, RedlockMajority, testing::Values(illness::killed, illness::stopped),
                         [](auto const& one) { return one.param == illness::killed ? "Killed" : "Stopped"; });

// -------------------------------------------------------------------------------------------------- other troubles

class RedlockTroubles : public testing::Test {
 protected:
  redlock_servers servers;
  world w;
};

TEST_F(RedlockTroubles, AServerThatForgotIsGivenTheLockAgain) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), servers.settings(1s)};
    mutex m{c, "a"};
    hold h = co_await m.async_acquire();
    auto const confirmed = [&] { return servers.owned("a", 'h') == masters; };
    co_await until(confirmed, "it is confirmed");
    servers.restart(2, false);
    EXPECT_LT(servers.owned("a"), masters);
    co_await until(confirmed, "the fifth has it again");
    EXPECT_TRUE(h.valid());
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

TEST_F(RedlockTroubles, P9AHoldIsEndangeredByASilentMajorityAndNotByASilentMinority) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = servers.calm();
    settings.renew_every = 50ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "a"};
    hold h = co_await m.async_acquire();
    auto const confirmed = [&] { return servers.owned("a", 'h') == masters; };
    co_await until(confirmed, "it is confirmed");
    for (std::size_t const i : {0, 1}) servers.stop(i);
    for (int i = 0; i < 3; ++i) co_await h.async_renewed(h.deadline());
    EXPECT_EQ(c.stats().warnings, 0u);
    servers.stop(2);
    auto const warned = co_await h.async_endangered(as_tuple);
    EXPECT_TRUE(h.valid());
    servers.cont(2);
    EXPECT_FALSE(std::get<0>(warned)) << std::get<0>(warned).message();
    auto const safe = [&] { return c.stats().endangered == 0; };
    co_await until(safe, "a majority has renewed it");
    for (std::size_t const i : {0, 1}) servers.cont(i);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body, 60s);
}

TEST_F(RedlockTroubles, ALockThatAMajorityForgotIsLost) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), servers.settings(3s)};
    mutex m{c, "a"};
    hold h = co_await m.async_acquire();
    auto const confirmed = [&] { return servers.owned("a", 'h') == masters; };
    co_await until(confirmed, "it is confirmed");
    bool told = false;
    h.async_lost([&](error_code) { told = true; });
    // Just after a renewal, so that all three are gone before the next: one at a time would be mended.
    time_point const before = h.deadline();
    auto const renewed = [&] { return h.deadline() > before; };
    co_await until(renewed, "it is renewed");
    for (std::size_t i = 0; i < 3; ++i) redis_probe{servers[i]}.command({"DEL", lock_key("a")});
    auto const lost = [&] { return told; };
    co_await until(lost, "the loss is told");
    EXPECT_FALSE(h.valid());
    auto const clean = [&] { return servers.nothing_left("a"); };
    co_await until(clean, "nothing is left");
  };
  w.run(body);
}

TEST_F(RedlockTroubles, AFreshServerHasNoVote) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = servers.settings();
    settings.quorum.min_server_uptime = 1h;
    settings.offline_timeout = 300ms;
    journal log;
    settings.log = log.hook();
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "a"};
    auto r = co_await m.async_acquire({.wait = 500ms}, as_tuple);
    auto& [ec, got] = r;
    EXPECT_TRUE(ec == errc::timed_out || ec == errc::unreachable) << ec.message();
    EXPECT_EQ(servers.owned("a"), 0u);
    EXPECT_TRUE(log.contains("min_server_uptime"));
  };
  w.run(body);
}

TEST_F(RedlockTroubles, WrongPasswordsOnAMinorityHurtNobody) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::size_t i = 0; i < 2; ++i) redis_probe{servers[i]}.command({"CONFIG", "SET", "requirepass", "other"});
    client c{w.ctx.get_executor(), servers.calm()};
    mutex m{c, "a"};
    auto const began = steady::now();
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h.valid());
    EXPECT_LT(steady::now() - began, at_once);
    co_await h.async_release();
  };
  w.run(body);
}

TEST_F(RedlockTroubles, WrongPasswordsOnAMajorityAreToldAtOnce) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::size_t i = 0; i < 3; ++i) redis_probe{servers[i]}.command({"CONFIG", "SET", "requirepass", "other"});
    client c{w.ctx.get_executor(), servers.settings()};
    mutex m{c, "a"};
    auto const began = steady::now();
    auto r = co_await m.async_acquire(as_tuple);
    auto& [ec, got] = r;
    EXPECT_EQ(ec, errc::access_denied) << ec.message();
    EXPECT_LT(steady::now() - began, 2s);
  };
  w.run(body);
}

TEST_F(RedlockTroubles, AForeignKeyOnAMinorityHurtsNobody) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::size_t i = 0; i < 2; ++i) redis_probe{servers[i]}.command({"HSET", lock_key("a"), "what", "else"});
    client c{w.ctx.get_executor(), servers.settings()};
    mutex m{c, "a"};
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(h.valid());
    co_await h.async_release();
  };
  w.run(body);
}

// P11: a wait for a majority that does not answer ends in time, and names the silent servers. A silent minority makes
// no difference.
TEST(RedlockWait, EndsInTimeAndSaysWhoIsSilent) {
  for (std::size_t const silent : {std::size_t{2}, std::size_t{3}}) {
    redlock_servers servers;
    world w;
    auto const body = [&]() -> asio::awaitable<void> {
      client one{w.ctx.get_executor(), servers.calm()}, two{w.ctx.get_executor(), servers.calm()};
      mutex of_one{one, "a"}, of_two{two, "a"};
      hold before = co_await of_two.async_acquire();
      co_await before.async_release();
      hold h = co_await of_one.async_acquire();
      for (std::size_t i = 0; i < silent; ++i) servers.stop(i);
      auto const began = steady::now();
      acquire_options const briefly{.wait = 2s};
      auto const r = co_await of_two.async_acquire(briefly, as_tuple);
      EXPECT_LT(steady::now() - began, 2s + at_once);
      EXPECT_EQ(std::get<0>(r), silent == 2 ? errc::timed_out : errc::unreachable) << std::get<0>(r).message();
      if (silent == 3) {
        EXPECT_NE(std::get<0>(r).message().find(servers[0].url()), std::string::npos) << std::get<0>(r).message();
      }
      for (std::size_t i = 0; i < silent; ++i) servers.cont(i);
      co_await h.async_release();
      auto const clean = [&] { return servers.nothing_left("a"); };
      co_await until(clean, "nothing is left");
    };
    w.run(body);
  }
}

}  // namespace
}  // namespace conch::test
