// Which roles control what a client runs in the schema `conch`, and which can block it.

#include "integration/fixture.hpp"
#include "servers/postgresql/schema.hpp"
#include "support/postgresql_server.hpp"

#include <thread>

namespace conch::test {
namespace {

class PostgresqlOwners : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<postgresql_server>(postgresql_options{.settings = {"fsync=off"}});
    postgresql_probe{*server_}.ask(
        "create role mallory login; create role shop login; create role boss login; create role other login");
  }
  static void TearDownTestSuite() { server_.reset(); }

  /// An empty database of `owner`.
  void make_database(std::string const& owner = "conch") {
    admin.ask("drop database if exists d with (force)");
    admin.ask("create database d owner " + owner);
  }
  static std::string url(std::string const& role) {
    return "postgresql://" + role + "@/d?host=" + server_->directory().string() +
           "&port=" + std::to_string(server_->port());
  }
  static void as(std::string const& role, std::string const& statements) {
    postgresql_probe{url(role)}.ask(statements);
  }
  static std::string asked(std::string const& role, std::string const& statements) {
    return postgresql_probe{url(role)}.ask(statements);
  }
  /// Runs the script as psql does.
  static void run_script(std::string const& role) {
    as(role, "begin;" + std::string{postgresql::schema()} + ";commit");
  }

  static config settings(std::string const& role) {
    config c;
    c.url = url(role);
    c.reconnect_min = 5ms;
    c.reconnect_max = 100ms;
    return c;
  }

  error_code error_at(config c) {
    error_code seen;
    auto const body = [&]() -> asio::awaitable<void> {
      client here{w.ctx.get_executor(), c};
      mutex m{here, "owners"};
      auto r = co_await m.async_acquire({.wait = 20s}, as_tuple);
      seen = std::get<0>(r);
    };
    w.run(body, 60s);
    return seen;
  }

  /// The rights that the beginning of the script names, for this role.
  static std::string documented_rights(std::string const& role) {
    std::string_view const all = postgresql::schema(), begin = "Each other role needs: ";
    auto const from = all.find(begin) + begin.size();
    std::string rights{all.substr(from, all.find(".\n", from) - from)};
    for (std::string_view const gone : {"\n-- "}) {
      for (auto at = rights.find(gone); at != std::string::npos; at = rights.find(gone))
        rights.replace(at, gone.size(), " ");
    }
    for (auto at = rights.find("ROLE"); at != std::string::npos; at = rights.find("ROLE")) rights.replace(at, 4, role);
    return rights;
  }

  static inline std::unique_ptr<postgresql_server> server_;
  postgresql_probe admin{*server_};
  world w;
};

/// Waits for an advisory lock until the end.
class thief {
 public:
  thief(std::string const& url, std::string const& key)
      : url_{url},
        at_{url},
        process_{at_.ask("select pg_backend_pid()")} {
    thread_ = std::thread{[this, key] {
      try {
        at_.ask("select pg_advisory_lock(" + key + "), pg_sleep(600)");
      } catch (std::runtime_error const&) {  // it has been ended
      }
    }};
  }
  ~thief() {
    postgresql_probe{url_}.ask("select pg_terminate_backend(" + process_ + ")");
    thread_.join();
  }

 private:
  std::string const url_;
  postgresql_probe at_;
  std::string const process_;
  std::thread thread_;
};

struct squatting {
  char const* what;
  bool script_first;     // the database's owner has run the script before
  char const* by_admin;  // what the owner does in good faith
  char const* by_mallory;
  char const* afterwards;  // by the owner
  char const* named;       // in the error
};

/// The trap records the role that ran into it.
std::string trap(std::string const& create) {
  return "create schema m; create table m.seen(who text); grant usage on schema m to public; grant insert on m.seen to "
         "public;" +
         create;
}

