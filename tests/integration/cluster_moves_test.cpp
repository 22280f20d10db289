// Locks of a real Cluster whose slots move, and whose masters fail over or die.

#include "integration/cluster_fixture.hpp"

#include <conch/stats.hpp>

namespace conch::test {
namespace {

/// Until the hold is renewed where its slot is now.
asio::awaitable<void> renewed(hold const& h, time_point before, std::chrono::milliseconds bound = 60s) {
  auto const later = [&h, before] { return h.deadline() > before; };
  co_await until(later, "a renewal", bound);
}

TEST(ClusterMoves, AHoldAndItsLineMoveWithTheirSlotAtOnce) {
  cluster_set all;
  world w;
  std::string const name = all.name_at(0);
  unsigned const slot = redis::slot_of_lock(name);
  auto const body = [&]() -> asio::awaitable<void> {
    client holds{w.ctx.get_executor(), over(all)}, waits{w.ctx.get_executor(), over(all)};
    mutex a{holds, name}, b{waits, name};
    hold h = co_await a.async_acquire();
    hold next;
    redis_probe at_source{all.node(0)}, at_target{all.node(1)};
    co_await stand_in_line(b, next, at_source);
    for (std::size_t const to : {1u, 0u, 2u}) {
      time_point const before = h.deadline();
      all.move_slot(slot, to);
      co_await renewed(h, before, 8s);  // the next of itself comes after 10 s
      all.settle();                     // a slot that moves again before all know of it may end without an owner
    }
    std::int64_t const fence = h.fence();
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const served = [&] { return next.valid(); };
    co_await until(served, "the grant of the waiter");
    EXPECT_GT(next.fence(), fence);
    EXPECT_EQ(holds.stats().losses, 0u);
    bool const was_held_too = co_await next.async_release();
    EXPECT_TRUE(was_held_too);
    redis_probe at_last{all.node(2)};
    EXPECT_TRUE(is_free(at_last, name));
  };
  w.run(body, 120s);
}

TEST(ClusterMoves, AHoldOutlivesItsLeaseInASlotThatIsHalfMoved) {
  cluster_set all;
  world w;
  std::string const name = all.name_at(0), beside = all.name_at(0, 1);
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = over(all);
    settings.lease = 3s;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, name}, other{c, beside};
    semaphore s{c, name + "}", 2};  // its own slot
    for (std::size_t const keys_first : {false, true}) {
      std::size_t const from = all.owner(redis::slot_of_lock(name)), to = from == 0 ? 1 : 0;
      hold h = co_await m.async_acquire();
      hold permit = co_await s.async_acquire();
      hold elsewhere = co_await other.async_acquire();
      unsigned const slot = redis::slot_of_lock(name), of_permit = redis::slot_of_lock(name + "}");
      std::size_t const permit_from = all.owner(of_permit), permit_to = (permit_from + 1) % 3;
      all.begin_move(slot, to);
      all.begin_move(of_permit, permit_to);
      if (keys_first) {
        all.move_keys(slot, to);
        all.move_keys(of_permit, permit_to);
      }
      auto const since = steady::now();
      co_await pause_for(5s);
      EXPECT_TRUE(h.valid()) << keys_first;
      EXPECT_TRUE(permit.valid()) << keys_first;
      EXPECT_TRUE(elsewhere.valid());
      std::printf("held %.0f ms in a slot that is half moved\n", ms(steady::now() - since));
      all.move_keys(slot, to);
      all.end_move(slot, to);
      all.move_keys(of_permit, permit_to);
      all.end_move(of_permit, permit_to);
      bool const was_held = co_await h.async_release();
      bool const permit_was_held = co_await permit.async_release();
      bool const other_was_held = co_await elsewhere.async_release();
      EXPECT_TRUE(was_held && permit_was_held && other_was_held);
    }
    EXPECT_EQ(c.stats().losses, 0u);
  };
  w.run(body, 120s);
}

