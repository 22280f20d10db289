// Servers that answer nothing, and servers that may not write.
#include "integration/fixture.hpp"
#include "support/zookeeper_client.hpp"
#include "support/zookeeper_ensemble.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>

namespace conch::test {
namespace {

// B9. A client that looks up names or closes as libzookeeper does would block for a second and a half.
TEST(ZookeeperTraps, AServerThatStandsStillStopsNoOtherHandler) {
  zookeeper_ensemble server;
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config const c = quick(server.url(), 4s);
    auto holder = std::make_unique<client>(w.ctx.get_executor(), c);
    mutex lock{*holder, "lock"};
    hold h = co_await lock.async_acquire();
    std::chrono::nanoseconds longest{0};
    bool done = false;
    asio::steady_timer timer{w.ctx};
    auto last = steady::now();
    auto const tick = [&](auto const& again) -> void {
      timer.expires_after(1ms);
      timer.async_wait([&](error_code) {
        auto const now = steady::now();
        longest = std::max<std::chrono::nanoseconds>(longest, now - last);
        last = now;
        if (!done) again(again);
      });
    };
    tick(tick);
    server.stop(0);
    client late{w.ctx.get_executor(), c};  // connects to a server that takes the connection, and says nothing
    mutex other{late, "other"};
    error_code why;
    bool answered = false;
    other.async_acquire([&](error_code ec, hold) { why = ec, answered = true; });
    h.async_release(asio::detached);
    co_await pause_for(300ms);
    (void)co_await holder->async_close(1s, as_tuple);
    holder.reset();
    (void)co_await late.async_close(1s, as_tuple);
    auto const over = [&] { return answered; };
    co_await until(over, "the end of the acquire", 60s);
    EXPECT_TRUE(why);
    done = true;
    EXPECT_LT(longest, 1s);
    server.cont(0);
  };
  w.run(body, 100s);
}

// B11. A server that is cut off from the others may go on for clients that want to read only.
TEST(ZookeeperTraps, AServerThatMayNotWriteIsNotUsed) {
  zookeeper_options options;
  options.servers = 3;
  options.java = {"-Dreadonlymode.enabled=true"};
  zookeeper_ensemble ensemble{options};
  std::size_t const alone = ensemble.leader();
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config c = quick(ensemble.url_of(alone), 4s);
    c.offline_timeout = 60s;
    for (std::size_t i = 0; i < 3; ++i) {
      if (i != alone) ensemble.kill(i);
    }
    auto const reads = [&] { return ensemble.role(alone) == "read-only"; };
    co_await until(reads, "a server that may not write", 60s);
    client one{w.ctx.get_executor(), c};
    mutex lock{one, "lock"};
    std::optional<error_code> why;
    hold got;
    lock.async_acquire([&](error_code ec, hold h) { why = ec, got = std::move(h); });
    auto const tried = [&] {
      return ensemble.log(alone).find("Refusing session request for not-read-only client") != std::string::npos;
    };
    co_await until(tried, "a refusal by that server", 60s);
    EXPECT_FALSE(why);
    EXPECT_EQ(one.stats().connects, 0u);
    ensemble.start_all();
    auto const granted = [&] { return why.has_value(); };
    co_await until(granted, "the lock from a server that writes", 60s);
    EXPECT_FALSE(*why) << why->message();
    EXPECT_TRUE(got.valid());
    co_await got.async_release();
  };
  w.run(body, 200s);
}

// One of three is paused: the one of the connection, and then the one that is tried first when the connection ends.
TEST(ZookeeperTraps, OneSilentServerOfThreeCostsNoHoldWithALeaseOfTenSeconds) {
  zookeeper_options options;
  options.servers = 3;
  options.tick = 500ms;
  zookeeper_ensemble ensemble{options};
  std::array<tcp_proxy, 3> ways{tcp_proxy{ensemble.port(0)}, tcp_proxy{ensemble.port(1)}, tcp_proxy{ensemble.port(2)}};
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    config c = steady_config("zookeeper://");
    for (tcp_proxy const& one : ways)
      c.url += (c.url.ends_with('/') ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(one.port());
    c.lease = 10s;
    std::string at;  // the server of the connection
    c.log = [&at](log_level, std::string_view words) {
      if (words.starts_with("connected to ")) at = words.substr(words.rfind(':') + 1);
    };
    client one{w.ctx.get_executor(), c};
    mutex m{one, "kept"};
    hold h = co_await m.async_acquire();
    bool is_lost = false;
    h.async_lost([&](error_code ec) { is_lost = ec != asio::error::operation_aborted; });
    tcp_proxy* silent = nullptr;
    for (tcp_proxy& way : ways) {
      if (std::to_string(way.port()) == at) silent = &way;
    }
    EXPECT_NE(silent, nullptr) << at;
    if (silent == nullptr) co_return;
    co_await pause_for(4s);  // any moment of the heartbeat
    silent->stall();
    time_point const froze = clock::now();
    auto const is_renewed = [&] { return is_lost || h.deadline() > froze + c.lease; };
    co_await until(is_renewed, "a renewal at another server", 30s);
    EXPECT_FALSE(is_lost);
    EXPECT_TRUE(h.valid());
    EXPECT_EQ(one.stats().connects, 2u);
    for (tcp_proxy& way : ways) {
      if (&way != silent) way.reset();
    }
    time_point const cut = clock::now();
    auto const is_renewed_again = [&] { return is_lost || h.deadline() > cut + c.lease; };
    co_await until(is_renewed_again, "a renewal behind the reset", 30s);
    EXPECT_FALSE(is_lost);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body, 120s);
}

