// Transactions whose numbers do not simply go on: an ensemble that is built anew, and one that has used up the numbers
// of an epoch.
#include "integration/fixture.hpp"
#include "servers/zookeeper/names.hpp"
#include "support/zookeeper_client.hpp"
#include "support/zookeeper_ensemble.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace conch::test {
namespace {

std::string folder_of(std::string const& lock) { return zookeeper::folder_of(zookeeper::root_of("", "conch:"), lock); }

/// The settings of a client that waits until servers are back.
config patient(zookeeper_ensemble const& with, std::chrono::milliseconds lease) {
  config c = quick(with.url(), lease);
  c.connect_timeout = 5s;
  c.offline_timeout = 60s;
  c.reconnect_max = 100ms;
  return c;
}

// -------------------------------------------------------------------------------------------------- built anew

/// All servers lose their data, and come back under their addresses with transactions that begin anew. Programs go on
/// running meanwhile.
void build_anew(std::size_t servers) {
  zookeeper_options options;
  options.servers = servers;
  zookeeper_ensemble ensemble{options};
  {
    zookeeper_client bare{ensemble.port(0), 30s};
    bare.create("/much");
    for (int i = 0; i < 300; ++i) bare.write("/much", {});  // more than the new one will have had for a while
  }
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config const c = patient(ensemble, 3s);
    client stays{w.ctx.get_executor(), c};
    mutex lock{stays, "lock"}, other{stays, "another"};
    hold h = co_await lock.async_acquire();
    std::int64_t const before = h.fence();
    error_code told;
    h.async_lost([&](error_code ec) { told = ec; });

    for (std::size_t i = 0; i < servers; ++i) ensemble.kill(i);
    for (std::size_t i = 0; i < servers; ++i) ensemble.lose_data(i);
    ensemble.start_all();

    auto const lost = [&] { return told == errc::lost; };
    co_await until(lost, "the loss of the hold, whose node is gone", 60s);
    hold again = co_await lock.async_acquire();
    EXPECT_GT(again.fence(), before);
    hold unrelated = co_await other.async_acquire();
    EXPECT_GT(unrelated.fence(), before);
    std::int64_t const of_stays = again.fence();
    co_await again.async_release();
    client comes{w.ctx.get_executor(), c};
    mutex same{comes, "lock"};
    hold next = co_await same.async_acquire();
    EXPECT_GT(next.fence(), of_stays);
    co_await next.async_release();
    co_await unrelated.async_release();
  };
  w.run(body, 200s);
}

TEST(ZookeeperTransactions, P2TokensGrowWhenAServerIsBuiltAnew) { build_anew(1); }
TEST(ZookeeperTransactions, P2TokensGrowWhenAnEnsembleIsBuiltAnew) { build_anew(3); }

// ------------------------------------------------------------------------------------ the end of the numbers of an
// epoch

/// A leader that has used up its 2^32 transactions gives the lead up, and the next epoch begins. Here each leader
/// begins shortly before that.
TEST(ZookeeperTransactions, P2AndP5HoldsPlacesAndTokensGoOnWhenTheNumbersOfAnEpochAreUsedUp) {
  zookeeper_options options;
  options.servers = 3;
  options.settings = {"testingonly.initialZxid=" + std::to_string(0xffffffffU - 150U)};
  zookeeper_ensemble ensemble{options};
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config const c = patient(ensemble, 30s);
    client holder{w.ctx.get_executor(), c}, waiter{w.ctx.get_executor(), c}, busy{w.ctx.get_executor(), c},
        rival{w.ctx.get_executor(), c};
    mutex held{holder, "held"}, behind{waiter, "held"}, one{busy, "passed on"}, two{rival, "passed on"};
    hold h = co_await held.async_acquire();
    bool lost = false;
    h.async_lost([&](error_code ec) { lost = ec == errc::lost; });
    hold next;
    behind.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    // The server that is asked may be electing a leader.
    auto const line = [&]() -> std::vector<std::string> {
      try {
        zookeeper_client looking{ensemble.port(ensemble.leader()), 30s};
        auto const all = looking.list(folder_of("held"));
        looking.ask(zookeeper::close_session{});
        return all;
      } catch (std::runtime_error const&) {
        return {};
      }
    };
    auto const both = [&] { return line().size() == 2; };
    co_await until(both, "both in line", 60s);
    auto const before = line();

    auto const epoch = [](hold const& of) { return of.fence() >> 32; };
    std::int64_t last = h.fence();
    int turns = 0, epochs = 0;
    for (auto const end = steady::now() + 120s; epochs < 3 && steady::now() < end; ++turns) {
      hold got = co_await (turns % 2 == 0 ? one : two).async_acquire();
      EXPECT_GT(got.fence(), last) << "turn " << turns;
      if (epoch(got) != last >> 32 && got.fence() - last > 0xffffff00) ++epochs;
      last = got.fence();
      if (got.valid()) (void)co_await got.async_release(as_tuple);
    }
    EXPECT_GE(epochs, 3) << turns << " turns";
    EXPECT_FALSE(lost);
    EXPECT_TRUE(h.valid());
    EXPECT_FALSE(next);
    auto const seen = [&] { return !line().empty(); };
    co_await until(seen, "a leader", 60s);
    EXPECT_EQ(line(), before) << "the same nodes";
    co_await h.async_release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the next in line", 60s);
    EXPECT_GT(next.fence(), h.fence());
    co_await next.async_release();
    testing::Test::RecordProperty("turns", turns);
  };
  w.run(body, 280s);
}

}  // namespace
}  // namespace conch::test