TEST_F(PostgresqlOwners, NothingRunsThatAnotherRoleControls) {
  std::string const caught = "begin insert into m.seen values (current_user); return new; end";
  squatting const all[] = {
      {"the schema", false, "grant create on database d to mallory",
       "create schema conch; grant all on schema conch to public", "", "the schema conch is owned by mallory"},
      {"a schema in which she has taken the place of everything", false, "grant create on database d to mallory",
       "create schema conch; create table conch.settings (one boolean primary key, longest_lease bigint not null);"
       "create function conch.up() returns trigger language plpgsql as $$ begin insert into m.seen values "
       "(current_user); return new; end $$;"
       "create trigger up before insert on conch.settings for each row execute function conch.up();"
       "create function conch.connect(client text, out version integer, out server_us bigint, out run text, out "
       "started text) language plpgsql as "
       "$$ begin insert into m.seen values (current_user); end $$; grant all on schema conch to public; grant all on "
       "all tables in schema conch to "
       "public",
       "", "the schema conch is owned by mallory"},
      {"a table", true, "grant create on schema conch to mallory", "create table conch.x()",
       "revoke create on schema conch from mallory", "table conch.x is owned by mallory"},
      {"a view", true, "grant create on schema conch to mallory", "create view conch.x as select 1 as a",
       "revoke create on schema conch from mallory", "view conch.x is owned by mallory"},
      {"a type", true, "grant create on schema conch to mallory", "create type conch.x as enum ('a')",
       "revoke create on schema conch from mallory", "type conch.x is owned by mallory"},
      {"an operator", true, "grant create on schema conch to mallory",
       "create operator conch.=== (leftarg = text, rightarg = text, function = pg_catalog.texteq)",
       "revoke create on schema conch from mallory", "is owned by mallory"},
      {"a function that a call may mean instead of conch's own", true,
       "grant create on schema conch to mallory; grant usage on schema conch to public",
       "create function conch.connect(varchar, out version integer, out server_us bigint, out run text, out started "
       "text) language plpgsql as "
       "$$ begin insert into m.seen values (current_user); end $$",
       "revoke create on schema conch from mallory", "function conch.connect(character varying) is owned by mallory"},
      {"a function that was conch's own", true,
       "grant create on schema conch to mallory; alter function conch.now_us() owner to mallory", "select 1",
       "revoke create on schema conch from mallory", "function conch.now_us() is owned by mallory"},
      {"a trigger", true, "grant trigger on conch.alive to mallory; grant usage on schema conch to mallory",
       "create trigger \"a b\" before insert on conch.alive for each row execute function m.caught()",
       "revoke trigger on conch.alive from mallory", "the trigger a b on conch.alive calls a function of mallory"},
      {"a table that refers to one of conch's", true,
       "grant references on conch.lock to mallory; grant usage on schema conch to mallory",
       "create unlogged table m.fk (k bytea references conch.lock on delete cascade)", "",
       "m.fk, a table of mallory, refers to conch.lock"},
      {"the right to add to the schema", true, "grant create on schema conch to mallory", "select 1", "",
       "mallory may create objects in the schema conch"},
      {"the right of everybody to add to the schema", true, "grant all on schema conch to public", "select 1", "",
       "everybody may create objects in the schema conch, "},
      {"the right to make triggers", true, "grant all on all tables in schema conch to mallory", "select 1", "",
       "mallory may make triggers on conch."},
  };
  for (squatting const& one : all) {
    SCOPED_TRACE(one.what);
    make_database();
    if (one.script_first) run_script("conch");
    as("conch", "grant create on database d to mallory");
    as("mallory", trap("create function m.caught() returns trigger language plpgsql as $$ " + caught + " $$"));
    if (one.script_first) as("conch", documented_rights("shop"));
    as("conch", std::string{one.by_admin} + ";grant create on database d to shop");
    as("mallory", one.by_mallory);
    if (*one.afterwards != '\0') as("conch", one.afterwards);
    error_code const ec = error_at(settings("shop"));
    EXPECT_EQ(ec, errc::server_refused) << ec.message();
    EXPECT_NE(ec.message().find(one.named), std::string::npos) << ec.message();
    try {
      run_script("conch");
      ADD_FAILURE() << "a superuser has run the script";
    } catch (std::runtime_error const& e) {
      EXPECT_NE(std::string{e.what()}.find(one.named), std::string::npos) << e.what();
    }
    EXPECT_EQ(asked("mallory", "select count(*) from m.seen"), "0") << "code of another role has run";
  }
}

/// What it says is what helps.
TEST_F(PostgresqlOwners, TheErrorSaysWhatToDo) {
  make_database();
  run_script("conch");
  as("conch", documented_rights("shop") +
                  ";grant create on schema conch to mallory; grant all on all tables in schema conch to mallory");
  for (int i = 0; i < 2; ++i) {
    error_code const ec = error_at(settings("shop"));
    ASSERT_EQ(ec, errc::server_refused) << ec.message();
    std::string const words = ec.message();
    auto const at = words.find("revoke ");
    ASSERT_NE(at, std::string::npos) << words;
    as("conch", words.substr(at, words.find(" (waiting") - at));
  }
  error_code const ec = error_at(settings("shop"));
  EXPECT_FALSE(ec) << ec.message();
}

