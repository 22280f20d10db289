// A lock over several servers whose votes an operator takes away, server by server.

#include "integration/redlock_fixture.hpp"

#include <deque>

namespace conch::test {
namespace {

class RedlockOperator : public testing::Test {
 protected:
  RedlockOperator() {
    for (std::size_t i = 0; i < masters; ++i) admins.emplace_back(w.ctx.get_executor(), servers[i].url());
  }

  /// From how many it was taken, at server `i`.
  asio::awaitable<std::uint32_t> take_vote(std::size_t i) {
    mutex vote{admins[i], "a"};
    std::uint32_t const from = co_await vote.async_force_release();
    co_return from;
  }

  asio::awaitable<void> all_confirmed() {
    auto const confirmed = [&] { return servers.owned("a", 'h') == masters; };
    co_await until(confirmed, "confirmed by all servers");
  }

  redlock_servers servers;
  world w;
  std::deque<client> admins;
};

TEST_F(RedlockOperator, AVoteThatIsTakenAwayIsGivenAgainWhileAMajorityIsLeft) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), servers.settings(1s)};
    mutex m{c, "a"};
    hold h = co_await m.async_acquire();
    co_await all_confirmed();
    for (std::size_t i = 0; i < masters; ++i) {
      mutex vote{admins[i], "a"};
      lock_status const seen = co_await vote.async_inspect();
      CO_ASSERT(seen.holders.size() == 1);
      EXPECT_EQ(seen.holders[0].client, c.id());
      std::uint32_t const from = co_await take_vote(i);
      EXPECT_EQ(from, 1u);
      EXPECT_TRUE(h.valid());
      co_await all_confirmed();
    }
    EXPECT_TRUE(h.valid());
    EXPECT_EQ(c.stats().losses, 0u);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const clean = [&] { return servers.nothing_left("a"); };
    co_await until(clean, "nothing left");
  };
  w.run(body);
}

TEST_F(RedlockOperator, P1WhoIsNextInLineDoesNotGetTheLockByAMinorityThatIsTakenAway) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), servers.settings(1s)};
    client other{w.ctx.get_executor(), servers.settings(1s)};
    mutex m{c, "a"}, n{other, "a"};
    hold h = co_await m.async_acquire();
    co_await all_confirmed();
    std::int64_t const fence = h.fence();
    hold next;
    n.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const in_all_lines = [&] { return servers.lines("a") == masters; };
    co_await until(in_all_lines, "the other in line");
    for (std::size_t i = 0; i < 2; ++i) {
      std::uint32_t const from = co_await take_vote(i);
      EXPECT_EQ(from, 1u);
    }
    time_point const before = h.deadline();
    auto const renewed = [&] { return !h.valid() || next || h.deadline() > before + 1500ms; };
    co_await until(renewed, "the hold is renewed by the three that are left");
    EXPECT_TRUE(h.valid());
    EXPECT_FALSE(next);
    auto const began = steady::now();
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the other has it");
    EXPECT_LT(steady::now() - began, 10s);
    EXPECT_GT(next.fence(), fence);
  };
  w.run(body);
}

TEST_F(RedlockOperator, P9WhoIsLeftWithoutAMajorityIsToldAtOnceAndTheNextHasIt) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), servers.settings(20s)};
    client other{w.ctx.get_executor(), servers.settings(20s)};
    mutex m{c, "a"}, n{other, "a"};
    hold h = co_await m.async_acquire();
    co_await all_confirmed();
    std::int64_t const fence = h.fence();
    error_code lost;
    h.async_lost([&](error_code ec) { lost = ec; });
    hold next;
    n.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    auto const in_all_lines = [&] { return servers.lines("a") == masters; };
    co_await until(in_all_lines, "the other in line");
    auto const began = steady::now();
    for (std::size_t i = 0; i < 3; ++i) {
      std::uint32_t const from = co_await take_vote(i);
      EXPECT_EQ(from, 1u);
    }
    auto const told = [&] { return static_cast<bool>(lost) && next.valid(); };
    co_await until(told, "the loss told and the next granted");
    EXPECT_LT(steady::now() - began, 2s);  // not at a renewal, after 6 s
    EXPECT_EQ(lost, errc::lost) << lost.message();
    EXPECT_GT(next.fence(), fence);
    bool const was_held = co_await h.async_release();
    EXPECT_FALSE(was_held);
    co_await all_confirmed();
    EXPECT_TRUE(next.valid());
    co_await next.async_release();
    auto const clean = [&] { return servers.nothing_left("a") && c.stats().cleanups_pending == 0; };
    co_await until(clean, "nothing left");
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
