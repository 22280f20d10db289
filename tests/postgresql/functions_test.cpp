// The functions of sql/*.sql among several connections: which time they read, in which order they lock, what they leave
// behind.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "servers/postgresql/schema.hpp"
#include "support/postgresql_server.hpp"

namespace conch::test {
namespace {

using namespace std::chrono_literals;

class PostgresqlFunctions : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<postgresql_server>();
    postgresql_probe{*server_}.ask("begin;" + std::string{postgresql::schema()} + ";commit");
  }
  static void TearDownTestSuite() { server_.reset(); }
  static postgresql_server& server() { return *server_; }

  static std::string acquire(std::string const& key, std::string const& id, int lease = 10'000,
                             std::string const& not_after = "0", int retention = 2000) {
    return "select conch.acquire('" + key + "', '" + id + "', true, false, " + std::to_string(lease) + ", 500, " +
           std::to_string(retention) + ", 0, " + not_after + ")";
  }
  static std::string release(std::string const& key, std::string const& id) {
    return "select conch.release('" + key + "', '" + id + "', false, false, 10000, 500, 2000, '')";
  }

  postgresql_probe one{server()}, two{server()};

 private:
  static inline std::unique_ptr<postgresql_server> server_;
};

/// now() is when the transaction began.
TEST_F(PostgresqlFunctions, P3ALeaseBeginsWhenTheFunctionRunsAndNotWithItsTransaction) {
  std::string const left = "select owner_until - conch.now_us() / 1000 from conch.lock where key = 'slow'";
  for (int round = 0; round < 2; ++round) {  // the first is not the usual case: there is no row yet
    one.ask("begin; select pg_sleep(2)");
    one.ask(acquire("slow", "a." + std::to_string(round + 1)));
    one.ask("commit");
    EXPECT_GT(one.number(left), 8'500) << "of 10 s";
    one.ask(release("slow", "a." + std::to_string(round + 1)));
  }
}

TEST_F(PostgresqlFunctions, TheTimeIsReadWhenTheRowIsHad) {
  one.ask(acquire("waited", "a.1"));
  one.ask(release("waited", "a.1"));
  one.ask("begin; select * from conch.lock where key = 'waited' for update");
  std::string said;
  std::thread other{[&] { said = two.ask(acquire("waited", "b.1", 10'000, "conch.now_us() + 200000")); }};
  std::this_thread::sleep_for(600ms);
  one.ask("commit");
  other.join();
  EXPECT_TRUE(said.starts_with("{3,")) << "too late to be done, but: " << said;
}

TEST_F(PostgresqlFunctions, BatchesInOppositeOrdersDoNotWaitForEachOther) {
  for (int i = 0; i < 8; ++i) one.ask(acquire("batch" + std::to_string(i), "a.1"));
  auto const batch = [](postgresql_probe& with, bool backwards) {
    auto const keys = [&](std::string const& name) {
      std::string all;
      for (int i = 0; i < 8; ++i) all += (i > 0 ? ",'" : "'") + name + std::to_string(backwards ? 7 - i : i) + "'";
      return "array[" + all + "]::bytea[]";
    };
    std::string const n = "array_fill(0::bigint, array[8]), array_fill(10000::bigint, array[8])",
                      ids = "array_fill('a.1'::text, array[8])";
    for (int i = 0; i < 150; ++i) {
      with.ask("select conch.renew(" + keys("batch") + ", " + ids + ", " + n + ", 5000)");
      with.ask("select conch.acquire_all(" + keys("new " + std::to_string(i) + " ") + ", " + ids +
               ", array_fill(1::bigint, array[8]), 1, 0)");
    }
  };
  std::string failed;
  std::thread other{[&] {
    try {
      batch(two, true);
    } catch (std::runtime_error const& e) {
      failed = e.what();
    }
  }};
  EXPECT_NO_THROW(batch(one, false));
  other.join();
  EXPECT_EQ(failed, "");
}

/// Nothing of a new name is there yet: it is not taken for one that is not used any more.
TEST_F(PostgresqlFunctions, ANewNameIsMadeWhereThereIsNoOther) {
  for (int i = 0; i < 3; ++i) {
    one.ask("delete from conch.lock");
    EXPECT_TRUE(
        one.ask("set statement_timeout = '20s';" + acquire("alone " + std::to_string(i), "a.1")).starts_with("{1,"));
  }
}

TEST_F(PostgresqlFunctions, NamesThatAreNotUsedAnyMoreAreForgotten) {
  for (int i = 0; i < 2000; ++i) {
    std::string const name = "name " + std::to_string(i);
    one.ask(acquire(name, "a.1", 10'000, "0", 1));
    one.ask(release(name, "a.1"));
  }
  EXPECT_LT(one.number("select count(*) from conch.lock where convert_from(key, 'UTF8') like 'name %'"), 200);
}

TEST_F(PostgresqlFunctions, AWaiterWithoutAConnectionIsPassedOver) {
  postgresql_probe listens{server()};
  listens.ask("select conch.hear('c')");
  one.ask(acquire("passed", "a.1"));
  one.ask(acquire("passed", "b.1"));
  one.ask(acquire("passed", "c.1"));
  one.ask(release("passed", "a.1"));
  EXPECT_EQ(one.ask("select owner from conch.lock where key = 'passed'"), "c.1");
}

/// A release has read the queue, and waits for the row: a client with an earlier place comes back to the queue at that
/// moment.
TEST_F(PostgresqlFunctions, P5AReleaseSeesWhoComesIntoTheLineWhileItWaitsForTheRow) {
  postgresql_probe b{server()}, c{server()}, look{server()};
  b.ask("select conch.hear('b')");
  c.ask("select conch.hear('c')");
  one.ask(acquire("raced", "a.1"));
  one.ask(acquire("raced", "b.1"));
  one.ask("begin; select conch.acquire('raced', 'c.1', true, false, 10000, 500, 2000, 7, 0)");
  std::string said;
  std::thread other{[&] { said = two.ask(release("raced", "a.1")); }};
  while (look.number("select count(*) from pg_locks where not granted") == 0) std::this_thread::sleep_for(1ms);
  one.ask("commit");
  other.join();
  EXPECT_TRUE(said.starts_with("{1,1,1,")) << said;
  EXPECT_EQ(look.ask("select owner from conch.lock where key = 'raced'"), "c.1");
  EXPECT_EQ(look.ask("select id from conch.line where key = 'raced'"), "b.1");
}

/// The script is run by two clients at once, and again where it has been run.
TEST_F(PostgresqlFunctions, TheSchemaIsMadeOnceByManyAndTakesNoLockAway) {
  one.ask("drop schema conch cascade");
  std::string const script = "begin;" + std::string{postgresql::schema()} + ";commit";
  std::thread other{[&] { two.ask(script); }};
  EXPECT_NO_THROW(one.ask(script));
  other.join();
  one.ask(acquire("kept", "a.1"));
  two.ask(script);
  EXPECT_EQ(one.ask("select owner from conch.lock where key = 'kept'"), "a.1");
  EXPECT_EQ(one.number("select conch.version()"), postgresql::schema_version);
}

/// The clock has gone back since the owner had its token.
TEST_F(PostgresqlFunctions, P2ATokenThatIsHandedOnIsAboveTheOwnersAlsoWhereTheClockIsBehindIt) {
  two.ask("select conch.hear('f')");
  one.ask(acquire("handed", "a.1"));
  one.ask(acquire("handed", "f.1"));
  one.ask(
      "update conch.lock set owner_fence = owner_fence + 3600000000, fence = fence + 3600000000, fence_until = "
      "fence_until + 3600000 where key = "
      "'handed'");
  std::int64_t const before = one.number("select owner_fence from conch.lock where key = 'handed'");
  EXPECT_TRUE(one.ask(release("handed", "a.1")).starts_with("{1,1,"));
  EXPECT_EQ(one.ask("select owner from conch.lock where key = 'handed'"), "f.1");
  EXPECT_GT(one.number("select owner_fence from conch.lock where key = 'handed'"), before);
}

/// A lease has ended, and the first in line may be about to connect again: a keep, or an acquire by an owner, does not
/// pass it over.
TEST_F(PostgresqlFunctions, P5APatientOwnerPassesNobodyOverWhoIsAboutToConnectAgain) {
  auto const ask = [](std::string const& id, bool patient, int lease) {
    return "select conch.acquire_permit('patient', '" + id + "', true, " + (patient ? "true" : "false") + ", " +
           std::to_string(lease) + ", 500, 2000, 0, 0, 115, 2, 1, '-', 0)";
  };
  auto const keep = [](bool patient) {
    return std::string{"select conch.release_permit('patient', 'a.1', true, "} + (patient ? "true" : "false") +
           ", 10000, 500, 2000, 115, 2, 1, '-', 0)";
  };
  std::string const line = "select count(*) from conch.line where key = 'patient'";
  one.ask(ask("a.1", false, 10'000));
  EXPECT_TRUE(one.ask(ask("c.1", false, 300)).starts_with("{1,"));
  EXPECT_TRUE(one.ask(ask("gone.1", false, 10'000)).starts_with("{0,"));
  while (one.number("select count(*) from conch.part where key = 'patient' and ends > conch.now_us()") == 2)
    std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(one.ask(keep(true)).starts_with("{2,"));
  EXPECT_EQ(one.number(line), 1);
  EXPECT_TRUE(one.ask(ask("a.1", true, 10'000)).starts_with("{1,"));
  EXPECT_EQ(one.number(line), 1);
  EXPECT_TRUE(one.ask(keep(false)).starts_with("{2,"));
  EXPECT_EQ(one.number(line), 0);
}

/// The tables were lost while the clock was ahead, or it has gone back since.
TEST_F(PostgresqlFunctions, P4NothingIsGrantedForNoLongerThanTheLongestLeaseWhateverTheClockDoes) {
  one.ask(acquire("ahead", "a.1", 800));
  one.ask(release("ahead", "a.1"));
  for (char const* lost : {"7200", "86400"}) {
    std::string const until = "conch.now_us() + " + std::string{lost} + "000000";
    one.ask(
        "update conch.settings set longest_lease = 800; truncate conch.alive; insert into conch.alive values (true, " +
        until + ", " + until + " + 800000, 800)");
    std::string const first = one.ask(acquire("ahead", "b.1", 800));
    EXPECT_TRUE(first.starts_with("{0,")) << first;
    EXPECT_LE(one.number("select (conch.acquire('ahead', 'b.2', false, false, 800, 500, 2000, 0, 0))[2]"), 800);
    EXPECT_LE(one.number("select conch.quiet(0, conch.now_us())"), 800);
    // The clock does not have to come to that time, and later questions do not begin anew.
    auto const until_local = std::chrono::steady_clock::now() + 20s;
    std::string granted;
    while (!granted.starts_with("{1,") && std::chrono::steady_clock::now() < until_local) {
      granted = one.ask(acquire("ahead", "b.1", 800));
      std::this_thread::sleep_for(20ms);
    }
    EXPECT_TRUE(granted.starts_with("{1,")) << granted;
    one.ask(release("ahead", "b.1"));
  }
}

/// A copy of the schema without its rows, or a test suite that empties all tables.
TEST_F(PostgresqlFunctions, LocksOfADatabaseWithoutTheRowsOfConchAreGranted) {
  std::string const all =
      "select string_agg(oid::regclass::text, ',') from pg_class where relnamespace = 'conch'::regnamespace and "
      "relkind = 'r'";
  for (int round = 0; round < 2; ++round) {
    one.ask("truncate " + one.ask(all));
    if (round == 1) one.ask("select * from conch.connect('c')");
    EXPECT_TRUE(one.ask(acquire("emptied", "a.1", 1500)).starts_with("{1,"));
    EXPECT_TRUE(one.ask("select conch.acquire_permit('emptied sem', 'a.4', false, false, 1000, 500, 2000, 0, 0, 115, "
                        "2, 1, '-', 0)")
                    .starts_with("{1,"));
    EXPECT_TRUE(one.ask(release("emptied", "a.1")).starts_with("{1"));
    EXPECT_EQ(one.number("select longest_lease from conch.settings"), 1500);
  }
  for (std::string const table :
       {"lock", "part", "line", "request", "watcher", "hearer", "swept", "alive", "settings"}) {
    one.ask("update conch.alive set quiet_until = 0");
    one.ask("truncate conch." + table);
    std::string const said = one.ask(acquire("emptied " + table, "a.1", 10'000));
    // Without that one it looks as after a crash.
    EXPECT_TRUE(said.starts_with(table == "alive" ? "{0," : "{1,")) << table << ": " << said;
  }
}

/// The connections of all clients have ended: a client that comes back first must wait for the others.
TEST_F(PostgresqlFunctions, P5AnOrderlyRestartIsAnotherRunThoughTheTablesStay) {
  postgresql_server restarted;
  postgresql_probe{restarted}.ask("begin;" + std::string{postgresql::schema()} + ";commit");
  auto const facts = [&] {
    postgresql_probe client{restarted};
    std::string const run = client.ask("select run from conch.connect('c')");
    return std::pair{run, client.ask("select since from conch.alive")};
  };
  auto const before = facts(), before_it = facts();
  EXPECT_EQ(before, before_it);
  restarted.end();
  restarted.start();
  auto const now = facts();
  EXPECT_NE(now.first, before.first);
  EXPECT_EQ(now.second, before.second);
}

TEST_F(PostgresqlFunctions, TheSweepGetsPastRowsThatAreInUse) {
  for (char const* const first : {"!1", "!2", "!3"}) one.ask(acquire(first, "a.1", 3'600'000));
  for (int i = 0; i < 5; ++i) {
    std::string const dead = "dead" + std::to_string(i);
    one.ask(acquire(dead, "a.1"));
    one.ask(release(dead, "a.1"));
  }
  std::string const of_dead = " from conch.lock where convert_from(key, 'utf8') like 'dead%'";
  one.ask("update conch.lock set fence_until = 0 where convert_from(key, 'utf8') like 'dead%'");
  ASSERT_EQ(one.number("select count(*)" + of_dead), 5);
  // Each new name pays for two rows.
  for (auto left = one.number("select count(*) from conch.lock"); left > 0; --left)
    one.ask(acquire("swept" + std::to_string(left), "a.1"));
  EXPECT_EQ(one.number("select count(*)" + of_dead), 0);
}

/// Only the row with the longest lease has gone. It is there again before the tables can be lost.
TEST_F(PostgresqlFunctions, P1TheLongestLeaseIsNotForgottenWithItsRow) {
  one.ask("update conch.alive set quiet_until = 0, longest = 1");
  one.ask(acquire("longest", "a.1", 9'000));
  one.ask("delete from conch.settings");
  two.ask("select * from conch.connect('c')");
  EXPECT_EQ(one.number("select longest_lease from conch.settings"), 9'000);
  one.ask("delete from conch.settings");
  one.ask(acquire("longest", "a.1", 12'000));
  EXPECT_EQ(one.number("select longest_lease from conch.settings"), 12'000);
  one.ask(release("longest", "a.1"));
  one.ask(acquire("longest", "a.2", 15'000));  // the usual case: its row is there, and free
  EXPECT_EQ(one.number("select longest_lease from conch.settings"), 15'000);
  one.ask(release("longest", "a.2"));
  one.ask("update conch.settings set longest_lease = 12000; update conch.alive set longest = 12000");
  one.ask(acquire("longest", "a.1", 12'000));
  one.ask("truncate conch.lock, conch.alive");
  EXPECT_TRUE(one.ask(acquire("longest", "b.1", 1000)).starts_with("{0,"));
  one.ask("update conch.alive set quiet_until = 0");
}

TEST_F(PostgresqlFunctions, NothingIsGrantedAfterTheTablesWereLost) {
  one.ask(acquire("lost", "a.1", 1500));
  one.ask("truncate conch.lock, conch.alive");
  EXPECT_TRUE(one.ask(acquire("lost", "b.1", 1000)).starts_with("{0,"));
  EXPECT_TRUE(one.ask("select conch.acquire('other', 'b.2', false, false, 1000, 500, 2000, 0, 0)").starts_with("{2,"));
  EXPECT_EQ(one.ask("select cardinality(conch.acquire_all(array['new']::bytea[], array['b.3'], array[1000], 2000, 0))"),
            "1")
      << "the time, and no token";
  EXPECT_TRUE(
      one.ask("select conch.acquire_permit('sem', 'b.4', false, false, 1000, 500, 2000, 0, 0, 115, 2, 1, '-', 0)")
          .starts_with("{2,"));
  EXPECT_TRUE(one.ask("select conch.release('lost', 'b.9', false, false, 1000, 500, 2000, '')").starts_with("{0,0,0,"))
      << "a kick passes nothing on";
  EXPECT_TRUE(one.ask("select conch.watch('lost', 'b.5', 1000)").starts_with("{0,"));
  std::int64_t const left = one.number("select (quiet_until - conch.now_us()) / 1000 from conch.alive");
  EXPECT_GT(left, 8'000) << "the longest lease of this server was 10 s";
  one.ask("update conch.alive set quiet_until = 0");
  EXPECT_TRUE(one.ask(acquire("lost", "b.1", 1000)).starts_with("{1,"));
}

}  // namespace
}  // namespace conch::test
