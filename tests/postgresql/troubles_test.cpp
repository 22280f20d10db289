// What a PostgreSQL server, a role, a pool and an administrator can do to a client.

#include "integration/fake_names.hpp"
#include "integration/fixture.hpp"
#include "servers/postgresql/schema.hpp"
#include "support/certificates.hpp"
#include "support/postgresql_server.hpp"

#include <csignal>

namespace conch::test {
namespace {

class PostgresqlTroubles : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<postgresql_server>(postgresql_options{.tcp = true}); }
  static void TearDownTestSuite() { server_.reset(); }
  static postgresql_server& server() { return *server_; }

  static config settings(std::string url) {
    config c;
    c.url = std::move(url);
    c.reconnect_min = 5ms;
    c.reconnect_max = 100ms;
    return c;
  }

  /// The error of an acquire.
  error_code error_at(config c, std::string const& name) {
    error_code seen;
    auto const body = [&]() -> asio::awaitable<void> {
      client here{w.ctx.get_executor(), c};
      mutex m{here, name};
      auto r = co_await m.async_acquire({.wait = 20s}, as_tuple);
      seen = std::get<0>(r);
    };
    w.run(body, 60s);
    return seen;
  }

  postgresql_probe admin{server()};
  world w;

 private:
  static inline std::unique_ptr<postgresql_server> server_;
};

TEST_F(PostgresqlTroubles, AreReachedOverTcp) { EXPECT_FALSE(error_at(settings(server().url_over_tcp()), "tcp")); }

TEST_F(PostgresqlTroubles, ARowThatSomebodyHasLockedHarmsOneLock) {
  config c = settings(server().url());
  c.lease = 6s;
  postgresql_probe other{server()};
  auto const body = [&]() -> asio::awaitable<void> {
    client here{w.ctx.get_executor(), c};
    mutex good{here, "beside a locked row"}, bad{here, "locked row"};
    hold kept = co_await good.async_acquire();
    hold lost = co_await bad.async_acquire();
    other.ask("begin");
    other.ask("select 1 from conch.lock where key = " + bytes_literal("conch:{locked row}") + " for update");
    auto const why = co_await lost.async_lost(as_tuple);
    EXPECT_NE(std::get<0>(why).message().find("lock timeout"), std::string::npos) << std::get<0>(why).message();
    EXPECT_TRUE(kept.valid()) << "they are renewed together where nothing is in the way";
    lost = hold{};
    auto const r = co_await bad.async_acquire({.wait = 3s}, as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::timed_out) << std::get<0>(r).message();
    EXPECT_TRUE(kept.valid());
    EXPECT_EQ(here.stats().disconnects, 0u);
    other.ask("commit");
    hold again = co_await bad.async_acquire();
    EXPECT_TRUE(again.valid());
  };
  w.run(body, 60s);
}

TEST_F(PostgresqlTroubles, ARoleOrDatabaseThatIsNotThereIsAnErrorAtOnce) {
  error_code ec = error_at(settings(server().url("nobody_there")), "role");
  EXPECT_EQ(ec, errc::access_denied) << ec.message();
  EXPECT_NE(ec.message().find("nobody_there"), std::string::npos) << ec.message();
  ec = error_at(settings(server().url().replace(server().url().find("/postgres?"), 9, "/no_such")), "database");
  EXPECT_EQ(ec, errc::server_refused) << ec.message();
  EXPECT_NE(ec.message().find("no_such"), std::string::npos) << ec.message();
}

TEST_F(PostgresqlTroubles, AUrlThatLibpqDoesNotUnderstandIsRefusedWithoutItsPassword) {
  std::string what;
  error_code const ec = error_of([&] { client c(w.ctx.get_executor(), "postgresql://u:secret%zz@h/db"); }, &what);
  EXPECT_EQ(ec, errc::invalid_url);
  EXPECT_EQ(what.find("secret"), std::string::npos) << what;
  EXPECT_NE(what.find("hexadecimal"), std::string::npos) << what;
}

