// What a Cluster is asked, and how often.

#include "integration/cluster_fixture.hpp"

#include <conch/stats.hpp>

#include <algorithm>
#include <deque>
#include <vector>

namespace conch::test {
namespace {

/// Calls of that command at all nodes together.
long calls(cluster_set& all, std::string const& command) {
  long sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) sum += redis_probe{all.node(i)}.commandstats()[command];
  return sum;
}

TEST(ClusterMessages, A8AHandOverIsOneScriptAndOnePush) {
  cluster_set all;
  world w;
  constexpr int rounds = 20;
  auto const body = [&]() -> asio::awaitable<void> {
    std::deque<client> clients;
    config nameless = over(all);
    nameless.label = "";  // it would be told to the master of another slot
    for (int i = 0; i < 2; ++i) clients.emplace_back(w.ctx.get_executor(), nameless);
    std::string const name = all.name_at(1);
    redis_probe probe{all.node(1)};
    mutex locks[] = {{clients[0], name}, {clients[1], name}};
    hold h = co_await locks[0].async_acquire();
    {
      hold second;  // both have loaded their scripts, and listen
      co_await stand_in_line(locks[1], second, probe);
      co_await h.async_release();
      auto const served = [&] { return second.valid(); };
      co_await until(served, "the grant");
      h = std::move(second);
    }
    EXPECT_EQ(calls(all, "ssubscribe"), 4)
        << "of each client one for the slot, and one that proves its right on a new connection";
    long const scripts = calls(all, "evalsha"), sources = calls(all, "eval");
    auto const pushes = clients[0].stats().pushes + clients[1].stats().pushes;
    for (int i = 0; i < rounds; ++i) {
      hold next;
      co_await stand_in_line(locks[i % 2], next, probe);
      co_await h.async_release();
      auto const served = [&] { return next.valid(); };
      co_await until(served, "the grant");
      h = std::move(next);
    }
    EXPECT_EQ(calls(all, "evalsha") - scripts, 2 * rounds) << "one that asks, one that gives back and hands over";
    EXPECT_EQ(calls(all, "eval"), sources);
    EXPECT_EQ(clients[0].stats().pushes + clients[1].stats().pushes - pushes, static_cast<std::uint64_t>(rounds));
    EXPECT_EQ(clients[0].stats().safety_checks + clients[1].stats().safety_checks, 0u);
    EXPECT_EQ(calls(all, "ssubscribe"), 4);
    EXPECT_EQ(calls(all, "publish"), 0);
    for (std::size_t i = 0; i < all.size(); ++i) {  // that would go to all nodes
      std::string const info = redis_probe{all.node(i)}.command({"CLUSTER", "INFO"});
      auto const sent = info.find("cluster_stats_messages_publish_sent:");
      EXPECT_TRUE(sent == std::string::npos || info.substr(sent).starts_with("cluster_stats_messages_publish_sent:0"))
          << info;
    }
  };
  w.run(body);
}

TEST(ClusterMessages, A8TheMapIsAskedForOnceInEachPeriodWhileNothingMoves) {
  cluster_set all;
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = over(all);
    settings.topology_refresh = 1s;
    client c{w.ctx.get_executor(), settings};
    hold h = co_await mutex{c, all.name_at(2)}.async_acquire();
    long const before = calls(all, "cluster|slots");
    auto const began = steady::now();
    co_await pause_for(3s);
    long const asked = calls(all, "cluster|slots") - before;
    auto const seconds = std::chrono::ceil<std::chrono::seconds>(steady::now() - began).count();
    EXPECT_LE(asked, seconds + 1);
    EXPECT_GE(asked, 1);
    EXPECT_TRUE(h.valid());
  };
  w.run(body);
}

/// 10,000 locks: those of two masters are renewed in time while the third is paused.
TEST(SlowCluster, A9AMasterThatStandsStillDelaysNoRenewalOfOthers) {
  cluster_set all{{.node_timeout = 30s}};
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = over(all);
    settings.lease = 9s;
    client c{w.ctx.get_executor(), settings};
    std::vector<hold> holds[3];
    constexpr std::size_t count = 10'000;
    std::size_t granted = 0;
    for (std::size_t i = 0; i < count; ++i) {
      std::string const name = "kept-" + std::to_string(i);
      std::size_t const at = (redis::slot_of_lock(name) * 3 + 2) / 16384;  // as cluster_set gives them out
      mutex{c, name}.async_acquire([&, at](error_code ec, hold h) {
        EXPECT_FALSE(ec) << ec.message();
        holds[at].push_back(std::move(h));
        ++granted;
      });
      auto const most = [&] { return granted + 500 > i; };
      co_await until(most, "the holds");
    }
    auto const everything = [&] { return granted == count; };
    co_await until(everything, "all holds");
    all.node(2).stop();
    duration least = duration::max();
    for (auto const end = steady::now() + 20s; steady::now() < end;) {
      time_point const now = clock::now();
      for (std::size_t at : {0u, 1u}) {
        for (hold const& h : holds[at]) least = std::min<duration>(least, h.deadline() - now);
      }
      co_await pause_for(50ms);
    }
    all.node(2).cont();
    std::printf("A9: %zu of %zu holds at masters that go on; the least left of a lease of 9 s: %.0f ms\n",
                holds[0].size() + holds[1].size(), count, std::chrono::duration<double, std::milli>(least).count());
    EXPECT_GT(least, settings.lease / 2);
    for (std::size_t at : {0u, 1u}) {
      for (hold const& h : holds[at]) EXPECT_TRUE(h.valid());
    }
  };
  w.run(body, 120s);
}

}  // namespace
}  // namespace conch::test
