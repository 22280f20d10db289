// config::sync_replicas: a hold is delivered, and a deadline moves, when that many replicas have it.

#include "integration/replicas_fixture.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace conch::test {
namespace {

class SyncReplicas : public testing::Test {
 protected:
  world w;
};

TEST_F(SyncReplicas, AHoldIsAtEveryReplicaWhenItIsDelivered) {
  replicated_server servers{2};
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), synced(servers.url(), 2)};
    for (int i = 0; i < 20; ++i) {
      std::string const name = "lock" + std::to_string(i);
      mutex m{c, name};
      hold h = co_await m.async_acquire(asio::use_awaitable);
      CO_ASSERT(h.valid());
      for (std::size_t r = 0; r < 2; ++r) {
        redis_probe at{servers.replica(r)};
        std::string const value = at.command({"GET", lock_key(name)});
        EXPECT_EQ(value.substr(0, c.id().size()), c.id());
        EXPECT_GT(at.integer({"PTTL", lock_key(name)}), 8000);  // the lease, and not the claim
      }
      bool const was_held = co_await h.async_release(asio::use_awaitable);
      EXPECT_TRUE(was_held);
    }
    auto const stats = c.stats();
    EXPECT_GE(stats.sync_wait.count, 20u);
    EXPECT_EQ(stats.connects, 1u) << "of the first connection";
  };
  w.run(body);
}

// D26: an error names how many have acknowledged; the lock is given back.
TEST_F(SyncReplicas, WithOneReplicaOfTwoAnAcquireFailsAndSaysSo) {
  replicated_server servers{1};
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = synced(servers.url(), 2);
    settings.sync_timeout = 1s;  // the one that is there acknowledges in time on a busy machine too
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "two"};
    auto const began = steady::now();
    auto r = co_await m.async_acquire({.wait = 3s}, as_tuple);  // a whole WAIT lies in it
    auto& [ec, h] = r;
    EXPECT_EQ(ec, errc::not_replicated);
    EXPECT_NE(ec.message().find("1 of 2 replicas"), std::string::npos) << ec.message();
    EXPECT_LT(steady::now() - began, 10s);
    redis_probe probe{servers.master()};
    auto const free = [&] { return is_free(probe, "two"); };
    co_await until(free, "the lock given back");
    auto tried = co_await m.async_try_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(tried), errc::not_replicated) << std::get<0>(tried).message();
    co_await until(free, "the lock given back by the try");
    EXPECT_GT(c.stats().sync_short, 0u);
  };
  w.run(body);
}

// D22: a WAIT behind a script that had nothing to write would say at once that all have it (from 7.2 on).
TEST_F(SyncReplicas, ARenewalThatWritesNothingIsNotAcknowledgedByAReplicaThatStandsStill) {
  replicated_server servers{1};
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = synced(servers.url(), 1, 30s);
    settings.command_timeout = 2s;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "still"};
    hold h = co_await m.async_acquire(asio::use_awaitable);
    servers.replica(0).stop();
    // The server keeps it for longer than the renewals ask for: they write nothing.
    redis_probe probe{servers.master()};
    CO_ASSERT(probe.integer({"PEXPIRE", lock_key("still"), "900000"}) == 1);
    auto const before = h.deadline();
    auto longer = co_await h.async_extend(40s, as_tuple);
    EXPECT_EQ(std::get<0>(longer), errc::unreachable) << std::get<0>(longer).message();
    EXPECT_EQ(h.deadline(), before);
    EXPECT_GT(c.stats().sync_short, 0u);
    servers.replica(0).cont();
    auto const after = [&] { return h.deadline() > before; };
    auto again = co_await h.async_extend(40s, as_tuple);
    EXPECT_FALSE(std::get<0>(again)) << std::get<0>(again).message();
    co_await until(after, "a deadline that moves");
  };
  w.run(body);
}

TEST_F(SyncReplicas, P9AHoldThatNoReplicaAcknowledgesIsEndangered) {
  replicated_server servers{1};
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), synced(servers.url(), 1, 12s)};
    mutex m{c, "in danger"};
    hold h = co_await m.async_acquire(asio::use_awaitable);
    servers.replica(0).stop();
    auto const warned = co_await h.async_endangered(as_tuple);
    servers.replica(0).cont();
    EXPECT_FALSE(std::get<0>(warned)) << std::get<0>(warned).message();
    EXPECT_TRUE(h.valid());
    co_await h.async_renewed(h.deadline());
    EXPECT_TRUE(h.valid());
    EXPECT_EQ(c.stats().warnings, 1u);
  };
  w.run(body, 60s);
}