/// libpq's own choice is an open connection if the server, or a proxy in between, claims that it cannot do better.
TEST_F(PostgresqlTroubles, AUrlThatLeavesTheWayOpenIsWarnedOf) {
  auto const warned = [&](std::string url) {
    int count = 0;
    auto const body = [&]() -> asio::awaitable<void> {
      config c = settings(std::move(url));
      c.offline_timeout = 100ms;
      c.connect_timeout = 50ms;
      c.log = [&](log_level level, std::string_view words) {
        EXPECT_EQ(words.find("secret"), std::string_view::npos) << words;
        if (level == log_level::warning && words.find("sslmode=verify-full") != std::string_view::npos) ++count;
      };
      client here{w.ctx.get_executor(), c};
      mutex m{here, "open"};
      co_await m.async_acquire(as_tuple);
    };
    w.run(body, 60s);
    return count;
  };
  for (char const* open : {"postgresql://u:secret@192.0.2.1/d", "postgresql://u:secret@192.0.2.1/d?sslmode=prefer",
                           "postgresql://u@192.0.2.1/d?sslmode=allow", "postgresql://u@127.0.0.1,192.0.2.1/d",
                           "postgresql://u@192.0.2.1,127.0.0.1/d", "postgresql://u@localhost/d?hostaddr=192.0.2.1"}) {
    EXPECT_EQ(warned(open), 1) << open;
  }
  for (char const* said :
       {"postgresql://u:secret@192.0.2.1/d?sslmode=verify-full", "postgresql://u@192.0.2.1/d?sslmode=disable",
        "postgresql://u@192.0.2.1/d?sslmode=require", "postgresql://u:secret@127.0.0.1/d", "postgresql://u@localhost/d",
        "postgresql://u@[::1]/d", "postgresql:///d?host=/nowhere", "postgresql://db.far/d?hostaddr=127.0.0.1"}) {
    EXPECT_EQ(warned(said), 0) << said;
  }
  EXPECT_EQ(warned(server().url()), 0);
}

TEST_F(PostgresqlTroubles, WhatThisKindOfServerCannotDoIsSaid) {
  config c = settings(server().url());
  c.sync_replicas = 1;
  EXPECT_EQ(error_of([&] { client(w.ctx.get_executor(), c); }), errc::not_supported);
  c = settings(server().url());
  c.credentials_provider = [](std::string_view, auto) {};
  EXPECT_EQ(error_of([&] { client(w.ctx.get_executor(), c); }), errc::not_supported);
  c = {};
  c.quorum.servers = {server().url(), "redis://localhost:1", "redis://localhost:2"};
  EXPECT_EQ(error_of([&] { client(w.ctx.get_executor(), c); }), errc::invalid_config);
  auto const body = [&]() -> asio::awaitable<void> {
    client here{w.ctx.get_executor(), server().url()};
    mutex m{here, "guarded"};
    hold h = co_await m.async_acquire();
    EXPECT_EQ(error_of([&] { static_cast<void>(h.guard()); }), errc::not_supported);
  };
  w.run(body);
}

TEST_F(PostgresqlTroubles, ARoleThatMayNotMakeTheSchemaIsToldWhoMay) {
  admin.ask("create database fresh");
  admin.ask("create role plain login; revoke create on database fresh from public");
  std::string const url =
      "postgresql://plain@/fresh?host=" + server().directory().string() + "&port=" + std::to_string(server().port());
  error_code const ec = error_at(settings(url), "schema");
  EXPECT_EQ(ec, errc::access_denied) << ec.message();
  EXPECT_NE(ec.message().find("postgresql.sql"), std::string::npos) << ec.message();
}

/// The administrator has run the script, and has granted what its beginning says.
TEST_F(PostgresqlTroubles, ARoleWithTheRightsOfTheScriptsBeginningNeedsNoMore) {
  EXPECT_FALSE(error_at(settings(server().url()), "makes the schema"));
  admin.ask("create role app login");
  error_code ec = error_at(settings(server().url("app")), "rights");
  EXPECT_EQ(ec, errc::access_denied) << ec.message();
  admin.ask(
      "grant usage on schema conch to app; grant select, insert, update, delete on all tables in schema conch to app");
  ec = error_at(settings(server().url("app")), "rights");
  EXPECT_FALSE(ec) << ec.message();
}