TEST_F(PostgresqlOwners, MayBeTheRoleItselfTheDatabasesOwnerAndSuperusers) {
  make_database("boss");
  as("boss", "grant create on database d to shop");
  error_code ec = error_at(settings("shop"));
  EXPECT_FALSE(ec) << "made by itself: " << ec.message();
  ec = error_at(settings("other"));
  EXPECT_EQ(ec, errc::server_refused) << "made by one application, for another: " << ec.message();
  for (char const* maker : {"boss", "conch"}) {
    make_database("boss");
    run_script(maker);
    as(maker, documented_rights("shop"));
    ec = error_at(settings("shop"));
    EXPECT_FALSE(ec) << maker << ": " << ec.message();
    run_script("conch");
  }
  make_database("boss");
  if (admin.number("show server_version_num") >= 140000) {
    as("conch", "create schema conch authorization pg_database_owner");
    run_script("boss");
    as("boss", documented_rights("shop"));
    ec = error_at(settings("shop"));
    EXPECT_FALSE(ec) << ec.message();
  }
}

/// The one who runs it may have a search path in which others have made things before those of PostgreSQL.
TEST_F(PostgresqlOwners, TheScriptMeansPostgresqlsOwnNames) {
  make_database();
  as("conch", "grant create on schema public to mallory; grant create on database d to mallory");
  as("mallory",
     trap("create function public.to_regclass(text) returns regclass language plpgsql as $$ begin insert into m.seen "
          "values (current_user);"
          "return pg_catalog.to_regclass($1); end $$;"
          "create function public.same(name, name) returns boolean language plpgsql as $$ begin insert into m.seen "
          "values (current_user);"
          "return true; end $$; create operator public.= (leftarg = name, rightarg = name, function = public.same)"));
  as("conch", "set search_path = public, pg_catalog; begin;" + std::string{postgresql::schema()} + ";commit");
  as("conch", "alter role shop set search_path = public, pg_catalog;" + documented_rights("shop"));
  error_code const ec = error_at(settings("shop"));
  as("conch", "alter role shop reset search_path");
  EXPECT_FALSE(ec) << ec.message();
  EXPECT_EQ(asked("mallory", "select count(*) from m.seen"), "0");
}

TEST_F(PostgresqlOwners, NoFunctionRunsWithAnythingButTheRightsOfItsCaller) {
  make_database();
  run_script("conch");
  EXPECT_EQ(asked("conch", "select count(*) from pg_proc where pronamespace = 'conch'::regnamespace and prosecdef"),
            "0");
  EXPECT_GT(std::stoi(asked("conch", "select count(*) from pg_proc where pronamespace = 'conch'::regnamespace")), 40);
}

/// Where a new function may be executed by nobody else.
TEST_F(PostgresqlOwners, TheDocumentedRightsAreEnoughUnderHardenedDefaultPrivileges) {
  make_database("boss");
  as("boss",
     "alter default privileges revoke execute on functions from public; revoke all on schema public from public");
  run_script("boss");
  error_code ec = error_at(settings("shop"));
  EXPECT_EQ(ec, errc::access_denied) << ec.message();
  as("boss", documented_rights("shop"));
  ec = error_at(settings("shop"));
  EXPECT_FALSE(ec) << ec.message();
  // A newer version has functions and tables that are new.
  as("boss", "drop table conch.hearer; drop function conch.asked(bytea, bigint), conch.hears(text)");
  run_script("boss");
  ec = error_at(settings("shop"));
  EXPECT_FALSE(ec) << ec.message();
  EXPECT_EQ(asked("shop", "select conch.hear('c')"), "{1}");
  EXPECT_EQ(asked("shop", "select conch.asked('c', 1)"), "{0}");
}

/// It has the right to connect, and no other.
TEST_F(PostgresqlOwners, AStrangersAdvisoryLocksKeepNobodyFromMakingTheSchema) {
  make_database();
  postgresql_probe stranger{url("mallory")};
  stranger.ask("select pg_advisory_lock(7165064744911531112)");
  error_code const ec = error_at(settings("conch"));
  EXPECT_FALSE(ec) << ec.message();
  EXPECT_NO_THROW(run_script("conch"));
}

