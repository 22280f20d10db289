// What can be seen of locks at a Redis server only: its keys, its users, its roles.

#include "integration/fixture.hpp"

namespace conch::test {
namespace {

class AtRedis : public with_server<AtRedis> {};

TEST_F(AtRedis, AMutexMayHaveALeaseOfItsOwn) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), server().url()};
    mutex m{c, "own lease", {.lease = 100s}};
    hold h = co_await m.async_acquire();
    auto const left = probe.integer({"PTTL", lock_key("own lease")});
    EXPECT_GT(left, 95'000);
    EXPECT_LE(left, 100'000);
    EXPECT_GT(h.deadline(), clock::now() + 95s);
    co_await h.async_release();
  };
  w.run(body);
}

TEST_F(AtRedis, ALockTakenByAnOperatorForSomebodyElseIsTold) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), often_renewed(server())};
    mutex m{c, "overwritten"};
    hold h = co_await m.async_acquire();
    std::string const other = "0123456789abcdef0123456789abcdef.7 7777777 h";
    probe.command({"SET", lock_key("overwritten"), other, "PX", "5000"});
    auto r = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::lost);
    bool const was_held = co_await h.async_release();
    EXPECT_FALSE(was_held);
    EXPECT_EQ(probe.command({"GET", lock_key("overwritten")}), other);  // P7
    probe.command({"DEL", lock_key("overwritten")});
  };
  w.run(body);
}

TEST_F(AtRedis, AReleaseOfAKeyThatIsNoLockAnyMoreSaysSoAndSoDoesTheWaiter) {
  for (duration const slice : {duration{0}, duration{5ms}}) {
    auto const body = [&]() -> asio::awaitable<void> {
      config settings = quick(server());
      settings.local_slice = slice;
      client c{w.ctx.get_executor(), settings};
      mutex m{c, "replaced"};
      hold h = co_await m.async_acquire();
      error_code waited;
      bool told = false;
      if (slice == 0s) {  // its release and the next question are one script
        m.async_acquire([&](error_code ec, hold) {
          waited = ec;
          told = true;
        });
      }
      probe.command({"DEL", lock_key("replaced")});
      probe.command({"RPUSH", lock_key("replaced"), "x"});
      auto r = co_await h.async_release(as_tuple);
      EXPECT_EQ(std::get<0>(r), errc::wrong_type) << std::get<0>(r).message();
      EXPECT_FALSE(std::get<1>(r));
      if (slice == 0s) {
        auto const done = [&] { return told; };
        co_await until(done, "the waiter told");
        EXPECT_EQ(waited, errc::wrong_type) << waited.message();
      }
      EXPECT_EQ(probe.command({"LRANGE", lock_key("replaced"), "0", "-1"}), "[x]");
      probe.command({"DEL", lock_key("replaced")});
      auto const settled = [&] { return c.stats().cleanups_pending == 0; };
      co_await until(settled, "the end of the clean-up");
    };
    w.run(body);
  }
}

TEST_F(AtRedis, AReleaseThatIsNotAllowedAnyMoreSaysSo) {
  ASSERT_EQ(probe.command({"ACL", "SETUSER", "demoted", "on", ">pw", "~*", "&*", "+@all"}), "OK");
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), quick("unix://demoted:pw@" + server().socket_path())};
    mutex m{c, "demoted"};
    hold h = co_await m.async_acquire();
    probe.command({"ACL", "SETUSER", "demoted", "-evalsha"});
    auto r = co_await h.async_release(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::access_denied) << std::get<0>(r).message();
    EXPECT_FALSE(h.valid());
    probe.command({"DEL", lock_key("demoted")});
  };
  w.run(body);
}

TEST_F(AtRedis, P3AHoldOfAServerThatBecameAReplicaEndsByItsDeadline) {
  redis_server demoted;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = quick(demoted, 3s);
    settings.stop_margin = 700ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "replica"};
    hold h = co_await m.async_acquire();
    redis_probe{demoted}.command({"REPLICAOF", "127.0.0.1", "1"});
    auto const began = clock::now();
    auto r = co_await h.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::lost);
    EXPECT_LT(clock::now() - began, 3s);  // of which it is told 0.7 s before
  };
  w.run(body);
}

TEST_F(AtRedis, P2FencesGrowAcrossExpiryAndARestartThatLosesTheData) {
  redis_server own;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = quick(own, 300ms);
    settings.fence_retention = 1s;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "fence", {.renew = false}};
    hold first = co_await m.async_acquire();
    auto lost = co_await first.async_lost(as_tuple);
    EXPECT_EQ(std::get<0>(lost), errc::lost);
    hold second = co_await m.async_acquire();
    EXPECT_GT(second.fence(), first.fence());
    own.restart(false);
    hold third = co_await m.async_acquire();
    EXPECT_GT(third.fence(), second.fence());
    co_await third.async_release();
  };
  w.run(body);
}

}  // namespace
}  // namespace conch::test
