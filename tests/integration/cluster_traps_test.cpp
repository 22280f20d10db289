// What goes wrong in a Cluster: nodes that name each other, a thousand redirections at once, a master that was frozen.

#include "integration/cluster_fixture.hpp"

#include <conch/stats.hpp>

#include <deque>
#include <vector>

namespace conch::test {
namespace {

/// How often the node has answered MOVED.
long redirections(redis_probe& at) {
  std::string const all = at.command({"INFO", "errorstats"});
  constexpr std::string_view words = "errorstat_MOVED:count=";
  auto const found = all.find(words);
  return found == std::string::npos ? 0 : std::stol(all.substr(found + words.size()));
}

TEST(ClusterTraps, D11TwoNodesThatNameEachOtherAreAskedWithPauses) {
  cluster_set all;
  world w;
  std::string const name = all.name_at(0);
  std::string const slot = std::to_string(redis::slot_of_lock(name));
  redis_probe first{all.node(0)}, second{all.node(1)};
  // Nobody says that it has the slot.
  ASSERT_EQ(first.command({"CLUSTER", "SETSLOT", slot, "NODE", all.id(1)}), "OK");
  ASSERT_EQ(all.owner(redis::slot_of_lock(name), 0), 1u);
  ASSERT_EQ(all.owner(redis::slot_of_lock(name), 1), 0u);
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), over(all)};
    hold h;
    auto const since = steady::now();
    mutex{c, name}.async_acquire([&h](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      h = std::move(got);
    });
    auto const is_followed = [&] { return redirections(second) > 0; };
    co_await until(is_followed, "a redirection", 60s);
    co_await pause_for(3s);
    long const followed = redirections(first) + redirections(second);
    auto const maps = static_cast<long>(c.stats().topology_refreshes);
    auto const passed = steady::now() - since;
    std::printf("D11: %ld redirections and %ld maps in %.0f ms\n", followed, maps, ms(passed));
    EXPECT_FALSE(h);
    // A node may also say that nobody has the slot: then ten a second.
    EXPECT_LE(maps, passed / 100ms + 2);
    EXPECT_LE(followed, 2 * (passed / 20ms + 5 * maps))
        << "of a subscription and of a request: after at most five for each map there are pauses";
    EXPECT_EQ(second.command({"CLUSTER", "SETSLOT", slot, "NODE", all.id(1)}), "OK");
    auto const served = [&] { return h.valid(); };
    co_await until(served, "the grant", 60s);
  };
  w.run(body, 180s);
}

TEST(ClusterTraps, D12AThousandRedirectionsAskForOneMap) {
  constexpr std::size_t count = 1000;
  cluster_set all{{.replicas = 3}};
  world w;
  std::vector<std::string> names;
  for (unsigned n = 0; names.size() < count; ++n) {
    std::string name = "seat-" + std::to_string(n);
    if (redis::slot_of_lock(name) < 16384 / 3) names.push_back(std::move(name));
  }
  auto const body = [&]() -> asio::awaitable<void> {
    client holds{w.ctx.get_executor(), over(all)}, waits{w.ctx.get_executor(), over(all)};
    std::deque<hold> held;
    std::size_t granted = 0;
    for (std::string const& name : names) {
      mutex{holds, name}.async_acquire([&held](error_code ec, hold got) {
        EXPECT_FALSE(ec) << ec.message();
        held.push_back(std::move(got));
      });
    }
    auto const all_held = [&] { return held.size() == count; };
    co_await until(all_held, "the holds", 60s);
    for (std::string const& name : names) {
      mutex{waits, name}.async_acquire([&granted](error_code ec, hold got) {
        EXPECT_FALSE(ec) << ec.message();
        ++granted;
        got = {};
      });
    }
    redis_probe at_first{all.node(0)};
    auto const all_wait = [&] { return in_line(at_first, names.back()) == 1; };
    co_await until(all_wait, "the last waiter in line", 60s);
    std::uint64_t const before[] = {holds.stats().topology_refreshes, waits.stats().topology_refreshes};
    auto const since = steady::now();
    all.fail_over(3);
    // A failover of which nothing comes holds its master up for longer than the caller of a release waits.
    for (hold& h : held) h.async_release([](error_code ec, bool was_held) { EXPECT_TRUE(ec || was_held); });
    auto const all_granted = [&] { return granted == count; };
    co_await until(all_granted, "all grants", 60s);
    auto const passed = steady::now() - since;
    auto const bound = static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::seconds>(passed).count()) + 1;
    std::uint64_t const of_holds = holds.stats().topology_refreshes - before[0],
                        of_waits = waits.stats().topology_refreshes - before[1];
    std::printf("D12: %llu and %llu maps in %.0f ms\n", static_cast<unsigned long long>(of_holds),
                static_cast<unsigned long long>(of_waits), ms(passed));
    EXPECT_LE(of_holds, bound);
    EXPECT_LE(of_waits, bound);
    EXPECT_EQ(holds.stats().losses, 0u);
  };
  w.run(body, 180s);
}

