// config::sync_replicas with what else a deployment may have: Sentinels, TLS, credentials that change.

#include "integration/replicas_fixture.hpp"
#include "integration/sentinel_fixture.hpp"
#include "integration/tls_fixture.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

namespace conch::test {
namespace {

/// With a lease that outlives a failover on a busy machine.
config through_sentinels(sentinel_set const& all, journal const& log) {
  config c;
  c.url = all.url();
  c.single_threaded = true;
  c.client_name = "locks";
  c.lease = 120s;
  c.renew_every = 500ms;
  c.sync_replicas = all.servers() - 1;
  c.offline_timeout = 60s;
  c.log = log.hook();
  return c;
}

/// The server, which is a replica, has the lock as that client's.
bool has(redis_server& at, std::string const& name, client const& of) {
  redis_probe probe{at, 10s};
  return probe.command({"GET", lock_key(name)}).starts_with(of.id());
}

TEST(SyncReplicasWithSentinels, BothConnectionsFollowTheMasterAndNoHoldIsLost) {
  sentinel_set all;
  world w;
  journal log;
  auto const body = [&]() -> asio::awaitable<void> {
    config const settings = through_sentinels(all, log);
    client holds{w.ctx.get_executor(), settings}, waits{w.ctx.get_executor(), settings};
    mutex a{holds, "kept"}, b{waits, "kept"};
    hold first = co_await a.async_acquire();
    for (std::size_t i = 1; i < all.servers(); ++i) EXPECT_TRUE(has(all.server(i), "kept", holds));
    hold second;
    b.async_acquire([&](error_code ec, hold h) {
      EXPECT_FALSE(ec) << ec.message();
      second = std::move(h);
    });
    redis_probe at_old{all.server(0), 10s};
    auto const in_line_there = [&] { return in_line(at_old, "kept") == 1; };
    co_await until(in_line_there, "the waiter in line", 60s);
    auto const all_there = [&] { return connections(all.server(0), "locks") == 4; };
    co_await until(all_there, "two connections of each client", 60s);

    all.fail_over();
    auto const moved = [&] { return connections(all.server(0), "locks") == 0 && all.master() != 0; };
    co_await until(moved, "nobody at the old master", 90s);
    std::size_t const master = all.master();
    auto const here = [&] { return connections(all.server(master), "locks") == 4; };
    co_await until(here, "both connections of each at the new master", 60s);
    time_point const before = first.deadline();
    auto const renewed = [&] { return first.deadline() > before; };
    co_await until(renewed, "a renewal that all replicas of the new master have", 90s);
    EXPECT_TRUE(first.valid());
    EXPECT_EQ(holds.stats().losses, 0u);
    EXPECT_EQ(holds.stats().master_switches, 1u);
    std::int64_t const fence = first.fence();
    bool const was_held = co_await first.async_release();
    EXPECT_TRUE(was_held);
    auto const served = [&] { return second.valid(); };
    co_await until(served, "the grant of the waiter", 60s);
    EXPECT_GT(second.fence(), fence);
    for (std::size_t i = 0; i < all.servers(); ++i)
      EXPECT_TRUE(has(all.server(i), "kept", waits)) << i << " lacks it, and the master is " << master;
  };
  w.run(body, 300s);
}

// D26: with all replicas, whichever takes over knows the hold; then one of them is missing until the old master is
// back.
TEST(SyncReplicasWithSentinels, P1AMasterThatIsKilledTakesNoDeliveredHoldWithIt) {
  sentinel_set all{{.down_after = 1s}};
  world w;
  journal log;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = through_sentinels(all, log);
    client holds{w.ctx.get_executor(), settings};
    settings.sync_replicas = 1;  // the failover leaves no more
    client asks{w.ctx.get_executor(), settings};
    std::vector<hold> held;
    for (int i = 0; i < 20; ++i) {
      mutex m{holds, "kept" + std::to_string(i)};
      held.push_back(co_await m.async_acquire());
    }
    all.server(0).kill();
    for (int i = 0; i < 20; ++i) {
      mutex m{asks, "kept" + std::to_string(i)};
      hold const other = co_await m.async_try_acquire();
      EXPECT_FALSE(other) << "the new master does not know lock " << i;
    }
    mutex free{asks, "free"};
    hold const mine = co_await free.async_acquire({.wait = 60s});
    EXPECT_TRUE(mine.valid());
    mutex too_many{holds, "too many"};
    auto refused = co_await too_many.async_try_acquire(as_tuple);
    EXPECT_EQ(std::get<0>(refused), errc::not_replicated) << std::get<0>(refused).message();
    // None is renewed while one of two replicas is away.
    std::vector<time_point> before;
    for (hold const& h : held) {
      EXPECT_TRUE(h.valid());
      before.push_back(h.deadline());
    }
    all.server(0).restart(false);
    auto const renewed = [&] {
      std::size_t i = 0;
      return std::all_of(held.begin(), held.end(), [&](hold const& h) { return h.deadline() > before[i++]; });
    };
    co_await until(renewed, "renewals that both replicas have", 90s);
    EXPECT_EQ(holds.stats().losses, 0u);
    for (hold& h : held) {
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
    }
  };
  w.run(body, 300s);
}

#if CONCH_TLS

TEST(SyncReplicasOverTls, BothConnectionsAreAndTheReplicasToo) {
  tls_files const files;
  replicated_server servers{1, with(files.options(), {"--tls-replication", "yes"})};
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = synced(servers.url(), 1, 60s);
    settings.tls.ca_file = files.certificate("ca");
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "tls"};
    hold h = co_await m.async_acquire();
    EXPECT_TRUE(has(servers.replica(0), "tls", c));
    EXPECT_GE(c.stats().tls_handshakes, 2u);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body, 120s);
}