/// A new program comes to a database where others have locks in the schema of an earlier version. Their functions are
/// replaced under them.
TEST_F(PostgresqlTroubles, AnOlderSchemaIsMadeNewerWhileOthersUseItAndTheirLocksStay) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), settings(server().url())}, two{w.ctx.get_executor(), settings(server().url())};
    mutex a{one, "older"}, b{two, "older"};
    hold h = co_await a.async_acquire();
    hold next;
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    std::string const line = "select count(*) from conch.line where key = " + bytes_literal("conch:{older}");
    auto const waits = [&] { return admin.number(line) == 1; };
    co_await until(waits, "in line");
    admin.ask(
        "create or replace function conch.version() returns integer language sql immutable as 'select 0'; drop "
        "function conch.ask(bytea, boolean, "
        "bigint, text), "
        "conch.asked");
    client three{w.ctx.get_executor(), settings(server().url())};
    mutex other{three, "newer"};
    hold now = co_await other.async_acquire();
    EXPECT_TRUE(now.valid());
    EXPECT_EQ(admin.number("select conch.version()"), postgresql::schema_version);
    mutex seen{three, "older"};
    auto const asked = co_await seen.async_request_release(asio::use_awaitable);
    EXPECT_EQ(asked, 1u);
    EXPECT_TRUE(h.valid());
    auto const fence = h.fence();
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the next");
    EXPECT_GT(next.fence(), fence);
    EXPECT_EQ(one.stats().connects, 1u);
    EXPECT_EQ(two.stats().connects, 1u);
  };
  w.run(body, 60s);
}

TEST_F(PostgresqlTroubles, ASchemaOfAnotherVersionIsUsedIfItIsNewerAndAnAdministratorsIfItIsOlder) {
  EXPECT_FALSE(error_at(settings(server().url()), "makes the schema"));
  admin.ask(
      "create role reader login; grant usage on schema conch to reader;"
      "grant select, insert, update, delete on all tables in schema conch to reader");
  auto const is_version = [&](int n) {
    admin.ask("create or replace function conch.version() returns integer language sql immutable as 'select " +
              std::to_string(n) + "'");
  };
  is_version(0);
  error_code ec = error_at(settings(server().url("reader")), "older");
  EXPECT_EQ(ec, errc::access_denied) << ec.message();
  EXPECT_NE(ec.message().find("postgresql.sql"), std::string::npos) << ec.message();
  is_version(1000);
  ec = error_at(settings(server().url("reader")), "newer");
  EXPECT_FALSE(ec) << ec.message();
  EXPECT_EQ(admin.number("select conch.version()"), 1000) << "an older program does not make it older";
  is_version(postgresql::schema_version);
}

// The name of the connected one of several hosts means another server now. What becomes of the other names does not
// matter.
TEST_F(PostgresqlTroubles, ANameThatMovesIsFollowedThoughAnotherNameOfTheUrlIsNotFound) {
  for (bool const hangs : {false, true}) {
    fake_names names;
    std::string const port = std::to_string(server().port());
    names.mean("moving.test", {"127.0.0.1"});
    config c = settings("postgresql://conch@gone.test:" + port + ",moving.test:" + port + "/postgres");
    c.topology_refresh = 200ms;
    c.connect_timeout = 2s;  // of which a fifth is for the name that hangs
    hangs ? names.hang("gone.test") : names.mean("gone.test", {});
    journal log;
    c.log = log.hook();
    auto const body = [&]() -> asio::awaitable<void> {
      client here{w.ctx.get_executor(), c};
      mutex m{here, "moving"};
      hold h = co_await m.async_acquire();
      names.mean("moving.test", {"127.0.0.2"});
      auto const moved = [&] { return log.contains("means another address now: 127.0.0.2"); };
      co_await until(moved, "the connection is given up");
    };
    w.run(body, 60s);
  }
}

/// By a name that is looked up, and with libpq's own words about certificates.
TEST_F(PostgresqlTroubles, TlsIsThatOfLibpq) {
  certificates files;
  files.authority("ours");
  files.authority("other");
  files.signed_by("ours", "server", "DNS:localhost");
  postgresql_server own{{.tcp = true, .certificate = files.certificate("server"), .key = files.key("server")}};
  auto const url = [&](std::string const& authority) {
    return "postgresql://conch@localhost:" + std::to_string(own.port()) +
           "/postgres?sslmode=verify-full&sslrootcert=" + files.certificate(authority);
  };
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), settings(url("ours"))}, two{w.ctx.get_executor(), settings(url("ours"))};
    mutex a{one, "secret"}, b{two, "secret"};
    hold h = co_await a.async_acquire();
    hold next;
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    postgresql_probe look{own};
    auto const waits = [&] { return look.number("select count(*) from conch.line") == 1; };
    co_await until(waits, "in line");
    EXPECT_EQ(look.number("select count(*) from pg_stat_ssl s join pg_stat_activity a using (pid) where s.ssl and "
                          "a.application_name = 'conch'"),
              2);
    co_await h.async_release();
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the next");
  };
  w.run(body, 60s);
  config c = settings(url("other"));
  c.offline_timeout = 500ms;
  error_code const ec = error_at(c, "not trusted");
  EXPECT_EQ(ec, errc::unreachable) << ec.message();
  EXPECT_NE(ec.message().find("certificate verify failed"), std::string::npos) << ec.message();
}

