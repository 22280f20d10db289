// What an operator may do with any kind of lock: see its holders, and take it away.

#include "integration/child.hpp"
#include "integration/family.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <deque>
#include <vector>

namespace conch::test {
namespace {

class Operator : public with_each_kind<Operator> {};

INSTANTIATE_TEST_SUITE_P(Each, Operator, testing::ValuesIn(every_kind()), kind_name);

TEST_P(Operator, IsToldWhoHasItSinceWhenAndHowManyWait) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://"}}) {
      SCOPED_TRACE(url);
      std::deque<client> clients;
      for (int i = 0; i < 4; ++i) clients.emplace_back(w.ctx.get_executor(), url);
      mutex any{clients[3], name("looked at")};
      lock_status status = co_await any.async_inspect();
      EXPECT_FALSE(status.locked());
      EXPECT_EQ(status.waiting, 0u);
      EXPECT_TRUE(status.holders.empty());

      auto const before = std::chrono::system_clock::now();
      hold h = co_await kind().acquire(clients[0], any.name());
      auto const after = std::chrono::system_clock::now();
      std::vector<hold> later(2);
      int served = 0;
      for (std::size_t i = 1; i < 3; ++i) {
        kind().acquire(clients[i], any.name(), {}, {}, [&](error_code ec, hold got) {
          EXPECT_FALSE(ec) << ec.message();
          later[static_cast<std::size_t>(served++)] = std::move(got);
        });
      }
      auto const end = steady::now() + 10s;
      while (status.waiting != 2 && steady::now() < end) status = co_await any.async_inspect();
      EXPECT_EQ(status.waiting, 2u);
      EXPECT_TRUE(status.locked());
      EXPECT_EQ(status.held, 1u);
      CO_ASSERT(status.holders.size() == 1);
      lock_holder const& holder = status.holders[0];
      EXPECT_EQ(holder.client, clients[0].id());
      EXPECT_EQ(holder.fence, h.fence());
      EXPECT_GE(holder.since, before - 1ms);
      EXPECT_LE(holder.since, after + 1ms);
      EXPECT_GT(holder.lease_left, 15s);
      EXPECT_LE(holder.lease_left, 30s);
      EXPECT_TRUE(holder.confirmed);
      EXPECT_EQ(holder.segment, kind().name == "striped" ? 1u : 0u);
      EXPECT_EQ(status.taken, holder.permits);
      EXPECT_TRUE(h.valid());
      co_await h.async_release();
      auto const first = [&] { return served == 1; };
      co_await until(first, "the next");
      status = co_await any.async_inspect();
      CO_ASSERT(status.holders.size() == 1);
      EXPECT_EQ(status.waiting, 1u);
      EXPECT_EQ(status.holders[0].fence, later[0].fence());
      EXPECT_FALSE(status.holders[0].confirmed);  // a claim
      co_await later[0].async_release();
      auto const second = [&] { return served == 2; };
      co_await until(second, "the last");
    }
  };
  w.run(body);
}

