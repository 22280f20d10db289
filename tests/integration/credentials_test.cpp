// Credentials of a provider: asked for before each connection and in time for the live one, and what is said when there
// are none.

#include "integration/fixture.hpp"
#include "support/tcp_proxy.hpp"

#include <atomic>
#include <thread>

namespace conch::test {
namespace {

/// A server whose user "app" has these passwords.
class Credentials : public testing::Test {
 protected:
  Credentials() { probe.command({"ACL", "SETUSER", "app", "on", ">first", "~*", "&*", "+@all"}); }

  config asking(std::function<credentials()> const& answer) {
    config c = quick(server.url());
    c.credentials_provider = [this, answer](std::string const& of, credentials_handler const& done) {
      ++asked;
      server_named = of;
      done({}, answer());
    };
    c.log = log.hook();
    return c;
  }
  config asking(std::string const& password) {
    return asking([password] { return credentials{.user = "app", .password = password}; });
  }

  struct result {
    error_code ec;
    std::string words() const { return ec.message(); }
  };
  result acquire_once(config const& c) {
    result r;
    auto const body = [&]() -> asio::awaitable<void> {
      client one{w.ctx.get_executor(), c};
      mutex m{one, "m"};
      auto got = co_await m.async_acquire(as_tuple);
      r.ec = std::get<0>(got);
    };
    w.run(body);
    return r;
  }

  redis_server server{{.tcp = true, .arguments = {"--requirepass", "of the default user"}}};
  redis_probe probe = [this] {
    redis_probe p{server};
    p.command({"AUTH", "of the default user"});
    return p;
  }();
  world w;
  journal log;
  int asked = 0;
  std::string server_named;
};

TEST_F(Credentials, OfAProviderAreUsed) {
  EXPECT_FALSE(acquire_once(asking("first")).ec);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(server_named, server.url());
  config const c = asking([] { return credentials{.password = "of the default user"}; });
  EXPECT_FALSE(acquire_once(c).ec) << "no name: the default user";
}

TEST_F(Credentials, CanComeLaterFromAnotherThread) {
  config c = quick(server.url());
  c.single_threaded = false;
  std::thread store;
  c.credentials_provider = [&](std::string const&, credentials_handler done) {
    store = std::thread{[done = std::move(done)] {
      std::this_thread::sleep_for(20ms);
      done({}, {.user = "app", .password = "first"});
      done({}, {.user = "app", .password = "a second call is ignored"});
    }};
  };
  EXPECT_FALSE(acquire_once(c).ec);
  store.join();
}

TEST_F(Credentials, CanComeFromACoroutine) {
  config c = quick(server.url());
  c.credentials_provider = [this](std::string const&, credentials_handler done) {
    asio::co_spawn(
        w.ctx,
        [](credentials_handler answer) -> asio::awaitable<void> {
          co_await pause_for(10ms);
          credentials found;
          found.user = "app";
          found.password = "first";
          answer({}, found);
        }(std::move(done)),
        asio::detached);
  };
  EXPECT_FALSE(acquire_once(c).ec);
}

TEST_F(Credentials, ThatAreWrongAreAccessDeniedAtOnce) {
  config c = asking("mistaken");  // not a part of WRONGPASS, which would be hidden with it
  c.offline_timeout = 20s;
  result const r = acquire_once(c);
  EXPECT_EQ(r.ec, errc::access_denied);
  EXPECT_NE(r.words().find("WRONGPASS"), std::string::npos) << r.words();
}

TEST_F(Credentials, ThatCannotBeHadAreUnreachableWithTheReason) {
  config c = quick(server.url());
  c.offline_timeout = 200ms;
  c.credentials_provider = [](std::string const&, credentials_handler const& done) {
    done(asio::error::host_not_found, {});
  };
  result r = acquire_once(c);
  EXPECT_EQ(r.ec, errc::unreachable);
  EXPECT_NE(r.words().find("credentials_provider: Host not found"), std::string::npos) << r.words();
  c.credentials_provider = [](std::string const&, credentials_handler const&) {
    throw std::runtime_error{"the vault is sealed"};
  };
  r = acquire_once(c);
  EXPECT_EQ(r.ec, errc::unreachable);
  EXPECT_NE(r.words().find("credentials_provider: the vault is sealed"), std::string::npos) << r.words();
  c.credentials_provider = [](std::string const&, credentials_handler const&) { throw 42; };
  r = acquire_once(c);
  EXPECT_EQ(r.ec, errc::unreachable);
  EXPECT_NE(r.words().find("credentials_provider: it threw"), std::string::npos) << r.words();
  c.connect_timeout = 50ms;
  c.credentials_provider = [](std::string const&, credentials_handler const&) {};
  r = acquire_once(c);
  EXPECT_EQ(r.ec, errc::unreachable);
  EXPECT_NE(r.words().find("credentials_provider: no answer within connect_timeout"), std::string::npos) << r.words();
}

TEST_F(Credentials, MayComeWhenTheClientOrItsContextIsGone) {
  credentials_handler kept;
  {
    asio::io_context ctx;
    config c = quick(server.url());
    c.single_threaded = false;
    c.credentials_provider = [&](std::string const&, credentials_handler done) { kept = std::move(done); };
    auto one = std::make_optional<client>(ctx.get_executor(), c);
    std::optional<mutex> m{std::in_place, *one, "m"};
    m->async_acquire([](error_code, hold) {});
    while (!kept) ctx.run_one_for(1s);
    credentials_handler const first = std::exchange(kept, {});
    one.reset();
    m.reset();
    ctx.restart();
    ctx.run_for(5s);
    EXPECT_TRUE(ctx.stopped()) << "a provider that never answers keeps nothing alive";
    first({}, {});
    one.emplace(ctx.get_executor(), c);
    m.emplace(*one, "m");
    m->async_acquire([](error_code, hold) {});
    ctx.restart();
    while (!kept) ctx.run_one_for(1s);
  }
  kept({}, {});
}

TEST_F(Credentials, AndAPasswordInTheUrlAreRefused) {
  config c = asking("first");
  c.url = "redis://:secret@127.0.0.1";
  std::string what;
  EXPECT_EQ(error_of([&] { client one(w.ctx.get_executor(), c); }, &what), errc::invalid_config);
  EXPECT_NE(what.find("credentials_provider"), std::string::npos) << what;
  EXPECT_EQ(what.find("secret"), std::string::npos) << what;
}

TEST_F(Credentials, D34ARotatedPasswordIsUsedByTheNextConnection) {
  std::string now = "first";
  tcp_proxy between{server.port()};
  config c = asking([&] { return credentials{.user = "app", .password = now}; });
  c.url = between.url();
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), c};
    mutex m{one, "m"};
    hold h = co_await m.async_acquire();
    now = "second";
    probe.command({"ACL", "SETUSER", "app", "<first", ">second"});
    EXPECT_TRUE(h.valid()) << "the server closes no connection for it";
    between.drop();
    auto const again = [&] { return asked == 2; };
    co_await until(again, "a second question");
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
  };
  w.run(body);
}