TEST(ClusterMoves, D4AReleaseInASlotThatIsHalfMovedIsDoneAtTheEnd) {
  cluster_set all;
  world w;
  std::string const name = all.name_at(0);
  unsigned const slot = redis::slot_of_lock(name);
  auto const body = [&]() -> asio::awaitable<void> {
    client holds{w.ctx.get_executor(), over(all)}, waits{w.ctx.get_executor(), over(all)};
    mutex a{holds, name}, b{waits, name};
    hold h = co_await a.async_acquire();
    all.begin_move(slot, 1);
    all.move_keys(slot, 1);
    steady::time_point granted{};
    hold next;
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
      granted = steady::now();
    });
    bool released = false;
    h.async_release([&](error_code ec, bool was_held) {
      EXPECT_FALSE(ec) << ec.message();
      EXPECT_TRUE(was_held);
      released = true;
    });
    co_await pause_for(1s);
    EXPECT_FALSE(next.valid());
    EXPECT_FALSE(released);
    auto const end = steady::now();
    all.end_move(slot, 1);
    auto const served = [&] { return next.valid() && released; };
    co_await until(served, "the grant of the waiter", 60s);
    std::printf("granted %.0f ms after the end\n", ms(granted - end));
  };
  w.run(body, 120s);
}

TEST(ClusterMoves, FailoversLoseNoHoldAndTheOrderStays) {
  cluster_set all{{.replicas = 3}};
  world w;
  std::vector<std::string> names;
  for (unsigned n = 0; n < 5; ++n) names.push_back(all.name_at(0, n));
  auto const body = [&]() -> asio::awaitable<void> {
    client holds{w.ctx.get_executor(), over(all)}, waits{w.ctx.get_executor(), over(all)};
    std::vector<hold> held, next(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      mutex a{holds, names[i]}, b{waits, names[i]};
      held.push_back(co_await a.async_acquire());
      b.async_acquire([&next, i](error_code ec, hold got) {
        EXPECT_FALSE(ec) << ec.message();
        next[i] = std::move(got);
      });
    }
    redis_probe at_first{all.node(0)};
    for (std::string const& name : names) {
      auto const in_line_there = [&] { return in_line(at_first, name) == 1; };
      co_await until(in_line_there, "the waiter in line");
    }
    for (std::size_t const replica : {3u, 0u}) {
      time_point const before = held.front().deadline();
      auto const since = steady::now();
      all.fail_over(replica);
      co_await renewed(held.front(), before, 8s);
      std::printf("re-verified %.0f ms after CLUSTER FAILOVER\n", ms(steady::now() - since));
      for (hold const& h : held) EXPECT_TRUE(h.valid());
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      bool const was_held = co_await held[i].async_release();
      EXPECT_TRUE(was_held);
      auto const served = [&] { return next[i].valid(); };
      co_await until(served, "the grant of the waiter");
      EXPECT_GT(next[i].fence(), 0);
    }
    EXPECT_EQ(holds.stats().losses, 0u);
  };
  w.run(body, 180s);
}

TEST(ClusterMoves, AKilledMasterIsFollowedByItsReplica) {
  cluster_set all{{.replicas = 3, .node_timeout = 2s}};
  world w;
  std::string const name = all.name_at(0), elsewhere = all.name_at(1);
  auto const body = [&]() -> asio::awaitable<void> {
    client holds{w.ctx.get_executor(), over(all)}, waits{w.ctx.get_executor(), over(all)};
    mutex a{holds, name}, b{waits, name}, c{holds, elsewhere};
    hold h = co_await a.async_acquire();
    hold other = co_await c.async_acquire();
    hold next;
    redis_probe at_first{all.node(0)}, at_replica{all.node(3)};
    co_await stand_in_line(b, next, at_first);
    EXPECT_EQ(at_first.command({"WAIT", "1", "5000"}), "1");
    time_point const before = h.deadline();
    all.node(0).kill();
    auto const since = steady::now();
    co_await renewed(h, before);
    std::printf("re-verified %.0f ms after the kill\n", ms(steady::now() - since));
    EXPECT_TRUE(h.valid());
    EXPECT_TRUE(other.valid());
    std::int64_t const fence = h.fence();
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const served = [&] { return next.valid(); };
    co_await until(served, "the grant of the waiter", 60s);
    EXPECT_GT(next.fence(), fence);
    EXPECT_EQ(holds.stats().losses, 0u);
  };
  w.run(body, 180s);
}