// D23: what is not to be acknowledged does not wait for replicas.
TEST_F(SyncReplicas, ReleasesGoOnWhileAReplicaStandsStill) {
  replicated_server servers{1};
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = synced(servers.url(), 1, 30s);
    settings.sync_timeout = 1s;
    client c{w.ctx.get_executor(), settings};
    std::vector<hold> holds;
    for (int i = 0; i < 100; ++i) {
      mutex m{c, "held" + std::to_string(i)};
      holds.push_back(co_await m.async_acquire(asio::use_awaitable));
    }
    servers.replica(0).stop();
    bool ended = false;
    mutex other{c, "other"};
    other.async_acquire({.wait = 3s}, [&](error_code ec, hold) {
      EXPECT_EQ(ec, errc::not_replicated) << ec.message();
      ended = true;
    });
    redis_probe probe{servers.master()};
    auto const waits = [&] { return probe.command({"CLIENT", "LIST"}).find("cmd=wait") != std::string::npos; };
    co_await until(waits, "a WAIT that blocks");
    std::vector<steady::duration> took;
    for (hold& h : holds) {
      auto const began = steady::now();
      bool const was_held = co_await h.async_release(asio::use_awaitable);
      took.push_back(steady::now() - began);
      EXPECT_TRUE(was_held);
    }
    std::sort(took.begin(), took.end());
    EXPECT_LT(took[98], settings.sync_timeout / 2) << "the releases wait for the replica";
    auto const over = [&] { return ended; };
    co_await until(over, "the acquire that cannot be acknowledged");
    servers.replica(0).cont();
  };
  w.run(body, 60s);
}

// D24: the replicas' end of the lease is not before the deadline.
TEST_F(SyncReplicas, AnIsolatedMasterRenewsNothing) {
  replicated_server servers{1};
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = synced(servers.url(), 1, 3s);
    settings.renew_every = 100ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "isolated"};
    hold h = co_await m.async_acquire(asio::use_awaitable);
    auto const first = h.deadline();
    auto const renewed = [&] { return h.deadline() > first; };
    co_await until(renewed, "a renewal that is acknowledged");
    servers.isolate();
    redis_probe replica{servers.replica(0)};
    auto const over = [&] { return !h.valid(); };
    co_await until(over, "the end of the hold");
    EXPECT_EQ(replica.integer({"EXISTS", lock_key("isolated")}), 1) << "the replica has ended it before its holder";
    redis_probe master{servers.master()};
    EXPECT_GT(c.stats().sync_short, 0u);
    EXPECT_EQ(c.stats().losses, 1u);
  };
  w.run(body);
}

// D25: the releaser wrote the grant on a connection of its own.
TEST_F(SyncReplicas, AHandedOverGrantIsAtTheReplicasWhenItIsDelivered) {
  replicated_server servers{1};
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), synced(servers.url(), 1)}, two{w.ctx.get_executor(), synced(servers.url(), 1)};
    mutex first{one, "handed"}, second{two, "handed"};
    redis_probe probe{servers.master()}, at{servers.replica(0)};
    for (int i = 0; i < 20; ++i) {
      hold h = co_await first.async_acquire(asio::use_awaitable);
      bool granted = false;
      std::string value;
      hold next;
      second.async_acquire([&](error_code ec, hold got) {
        EXPECT_FALSE(ec) << ec.message();
        value = at.command({"GET", lock_key("handed")});
        next = std::move(got);
        granted = true;
      });
      auto const queued = [&] { return in_line(probe, "handed") == 1; };
      co_await until(queued, "the waiter in line");
      co_await h.async_release(asio::use_awaitable);
      auto const done = [&] { return granted; };
      co_await until(done, "the hand-over");
      EXPECT_EQ(value.substr(0, two.id().size()), two.id());
      co_await next.async_release(asio::use_awaitable);
    }
    EXPECT_GT(two.stats().grants_pushed, 10u);
  };
  w.run(body);
}

/// It has it, for the lease and not only for a claim.
void has_all_of_it(redis_probe& replica, std::string const& name, std::string const& what) {
  EXPECT_GT(replica.integer({"PTTL", lock_key(name)}), 8000) << what;
  EXPECT_GT(replica.integer({"EXISTS", fence_key(name)}), 0) << what;
}

TEST_F(SyncReplicas, EveryKindOfLockIsAtTheReplicasWhenItIsDelivered) {
  replicated_server servers{1};
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), synced(servers.url(), 1)};
    redis_probe replica{servers.replica(0)};
    semaphore permits{c, "permits", 3};
    hold one = co_await permits.async_acquire(2, asio::use_awaitable);
    has_all_of_it(replica, "permits", "a semaphore");
    hold another = co_await permits.async_acquire(1, asio::use_awaitable);
    EXPECT_EQ(replica.command({"HGETALL", lock_key("permits")}).find(" h ") != std::string::npos, true);
    shared_mutex shared{c, "shared"};
    hold reads = co_await shared.async_acquire_shared(asio::use_awaitable);
    has_all_of_it(replica, "shared", "a reader");
    striped_mutex striped{c, "striped", 4};
    hold segment = co_await striped.async_acquire(asio::use_awaitable);
    has_all_of_it(replica, "striped", "a segment");
    reentrant_mutex reentrant{c, "reentrant"};
    owner const me;
    reentrant_hold level = co_await reentrant.async_acquire(me, asio::use_awaitable);
    has_all_of_it(replica, "reentrant", "a reentrant lock");
    std::vector<mutex> both;
    both.emplace_back(c, "several1");
    both.emplace_back(c, "several2");
    multi_lock several{std::move(both)};
    multi_hold all = co_await several.async_acquire(asio::use_awaitable);
    has_all_of_it(replica, "several1", "the first of several");
    has_all_of_it(replica, "several2", "the second of several");
    bool held = co_await another.async_release(asio::use_awaitable);
    EXPECT_TRUE(held);
    held = co_await reads.async_release(asio::use_awaitable);
    EXPECT_TRUE(held);
    // A hold that leaves its client is renewed once more, and acknowledged.
    mutex m{c, "moved"};
    hold leaves = co_await m.async_acquire(asio::use_awaitable);
    std::string const text = co_await leaves.async_detach(asio::use_awaitable);
    has_all_of_it(replica, "moved", "a detached hold");
    client other{w.ctx.get_executor(), synced(servers.url(), 1)};
    mutex same{other, "moved"};
    hold adopted = co_await same.async_adopt(text, asio::use_awaitable);
    EXPECT_TRUE(adopted.valid());
    has_all_of_it(replica, "moved", "an adopted hold");
  };
  w.run(body);
}