/// A role that may create a schema has begun to make this one, and does not end. Attempts end by themselves at the
/// server, too.
TEST_F(PostgresqlOwners, AttemptsThatAreGivenUpLeaveNothingBehindAtTheServer) {
  make_database();
  as("conch", "grant create on database d to mallory");
  postgresql_probe stranger{url("mallory")};
  stranger.ask("begin; create schema conch");
  config c = settings("conch");
  c.connect_timeout = 500ms;
  c.command_timeout = 300ms;
  c.offline_timeout = 60s;
  int most = 0;
  auto const body = [&]() -> asio::awaitable<void> {
    std::vector<std::unique_ptr<client>> all;
    std::vector<std::unique_ptr<mutex>> locks;
    std::vector<hold> holds(3);
    for (hold& mine : holds) {
      all.push_back(std::make_unique<client>(w.ctx.get_executor(), c));
      locks.push_back(std::make_unique<mutex>(*all.back(), "left " + std::to_string(locks.size())));
      locks.back()->async_acquire([&](error_code ec, hold got) {
        EXPECT_FALSE(ec) << ec.message();
        mine = std::move(got);
      });
    }
    for (auto const until = clock::now() + 5s; clock::now() < until;) {
      co_await pause_for(50ms);
      most = std::max(
          most,
          static_cast<int>(admin.number("select count(*) from pg_stat_activity where application_name = 'conch'")));
    }
    stranger.ask("rollback");
    auto const granted = [&] {
      return std::all_of(holds.begin(), holds.end(), [](hold const& h) { return h.valid(); });
    };
    co_await until(granted, "all three when the stranger has gone", 60s);
  };
  w.run(body, 120s);
  EXPECT_GT(most, 0);
  EXPECT_LE(most, 6) << "of three clients, each of which has one connection, and perhaps one that is about to end";
}

/// It sees the key of each client that listens, and has it as soon as that connection ends.
TEST_F(PostgresqlOwners, AStrangerWhoTakesTheKeyOfAClientKeepsItFromNothing) {
  make_database();
  run_script("conch");
  auto const body = [&]() -> asio::awaitable<void> {
    client one{w.ctx.get_executor(), settings("conch")}, two{w.ctx.get_executor(), settings("conch")};
    mutex a{one, "key"}, b{two, "key"};
    hold h = co_await a.async_acquire();
    hold next;
    b.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      next = std::move(got);
    });
    postgresql_probe look{url("conch")};
    auto const waits = [&] { return look.number("select count(*) from conch.line") == 1; };
    co_await until(waits, "in line");
    std::vector<std::unique_ptr<thief>> thieves;
    std::string const keys =
        "select (classid::bigint << 32) | objid::bigint from pg_locks where locktype = 'advisory' and granted and "
        "objsubid = 1 "
        "order by pid offset ";
    for (int n = 0; n < 2; ++n) {
      std::string const key = asked("mallory", keys + std::to_string(n));
      EXPECT_NE(key, "");
      thieves.push_back(std::make_unique<thief>(url("mallory"), key));
    }
    std::string const stolen =
        "select count(*) from pg_locks l join pg_stat_activity s using (pid) where l.locktype = 'advisory' and "
        "s.usename = 'mallory' and l.granted "
        "= ";
    auto const queued = [&] { return look.number(stolen + "false") == 2; };
    co_await until(queued, "the stranger behind both");
    for (int round = 0; round < 3; ++round) {
      auto const before = one.stats().connects + two.stats().connects;
      look.ask("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'conch'");
      auto const back = [&] { return one.stats().connects + two.stats().connects == before + 2; };
      co_await until(back, "both connected again");
    }
    auto const has_them = [&] { return look.number(stolen + "true") == 2; };
    co_await until(has_them, "the stranger has both keys");
    auto const listens = [&] {
      return look.number(
                 "select count(*) from pg_locks l join pg_stat_activity s using (pid) where l.locktype = 'advisory' "
                 "and l.granted and "
                 "s.application_name = 'conch' and l.mode = 'ExclusiveLock'") == 2;
    };
    co_await until(listens, "both listen under other keys");
    auto const known = [&] { return look.number("select count(*) from conch.hearer") == 2; };
    co_await until(known, "the rows of both");
    bool const was_held = co_await h.async_release();
    EXPECT_TRUE(was_held);
    auto const granted = [&] { return next.valid(); };
    co_await until(granted, "the next", 10s);  // by a push: the safety check of a lease of 30 s is later
    // The stranger lets the keys go: neither looks dead.
    thieves.clear();
    hold again;
    a.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      again = std::move(got);
    });
    co_await until(waits, "in line again");
    co_await next.async_release();
    auto const back_again = [&] { return again.valid(); };
    co_await until(back_again, "the first again", 10s);
    co_await again.async_release();
  };
  w.run(body, 120s);
}

}  // namespace
}  // namespace conch::test