TEST(ClusterMoves, D5AReleaseWhileTheSlotIsHalfMovedServesTheWholeLineInItsOrder) {
  cluster_set all;
  world w;
  std::string const name = all.name_at(0);
  unsigned const slot = redis::slot_of_lock(name);
  auto const body = [&]() -> asio::awaitable<void> {
    client holds{w.ctx.get_executor(), over(all)};
    mutex a{holds, name};
    hold h = co_await a.async_acquire();
    line_of_clients line;
    redis_probe at_source{all.node(0)};
    co_await line.stand(w, all, name, 50, at_source);
    all.begin_move(slot, 1);
    all.move_keys(slot, 1);
    h.async_release([](error_code, bool) {});
    co_await pause_for(300ms);
    EXPECT_TRUE(line.served.empty());
    all.end_move(slot, 1);
    co_await line.served_in_order();
  };
  w.run(body, 180s);
}

/// Valkey 9: a slot that moves with all its keys at once. There is no ASK and no TRYAGAIN; the source pauses, and then
/// answers MOVED.
TEST(ClusterMovesAtOnce, AHoldAndAWholeLineMoveAndAreServedInTheirOrder) {
  cluster_set all;
  if (!all.can_move_at_once()) GTEST_SKIP() << "a server without CLUSTER MIGRATESLOTS (Valkey 9 has it)";
  world w;
  std::string const name = all.name_at(0);
  unsigned const slot = redis::slot_of_lock(name);
  auto const body = [&]() -> asio::awaitable<void> {
    client holds{w.ctx.get_executor(), over(all)};
    hold h = co_await mutex{holds, name}.async_acquire();
    line_of_clients line;
    redis_probe at_source{all.node(0)};
    co_await line.stand(w, all, name, 50, at_source);
    time_point const before = h.deadline();
    all.move_at_once({slot}, 1);
    co_await renewed(h, before, 8s);  // the next of itself comes after 10 s
    redis_probe at_target{all.node(1)};
    EXPECT_EQ(in_line(at_target, name), 50);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    co_await line.served_in_order();
    EXPECT_EQ(holds.stats().losses, 0u);
  };
  w.run(body, 180s);
}

TEST(ClusterMoves, ANodeThatIsNewIsFoundByTheSlotThatMovesToIt) {
  // It has no slots at first: CLUSTER SLOTS does not name it, and only ASK does.
  cluster_set all{{.masters = 3, .empty = 1}};
  world w;
  std::string const name = all.name_at(0);
  unsigned const slot = redis::slot_of_lock(name);
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = over(all.url({0, 1, 2}));
    settings.lease = 3s;
    client holds{w.ctx.get_executor(), settings}, waits{w.ctx.get_executor(), over(all.url({0}))};
    mutex a{holds, name}, b{waits, name};
    hold h = co_await a.async_acquire();
    hold next;
    redis_probe at_source{all.node(0)};
    co_await stand_in_line(b, next, at_source);
    all.begin_move(slot, 3);
    all.move_keys(slot, 3);
    co_await pause_for(5s);
    EXPECT_TRUE(h.valid()) << "renewed at a node that no map names yet";
    all.end_move(slot, 3);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const served = [&] { return next.valid(); };
    co_await until(served, "the grant of the waiter", 60s);
    EXPECT_EQ(holds.stats().losses, 0u);
  };
  w.run(body, 120s);
}

}  // namespace
}  // namespace conch::test