struct seen_in_partitions {
  int holds = 0, overlaps = 0;
};

/// A11: the master is cut off with a client that holds the lock, and a replica takes over, where another client takes
/// the lock.
seen_in_partitions cut_off(world& w, int times, std::size_t sync) {
  seen_in_partitions seen;
  replicated_server servers{1};
  for (int i = 0; i < times; ++i) {
    std::string const name = "cut" + std::to_string(i);
    auto const body = [&]() -> asio::awaitable<void> {
      config settings = quick(servers.url(), 600ms);
      settings.sync_replicas = sync;
      settings.renew_every = 50ms;
      config at_replica = quick(servers.replica(0).url(), 600ms);
      client cut{w.ctx.get_executor(), settings}, other{w.ctx.get_executor(), at_replica};
      mutex first{cut, name}, second{other, name};
      hold h = co_await first.async_acquire(asio::use_awaitable);
      redis_probe replica{servers.replica(0)};
      auto const there = [&] { return replica.integer({"EXISTS", lock_key(name)}) == 1; };
      co_await until(there, "the hold at the replica");
      replica.command({"REPLICAOF", "NO", "ONE"});
      bool granted = false;
      second.async_acquire([&](error_code ec, hold) {
        EXPECT_FALSE(ec) << ec.message();
        ++seen.holds;
        if (h.valid()) ++seen.overlaps;
        granted = true;
      });
      auto const done = [&] { return granted; };
      co_await until(done, "the lock at the new master");
    };
    w.run(body);
    servers.follow_again();
  }
  return seen;
}

TEST_F(SyncReplicas, P1AMasterThatIsCutOffWithItsHolderKeepsNoHold) {
  seen_in_partitions const without = cut_off(w, 2, 0);
  EXPECT_EQ(without.overlaps, 2) << "this test does not see what it is for";
  seen_in_partitions const with = cut_off(w, 4, 1);
  EXPECT_EQ(with.holds, 4);
  EXPECT_EQ(with.overlaps, 0);
}

class SlowSyncReplicas : public SyncReplicas {};

TEST_F(SlowSyncReplicas, A11OverAHundredPartitionsNoTwoHoldsOverlap) {
  seen_in_partitions const without = cut_off(w, 20, 0), with = cut_off(w, 100, 1);
  RecordProperty("overlaps_without", without.overlaps);
  std::printf("without sync_replicas: %d of %d overlap; with: %d of %d\n", without.overlaps, without.holds,
              with.overlaps, with.holds);
  EXPECT_GT(without.overlaps, 0) << "this test does not see what it is for";
  EXPECT_EQ(with.holds, 100);
  EXPECT_EQ(with.overlaps, 0);
}

TEST_F(SyncReplicas, IsRefusedWhereThereAreNone) {
  std::string what;
  config memory;
  memory.url = "memory://";
  memory.sync_replicas = 1;
  EXPECT_EQ(error_of([&] { client c{w.ctx.get_executor(), memory}; }, &what), errc::not_supported);
  EXPECT_NE(what.find("memory:// has no replicas"), std::string::npos) << what;
  config several;
  several.url = "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3";
  several.sync_replicas = 1;
  EXPECT_EQ(error_of([&] { client c{w.ctx.get_executor(), several}; }, &what), errc::not_supported);
  EXPECT_NE(what.find("several servers decide"), std::string::npos) << what;
  config many;
  many.sync_replicas = 101;
  EXPECT_EQ(error_of([&] { client c{w.ctx.get_executor(), many}; }, &what), errc::invalid_config);
  EXPECT_NE(what.find("sync_replicas must be 0 to 100, got 101"), std::string::npos) << what;
  config no_time;
  no_time.sync_replicas = 1;
  no_time.sync_timeout = 0ms;
  EXPECT_EQ(error_of([&] { client c{w.ctx.get_executor(), no_time}; }, &what), errc::invalid_config);
}

}  // namespace
}  // namespace conch::test