/// A master is frozen with an acquire in its buffer, and carries that out when it resumes: before it learns that it is
/// no longer a master.
void frozen_with_an_acquire(config settings, bool is_carried_out) {
  cluster_set all{{.replicas = 3, .node_timeout = 2s}};
  settings.url = all.url({1, 2});
  world w;
  std::string const name = all.name_at(0);
  auto const body = [&]() -> asio::awaitable<void> {
    client asks{w.ctx.get_executor(), settings}, other{w.ctx.get_executor(), over(all.url({1, 2}))};
    redis_probe at_first{all.node(0)}, at_replica{all.node(3)};
    hold earlier = co_await mutex{asks, name}.async_acquire();
    co_await earlier.async_release();
    EXPECT_EQ(at_first.command({"WAIT", "1", "5000"}), "1");
    long const scripts = at_first.commandstats()["evalsha"];
    all.node(0).stop();
    hold late;
    mutex{asks, name}.async_acquire([&late](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      late = std::move(got);
    });
    auto const promoted = [&] {
      return at_replica.command({"INFO", "replication"}).find("role:master") != std::string::npos;
    };
    co_await until(promoted, "the promotion", 60s);
    hold h;
    bool is_served = false;
    mutex{other, name}.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      h = std::move(got);
      is_served = true;
    });
    auto const one_has_it = [&] { return is_served || late.valid(); };
    co_await until(one_has_it, "a grant of the new master", 60s);
    bool const frozen_came_first = late.valid();  // at the new master: nobody is ahead of it there
    auto const both_are_there = [&] { return in_line(at_replica, name) == 1; };
    co_await until(both_are_there, "both at the new master", 60s);
    all.node(0).cont();
    auto const demoted = [&] {
      return at_first.command({"INFO", "replication"}).find("role:slave") != std::string::npos;
    };
    co_await until(demoted, "the demotion", 60s);
    co_await pause_for(200ms);
    EXPECT_NE(h.valid(), late.valid()) << "one of them has it";
    EXPECT_EQ(late.valid(), frozen_came_first);
    if (is_carried_out) {
      EXPECT_GT(at_first.commandstats()["evalsha"], scripts) << "what was in its buffer";
    }
    hold& has = frozen_came_first ? late : h;
    hold& next = frozen_came_first ? h : late;
    std::int64_t const fence = has.fence();
    bool const was_held = co_await has.async_release();
    EXPECT_TRUE(was_held);
    auto const served = [&] { return next.valid(); };
    co_await until(served, "the next in line", 60s);
    EXPECT_GT(next.fence(), fence);
    EXPECT_EQ(asks.stats().losses + other.stats().losses, 0u);
  };
  w.run(body, 180s);
}

TEST(ClusterTraps, D16AFrozenMastersGrantIsNotDeliveredOnceTheSlotIsKnownToBeElsewhere) {
  config settings = over("");
  settings.command_timeout = 10s;  // the connection outlives the freeze
  settings.topology_refresh = 200ms;
  frozen_with_an_acquire(settings, true);
}

TEST(ClusterTraps, D16AFrozenMastersGrantIsNotDeliveredOnceTheConnectionIsGivenUp) {
  frozen_with_an_acquire(over(""), false);
}

}  // namespace
}  // namespace conch::test