#endif  // CONCH_TLS

/// A server whose user "app" has the password "first", with a replica.
class SyncReplicasAndCredentials : public testing::Test {
 protected:
  SyncReplicasAndCredentials() { probe.command({"ACL", "SETUSER", "app", "on", ">first", "~*", "&*", "+@all"}); }

  config asking(std::chrono::milliseconds refresh_after) {
    config c = synced(servers.url(), 1, 60s);
    c.client_name = "locks";
    c.credentials_provider = [this, refresh_after](std::string const&, credentials_handler const& done) {
      ++asked;
      done({}, {.user = "app", .password = password, .refresh_after = refresh_after});
    };
    c.log = log.hook();
    return c;
  }

  /// Connections whose last command was this one.
  std::size_t have_said(std::string const& command) {
    std::istringstream lines{probe.command({"CLIENT", "LIST"})};
    std::size_t n = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.find(" name=locks ") != std::string::npos && line.find(" cmd=" + command + " ") != std::string::npos)
        ++n;
    }
    return n;
  }

  replicated_server servers{1};
  redis_probe probe{servers.master(), 10s};
  world w;
  journal log;
  std::string password = "first";
  int asked = 0;
};

TEST_F(SyncReplicasAndCredentials, EachOfTheTwoConnectionsRenewsThem) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), asking(200ms)};  // nothing else is said: the lease is long
    mutex m{c, "m"};
    hold h = co_await m.async_acquire();
    auto const both = [&] { return have_said("auth") == 2; };
    co_await until(both, "AUTH as the last word on both connections", 60s);
    EXPECT_TRUE(h.valid());
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body, 120s);
}

TEST_F(SyncReplicasAndCredentials, TheyAreRenewedUnderLoadAndNothingIsLost) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), asking(50ms)};
    mutex m{c, "m"};
    while (c.stats().reauthentications < 10) {
      hold h = co_await m.async_acquire();
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
    }
    EXPECT_EQ(c.stats().reauthentications_failed, 0u);
    EXPECT_EQ(c.stats().disconnects, 0u);
  };
  w.run(body, 120s);
  EXPECT_FALSE(log.contains("cannot renew")) << *log.text;
}

// D34
TEST_F(SyncReplicasAndCredentials, ARotatedPasswordIsUsedByTheNextConnections) {
  auto const body = [&]() -> asio::awaitable<void> {
    config settings = asking(60s);
    settings.renew_every = 100ms;
    client c{w.ctx.get_executor(), settings};
    mutex m{c, "m"};
    hold h = co_await m.async_acquire();
    password = "second";
    probe.command({"ACL", "SETUSER", "app", "<first", ">second"});
    int const before = asked;
    EXPECT_EQ(probe.integer({"CLIENT", "KILL", "USER", "app"}), 2);
    auto const both = [&] { return asked >= before + 2; };
    co_await until(both, "both connections with the new password", 60s);
    time_point const present = h.deadline();
    auto const renewed = [&] { return h.deadline() > present; };
    co_await until(renewed, "a renewal that the replica has", 60s);
    EXPECT_EQ(c.stats().losses, 0u);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body, 180s);
}

}  // namespace
}  // namespace conch::test