TEST_F(Credentials, D34AreRenewedOnTheLiveConnectionUnderLoad) {
  config const c = asking([] { return credentials{.user = "app", .password = "first", .refresh_after = 50ms}; });
  int acquired = 0;
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), c};
    mutex m{one, "m"};
    while (asked < 8) {
      auto got = co_await m.async_acquire(as_tuple);
      auto& [ec, h] = got;
      CO_ASSERT(!ec);
      bool const was_held = co_await h.async_release();
      EXPECT_TRUE(was_held);
      ++acquired;
    }
    EXPECT_EQ(one.stats().disconnects, 0u);
    EXPECT_GE(one.stats().reauthentications, 6u)
        << "the first question was for the greeting, the last may not be answered";
    EXPECT_EQ(one.stats().reauthentications_failed, 0u);
  };
  w.run(body);
  EXPECT_GT(acquired, 8);
  auto const calls = probe.commandstats();
  EXPECT_GE(calls.at("auth"), 7) << "and one of this test";
  EXPECT_FALSE(log.contains("cannot renew")) << *log.text;
}

TEST_F(Credentials, D34ARefusedRenewalIsLoggedAndTriedAgainOnTheSameConnection) {
  std::string now = "first";
  config const c = asking([&] { return credentials{.user = "app", .password = now, .refresh_after = 50ms}; });
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), c};
    mutex m{one, "m"};
    hold h = co_await m.async_acquire();
    now = "too early";
    auto const refused = [&] { return log.contains("cannot renew the credentials: WRONGPASS"); };
    co_await until(refused, "a line in the log");
    EXPECT_TRUE(h.valid());
    now = "first";
    int const before = asked;
    auto const more = [&] { return asked >= before + 3; };
    co_await until(more, "renewals");
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    EXPECT_EQ(one.stats().disconnects, 0u);
    EXPECT_GE(one.stats().reauthentications_failed, 1u);
    std::string const text = to_prometheus(one.stats());
    EXPECT_EQ(text.find("conch_reauthentications_total{result=\"failed\"} 0\n"), std::string::npos) << text;
  };
  w.run(body);
}

TEST_F(Credentials, D35AreInNoWord) {
  config c = asking([] { return credentials{.user = "app", .password = "pw-4711", .refresh_after = 50ms}; });
  std::string said = acquire_once(c).words();
  probe.command({"ACL", "SETUSER", "app", ">pw-4711"});
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), c};
    mutex m{one, "m"};
    hold h = co_await m.async_acquire();
    probe.command({"ACL", "SETUSER", "app", "<pw-4711"});
    auto const refused = [&] { return log.contains("cannot renew"); };
    co_await until(refused, "a line in the log");
  };
  w.run(body);
  said += *log.text;
  EXPECT_NE(said.find("WRONGPASS"), std::string::npos) << said;
  EXPECT_EQ(said.find("4711"), std::string::npos) << said;
}

}  // namespace
}  // namespace conch::test