/// A client with these settings asks once, for a lock of that name.
error_code asked(config c, std::string const& name = "asked") {
  world w;
  error_code why;
  auto const body = [&]() -> asio::awaitable<void> {
    c.offline_timeout = 5s;
    client one{w.ctx.get_executor(), c};
    mutex m{one, name};
    auto const r = co_await m.async_acquire(as_tuple);
    why = std::get<0>(r);
  };
  w.run(body, 100s);
  return why;
}

TEST(ZookeeperRefusedBy, AServerWithATickOfASecondNothingWithDefaultSettings) {
  zookeeper_options options;
  options.tick = 1s;
  options.shortest_session = 2s;
  options.longest_session = 20s;
  zookeeper_ensemble server{options};
  error_code const why = asked(steady_config(server.url()));
  EXPECT_FALSE(why) << why.message();
}

TEST(ZookeeperRefusedBy, AServerWithShortSessionsEverythingWithTheSettingToChange) {
  zookeeper_options options;
  options.longest_session = 4s;
  zookeeper_ensemble server{options};
  error_code const why = asked(steady_config(server.url()));
  EXPECT_EQ(why, errc::invalid_config);
  EXPECT_NE(why.message().find("maxSessionTimeout"), std::string::npos) << why.message();
  config c = steady_config(server.url());
  c.zookeeper.session_margin = 1s;
  EXPECT_FALSE(asked(c));
}

TEST(ZookeeperRefusedBy, AServerThatDemandsSaslIsNamedAtOnce) {
  zookeeper_options options;
  options.java = {"-Dzookeeper.sessionRequireClientSASLAuth=true",
                  "-Dzookeeper.authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"};
  zookeeper_ensemble server{options};
  for (std::string const user : {"", "user:word@"}) {
    error_code const why = asked(steady_config("zookeeper://" + user + server.url().substr(12)));
    EXPECT_EQ(why, errc::access_denied) << why.message();
    EXPECT_NE(why.message().find("SASL"), std::string::npos) << why.message();
    EXPECT_EQ(why.message().find("user:word"), std::string::npos) << why.message();
  }
}

TEST(ZookeeperRefusedBy, AQuotaEndsOnlyTheLockThatNeedsAFolder) {
  zookeeper_options options;
  options.java = {"-Dzookeeper.enforceQuota=true"};
  zookeeper_ensemble server{options};
  world w;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), steady_config(server.url() + "/q")};
    mutex held{one, "held"}, refused{one, "refused"};
    hold h = co_await held.async_acquire();
    zookeeper_client admin{server.port(0), 30s};
    admin.create("/zookeeper/quota/q");
    admin.create("/zookeeper/quota/q/zookeeper_stats", zookeeper::node_kind::persistent,
                 "count=6,bytes=-1;byteHardLimit=-1;countHardLimit=-1");
    admin.create("/zookeeper/quota/q/zookeeper_limits", zookeeper::node_kind::persistent,
                 "count=-1,bytes=-1;byteHardLimit=-1;countHardLimit=6");
    auto const r = co_await refused.async_acquire(as_tuple);
    error_code const why = std::get<0>(r);
    EXPECT_EQ(why, errc::server_refused) << why.message();
    EXPECT_NE(why.message().find("setquota"), std::string::npos) << why.message();
    EXPECT_NE(why.message().find("lock \"refused\""), std::string::npos) << why.message();
    EXPECT_TRUE(h.valid());
    EXPECT_EQ(one.stats().connects, 1u);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body, 100s);
}

TEST(ZookeeperRefusedBy, AUserARootThatAnybodyMayChange) {
  zookeeper_ensemble server;
  zookeeper_client admin{server.port(0), 30s};
  admin.create("/open");
  admin.create("/open/conch");
  std::string const with_user = "zookeeper://user:word@" + server.url().substr(12);
  error_code const why = asked(steady_config(with_user + "/open"));
  EXPECT_EQ(why, errc::access_denied) << why.message();
  EXPECT_NE(why.message().find("setAcl /open/conch"), std::string::npos) << why.message();
  error_code const made_by_itself = asked(steady_config(with_user + "/own"));
  EXPECT_FALSE(made_by_itself) << made_by_itself.message();
  EXPECT_FALSE(asked(steady_config(with_user + "/own"))) << "and once more";
}

}  // namespace
}  // namespace conch::test
