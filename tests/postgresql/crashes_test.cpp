// Clients that hand a lock on while their server crashes, again and again.

#include "integration/fixture.hpp"
#include "support/postgresql_server.hpp"

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>

namespace conch::test {
namespace {

class SlowPostgresqlCrashes : public testing::TestWithParam<bool> {
 protected:
  /// A process of the server that serves clients: all others end with it, and come again. Or the first one, which
  /// nobody starts again.
  void crash() {
    if (GetParam()) {
      server.end(SIGKILL);
      server.start();
      return;
    }
    // One of those that hold, wait or hand on, which are all connected.
    std::string const process =
        postgresql_probe{server}.ask("select pid from pg_stat_activity where application_name = 'conch' limit 1");
    ASSERT_NE(process, "");
    ::kill(static_cast<pid_t>(std::stol(process)), SIGKILL);
  }

  postgresql_server server;
  world w;
};

/// CONCH_CRASHES: how many of each kind.
int wanted() {
  char const* const said = std::getenv("CONCH_CRASHES");
  return said != nullptr ? std::atoi(said) : 10;
}

struct contender {
  std::unique_ptr<client> connected;
  std::optional<mutex> lock;
  hold mine;
};

TEST_P(SlowPostgresqlCrashes, P1P2NoGrantWithinTheLastValidHoldAndTokensGrow) {
  config c;
  c.url = server.url();
  c.lease = 2s;
  c.command_timeout = 600ms;
  c.offline_timeout = 60s;
  c.reconnect_min = 5ms;
  c.reconnect_max = 100ms;
  std::vector<contender> all(4);
  std::int64_t last = 0;
  int grants = 0, kept = 0, done = 0;
  bool stops = false;
  auto const compete = [&](contender& me) -> asio::awaitable<void> {
    while (!stops) {
      auto r = co_await me.lock->async_acquire({.wait = 60s}, as_tuple);
      auto& [ec, got] = r;
      if (ec) {
        EXPECT_TRUE(stops) << ec.message();
        break;
      }
      for (contender const& other : all) EXPECT_FALSE(other.mine.valid()) << "two valid holds";
      EXPECT_GT(got.fence(), last);
      last = got.fence();
      ++grants;
      me.mine = std::move(got);
      co_await pause_for(std::chrono::milliseconds{5 + grants % 40});
      if (me.mine.valid()) ++kept;
      co_await me.mine.async_release(as_tuple);
    }
    ++done;
  };
  auto const body = [&]() -> asio::awaitable<void> {
    for (contender& one : all) {
      one.connected = std::make_unique<client>(w.ctx.get_executor(), c);
      one.lock.emplace(*one.connected, "crash");
      asio::co_spawn(w.ctx, compete(one), asio::detached);
    }
    for (int round = 0; round < wanted(); ++round) {
      int const before = grants;
      auto const goes_on = [&] { return grants >= before + 10; };
      co_await until(goes_on, "grants after a crash", 120s);
      crash();
    }
    int const before = grants;
    auto const goes_on = [&] { return grants >= before + 10; };
    co_await until(goes_on, "grants after the last crash", 120s);
    stops = true;
    auto const ended = [&] { return done == static_cast<int>(all.size()); };
    co_await until(ended, "all", 120s);
    for (contender& one : all) one.mine = {};
  };
  w.run(body, 3600s);
  std::cout << wanted() << " crashes of " << (GetParam() ? "the first process" : "a process of a connection") << ": "
            << grants << " grants, of which " << grants - kept << " were lost while held; tokens up to " << last
            << '\n';
}

INSTANTIATE_TEST_SUITE_P(Of, SlowPostgresqlCrashes, testing::Bool(), [](testing::TestParamInfo<bool> const& of) {
  return of.param ? "TheFirstProcess" : "AProcessOfAConnection";
});

}  // namespace
}  // namespace conch::test