TEST_P(Operator, TakesItAwayTheHolderIsToldAtOnceAndTheNextHasIt) {
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::string const& url : {server().url(), std::string{"memory://"}}) {
      SCOPED_TRACE(url);
      client holder{w.ctx.get_executor(), url};
      client waiter{w.ctx.get_executor(), url};
      client admin{w.ctx.get_executor(), url};
      mutex any{admin, name("taken")};
      hold h = co_await kind().acquire(holder, any.name());
      error_code lost;
      h.async_lost([&](error_code ec) { lost = ec; });
      hold next;
      kind().acquire(waiter, any.name(), {}, {}, [&](error_code ec, hold got) {
        EXPECT_FALSE(ec) << ec.message();
        next = std::move(got);
      });
      lock_status status;
      auto const end = steady::now() + 10s;
      while (status.waiting != 1 && steady::now() < end) status = co_await any.async_inspect();
      auto const asked = admin.stats().scripts;
      auto const began = steady::now();
      std::uint32_t const from = co_await any.async_force_release();
      EXPECT_EQ(from, 1u);
      EXPECT_LE(admin.stats().scripts - asked, 2u);  // a second time with its source
      auto const both = [&] { return lost && next.valid(); };
      co_await until(both, "the loss told and the next granted");
      EXPECT_LT(steady::now() - began, 2s);  // not at the next renewal, after 10 s
      EXPECT_EQ(lost, errc::lost) << lost.message();
      EXPECT_FALSE(h.valid());
      EXPECT_GT(next.fence(), h.fence());
      EXPECT_EQ(holder.stats().revocations, 1u);
      EXPECT_EQ(holder.stats().losses, 1u);
      bool const was_held = co_await h.async_release();
      EXPECT_FALSE(was_held);
      EXPECT_TRUE(next.valid());
      auto const settled = [&] { return holder.stats().cleanups_pending == 0; };
      co_await until(settled, "nothing owed");
      status = co_await any.async_inspect();
      CO_ASSERT(status.holders.size() == 1);
      EXPECT_EQ(status.holders[0].client, waiter.id());
      co_await next.async_release();
      status = co_await any.async_inspect();
      EXPECT_FALSE(status.locked());
      std::uint32_t const nobody = co_await any.async_force_release();
      EXPECT_EQ(nobody, 0u);
    }
  };
  w.run(body);
}

TEST_P(Operator, TakesItFromNobodyButTheOneHeSaw) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), server().url()};
    client two{w.ctx.get_executor(), server().url()};
    mutex any{two, name("gone on")};
    hold h = co_await kind().acquire(one, any.name());
    lock_status const seen = co_await any.async_inspect();
    CO_ASSERT(seen.holders.size() == 1);
    co_await h.async_release();
    h = co_await kind().acquire(one, any.name());
    std::uint32_t from = co_await any.async_force_release(seen.holders[0]);
    EXPECT_EQ(from, 0u);
    EXPECT_TRUE(h.valid());
    lock_status const now = co_await any.async_inspect();
    CO_ASSERT(now.holders.size() == 1);
    from = co_await any.async_force_release(now.holders[0]);
    EXPECT_EQ(from, 1u);
    auto const told = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(told), errc::lost);
    EXPECT_TRUE(is_free(probe, any.name()));
  };
  w.run(body);
}

TEST_P(Operator, TakesItFromAFrozenProcessWhichLearnsOfItWhenItGoesOn) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), steady_config(server())};
    child frozen{server(), childs("frozen holder"), 30s};
    frozen.wait_for("held");
    frozen.stop();
    hold next;
    kind().acquire(c, name("frozen holder"), {}, {}, [&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const there = [&] { return in_line(probe, name("frozen holder")) == 1; };
    co_await until(there, "in line");
    mutex any{c, name("frozen holder")};
    auto const began = steady::now();
    std::uint32_t const from = co_await any.async_force_release();
    EXPECT_EQ(from, 1u);
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_LT(steady::now() - began, 2s);
    frozen.cont();
    frozen.wait_for("lost");
    frozen.say("use");
    EXPECT_EQ(frozen.wait_for("use"), "use invalid");
    EXPECT_TRUE(next.valid());
  };
  w.run(body);
}

TEST_P(Operator, WhoWaitsBehindTheLoserInItsProcessAsksAgain) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex any{c, name("same process")};
    hold h = co_await kind().acquire(c, any.name());
    hold next;
    kind().acquire(c, any.name(), {}, {}, [&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    std::uint32_t const from = co_await any.async_force_release();
    EXPECT_EQ(from, 1u);
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the grant");
    EXPECT_FALSE(h.valid());
    EXPECT_GT(next.fence(), h.fence());
  };
  w.run(body);
}

class Inquiry : public testing::Test {
 protected:
  world w;
};