/// Settings of a role are for its other programs.
TEST_F(PostgresqlTroubles, SettingsOfARoleDoNotDisturb) {
  admin.ask(
      "create role set_up login superuser; alter role set_up set default_transaction_isolation = 'serializable';"
      "alter role set_up set default_transaction_read_only = on; alter role set_up set statement_timeout = 1;"
      "alter role set_up set idle_session_timeout = 50; alter role set_up set search_path = nowhere;"
      "alter role set_up set standard_conforming_strings = off; alter role set_up set bytea_output = 'escape';"
      "alter role set_up set extra_float_digits = 0; alter role set_up set lc_messages = 'C'");
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), settings(server().url("set_up"))},
        two{w.ctx.get_executor(), settings(server().url("set_up"))};
    mutex a{one, "set up"}, b{two, "set up"};
    int done = 0;
    auto const worker = [&](mutex& m) -> asio::awaitable<void> {
      for (int i = 0; i < 30; ++i) {
        hold h = co_await m.async_acquire();
        co_await pause_for(1ms);
        co_await h.async_release();
      }
      ++done;
    };
    asio::co_spawn(w.ctx, worker(a), asio::detached);
    asio::co_spawn(w.ctx, worker(b), asio::detached);
    auto const both = [&] { return done == 2; };
    co_await until(both, "both", 60s);
    co_await pause_for(200ms);  // longer than the role's time-out of idle sessions
    EXPECT_EQ(one.stats().connects, 1u);
  };
  w.run(body, 90s);
}

TEST_F(PostgresqlTroubles, AnEndedConnectionKeepsTheHoldAndThePlaceInLine) {
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), settings(server().url())}, two{w.ctx.get_executor(), settings(server().url())};
    mutex a{one, "kept"}, b{two, "kept"};
    hold h = co_await a.async_acquire();
    hold next;
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    std::string const line = "select count(*) from conch.line where key = " + bytes_literal("conch:{kept}");
    auto const waits = [&] { return admin.number(line) == 1; };
    co_await until(waits, "in line");
    std::string const ticket = admin.ask("select ticket from conch.line where key = " + bytes_literal("conch:{kept}"));
    admin.ask("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'conch'");
    auto const back = [&] { return one.stats().connects == 2 && two.stats().connects == 2; };
    co_await until(back, "both connected again");
    EXPECT_TRUE(h.valid());
    co_await pause_for(50ms);
    EXPECT_EQ(admin.ask("select ticket from conch.line where key = " + bytes_literal("conch:{kept}")), ticket);
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the next");
    co_await next.async_release();
  };
  w.run(body, 60s);
}

/// Somebody has dropped it while clients are connected.
TEST_F(PostgresqlTroubles, ASchemaThatIsDroppedIsMadeAnew) {
  auto const body = [&]() -> asio::awaitable<void> {
    client c{w.ctx.get_executor(), settings(server().url())};
    mutex m{c, "dropped"};
    hold h = co_await m.async_acquire();
    co_await h.async_release();
    admin.ask("drop schema conch cascade");
    hold again = co_await m.async_acquire({.wait = 20s});
    EXPECT_TRUE(again.valid());
    co_await again.async_release();
  };
  w.run(body, 60s);
}

TEST_F(PostgresqlTroubles, SeveralHostsAreTriedUntilOneIsNoStandby) {
  std::string const none = (server().directory() / "data").string();
  std::string const url = "postgresql://conch@/postgres?host=" + none + "," + server().directory().string() +
                          "&port=1," + std::to_string(server().port());
  EXPECT_FALSE(error_at(settings(url), "several"));
}