TEST_F(Inquiry, EndsWithUnreachableWhenNoServerIsThere) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings;
    settings.url = "unix:///nowhere/at/all";
    settings.offline_timeout = 100ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "absent"};
    auto const seen = co_await m.async_inspect(as_tuple);
    EXPECT_EQ(std::get<0>(seen), errc::unreachable) << std::get<0>(seen).message();
    auto const forced = co_await m.async_force_release(as_tuple);
    EXPECT_EQ(std::get<0>(forced), errc::unreachable) << std::get<0>(forced).message();
  };
  w.run(body);
}

TEST_F(Inquiry, EndsAtOnceWhenItIsCancelled) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings;
    settings.url = "unix:///nowhere/at/all";
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "absent"};
    for (auto const type :
         {asio::cancellation_type::terminal, asio::cancellation_type::partial, asio::cancellation_type::total}) {
      asio::cancellation_signal signal;
      error_code ended;
      m.async_inspect(asio::bind_cancellation_slot(signal.slot(), [&](error_code ec, lock_status) { ended = ec; }));
      signal.emit(type);
      auto const told = [&] { return static_cast<bool>(ended); };
      co_await until(told, "the end");
      EXPECT_EQ(ended, asio::error::operation_aborted) << ended.message();
    }
  };
  w.run(body);
}

TEST_F(Inquiry, EndsWithClosedWhenItsClientIsClosed) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings;
    settings.url = "unix:///nowhere/at/all";
    error_code ended;
    auto c = std::make_unique<client>(w.ctx.get_executor(), settings);
    mutex m{*c, "absent"};
    m.async_inspect([&](error_code ec, lock_status) { ended = ec; });
    c.reset();
    auto const told = [&] { return static_cast<bool>(ended); };
    co_await until(told, "the end");
    EXPECT_EQ(ended, errc::closed) << ended.message();
    auto const later = co_await m.async_inspect(as_tuple);
    EXPECT_EQ(std::get<0>(later), errc::closed);
  };
  w.run(body);
}

TEST_F(Inquiry, IsNotSupportedOverAQuorum) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings;
    settings.quorum.servers = {"unix:///nowhere/1", "unix:///nowhere/2", "unix:///nowhere/3"};
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "votes"};
    auto const seen = co_await m.async_inspect(as_tuple);
    EXPECT_EQ(std::get<0>(seen), errc::not_supported) << std::get<0>(seen).message();
    auto const forced = co_await m.async_force_release(as_tuple);
    EXPECT_EQ(std::get<0>(forced), errc::not_supported);
    semaphore s{c, "votes", 2};
    auto const set = co_await s.async_set_permits(3, as_tuple);
    EXPECT_EQ(std::get<0>(set), errc::not_supported);
  };
  w.run(body);
}

TEST_F(Inquiry, OfAKeyThatIsNoLockIsRefused) {
  redis_server server;
  redis_probe probe{server};
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server.url()};
    for (int what = 0; what < 3; ++what) {
      std::string const name = "foreign " + std::to_string(what);
      if (what == 0) probe.command({"SET", lock_key(name), "something"});
      if (what == 1) probe.command({"HSET", lock_key(name), "what", "else"});
      if (what == 2) probe.command({"RPUSH", lock_key(name), "a"});
      mutex m{c, name};
      auto const seen = co_await m.async_inspect(as_tuple);
      EXPECT_EQ(std::get<0>(seen), errc::wrong_type) << std::get<0>(seen).message();
      auto const forced = co_await m.async_force_release(as_tuple);
      EXPECT_EQ(std::get<0>(forced), errc::wrong_type) << std::get<0>(forced).message();
      EXPECT_EQ(probe.integer({"EXISTS", lock_key(name)}), 1);
      semaphore s{c, name, 2};
      auto const set = co_await s.async_set_permits(3, as_tuple);
      EXPECT_EQ(std::get<0>(set), errc::wrong_type) << what << std::get<0>(set).message();
    }
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