/// In session mode, too: the server would see the end of a client late, or never.
TEST_F(PostgresqlTroubles, PgBouncerIsRefusedWithWordsThatHelp) {
  if (!postgresql_pool::can_be_had()) GTEST_SKIP() << "without PgBouncer, which scripts/setup installs";
  for (char const* mode : {"transaction", "session"}) {
    postgresql_pool pool{server(), mode};
    error_code const ec = error_at(settings(pool.url()), "pool");
    EXPECT_EQ(ec, errc::server_refused) << mode << ": " << ec.message();
    EXPECT_NE(ec.message().find("PgBouncer"), std::string::npos) << ec.message();
    EXPECT_NE(ec.message().find("the URL must name the server"), std::string::npos) << ec.message();
  }
}

TEST_F(PostgresqlTroubles, AStandbyIsRefusedAndUsedWhenItIsPromoted) {
  EXPECT_FALSE(error_at(settings(server().url()), "before"));
  postgresql_server standby{{.standby_of = &server()}};
  config c = settings(standby.url());
  c.offline_timeout = 500ms;
  error_code const ec = error_at(c, "standby");
  EXPECT_EQ(ec, errc::unreachable) << ec.message();
  EXPECT_NE(ec.message().find("standby"), std::string::npos) << ec.message();
  admin.ask("select pg_switch_wal()");
  postgresql_probe{standby}.ask("select pg_promote(false)");
  // Nothing is granted before the longest lease of all has passed.
  auto const body = [&]() -> asio::awaitable<void> {
    config patient = settings(standby.url());
    patient.offline_timeout = 60s;
    client here{w.ctx.get_executor(), patient};
    mutex m{here, "promoted"};
    hold tried = co_await m.async_try_acquire();  // waits for a connection
    EXPECT_FALSE(tried.valid());
    auto const r = co_await m.async_acquire({.wait = short_wait}, as_tuple);
    EXPECT_EQ(std::get<0>(r), errc::timed_out) << std::get<0>(r).message();
  };
  w.run(body, 150s);
  EXPECT_GT(postgresql_probe{standby}.number("select quiet_until - since from conch.alive"), 29'000'000);
}

TEST_F(PostgresqlTroubles, AnUncontendedLockNotifiesNobodyAndWaitsForNoDisk) {
  auto const body = [&]() -> asio::awaitable<void> {
    config c = settings(server().url());
    c.local_slice = 0s;
    client here{w.ctx.get_executor(), c};
    mutex m{here, "cheap"};
    {
      hold first = co_await m.async_acquire();
      co_await first.async_release();
    }
    std::string const written = "select pg_current_wal_insert_lsn() - '0/0'";
    auto const before = admin.ask(written);
    for (int i = 0; i < 100; ++i) {
      hold h = co_await m.async_acquire();
      co_await h.async_release();
    }
    auto const after = admin.ask(written);
    EXPECT_LT(std::stoll(after) - std::stoll(before), 100 * 100)
        << "bytes of WAL; a commit that waits for the disk would be in it";
    EXPECT_EQ(admin.number("select (pg_notification_queue_usage() * 1000000)::bigint"), 0);
    EXPECT_EQ(here.stats().pushes, 0u);
  };
  w.run(body, 60s);
}

TEST_F(PostgresqlTroubles, P1AfterACrashNothingIsGrantedWithinALeaseOfTheLastHold) {
  postgresql_server own;
  postgresql_probe{own}.ask("select 1");
  auto const body = [&]() -> asio::awaitable<void> {
    std::int64_t last = 0;
    for (int round = 0; round < 3; ++round) {
      config c = settings(own.url());
      c.lease = 2s;
      c.command_timeout = 600ms;
      client one{w.ctx.get_executor(), c}, two{w.ctx.get_executor(), c};
      mutex a{one, "crash"}, b{two, "crash"};
      hold h = co_await a.async_acquire({.wait = 20s});
      EXPECT_GT(h.fence(), last);
      auto const deadline = h.deadline();
      // A process of the server dies: all others end, and its unlogged tables are empty afterwards.
      std::string const process =
          postgresql_probe{own}.ask("select pid from pg_stat_activity where application_name = 'conch' limit 1");
      ::kill(static_cast<pid_t>(std::stol(process)), SIGKILL);
      hold next = co_await b.async_acquire({.wait = 30s});
      EXPECT_GT(clock::now(), deadline);
      EXPECT_FALSE(h.valid());
      EXPECT_GT(next.fence(), h.fence());
      last = next.fence();
      co_await next.async_release();
    }
  };
  w.run(body, 120s);
}

}  // namespace
}  // namespace conch::test
