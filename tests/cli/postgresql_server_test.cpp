// Every command at a PostgreSQL server.

#include "support/postgresql_server.hpp"
#include "cli/at_server.hpp"

namespace conch::test {
namespace {

class CommandAtPostgresql : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<postgresql_server>(postgresql_options{.settings = {"fsync=off"}, .tcp = true});
  }
  static void TearDownTestSuite() { server_.reset(); }

  static inline std::unique_ptr<postgresql_server> server_;
  at_server c{server_->url()};
};

TEST_F(CommandAtPostgresql, RunsUnderALockAndShowsIt) {
  program holder = c.run({"a", "b%}"}, holds);
  std::string const fences = fence_of(holder), fence = fences.substr(0, fences.find(' '));
  EXPECT_EQ(c.result_of({"run", "a", "--no-wait", "--", "true"}), 75);
  EXPECT_EQ(c.result_of({"status", "a"}), 0);
  EXPECT_TRUE(c.output.starts_with("a: mutex, held, 0 waiting\n  ")) << c.output;
  EXPECT_TRUE(c.says("fence " + fence)) << c.output;
  EXPECT_EQ(c.result_of({"list"}), 0);
  EXPECT_TRUE(c.output.starts_with("a: mutex, held")) << c.output;
  EXPECT_TRUE(c.says("b%}: mutex, held")) << c.output;
  EXPECT_EQ(c.result_of({"list", "b?}", "--names"}), 0);
  EXPECT_EQ(c.output, "b%}\n");
  program watch = c.conch({"watch", "--every", "100ms"});
  EXPECT_NE(watch.wait_for("2").find("a: mutex, held, 0 waiting;"), std::string::npos);
  EXPECT_EQ(c.result_of({"unlock", "a", "--yes", "--fence", fence}), 0) << c.output;
  EXPECT_EQ(holder.wait_for_end(std::chrono::seconds{60}), 79);
}

TEST_F(CommandAtPostgresql, ListsLocksInPages) {
  std::vector<std::string> words;
  for (int i = 0; i < 120; ++i) words.push_back("page:" + std::to_string(i));
  program holder = c.run(words, holds);
  fence_of(holder);
  EXPECT_EQ(c.result_of({"list", "page:*", "--names"}), 0);
  EXPECT_EQ(std::count(c.output.begin(), c.output.end(), '\n'), 120) << c.output;
}

// Nothing is granted after a crash, and the holder's lease has expired.
TEST_F(CommandAtPostgresql, ListsALockThatHasWaitersAndNoHolder) {
  program holder = c.run({"queued"}, holds);
  fence_of(holder);
  program waiter = c.run({"queued"}, "true");
  do {
    EXPECT_EQ(c.result_of({"status", "queued"}), 0);
  } while (!c.says("1 waiting"));
  postgresql_probe admin{*server_};
  admin.ask("update conch.alive set quiet_until = quiet_until + 3600000000");
  admin.ask("update conch.lock set owner_until = 0, hash_until = 0 where key = 'conch:{queued}'");
  EXPECT_EQ(c.result_of({"list", "queued", "--names"}), 0);
  EXPECT_EQ(c.output, "queued\n");
  admin.ask("update conch.alive set quiet_until = quiet_until - 3600000000");
}

TEST_F(CommandAtPostgresql, KeepsALockThatWasWaitedFor) {
  program before = c.run({"w"}, "echo held; sleep 1");
  before.wait_for("held");
  EXPECT_EQ(c.result_of({"run", "w", "--", "sleep", "4"}), 0) << "the first deadline is that of a claim: " << c.output;
}

TEST_F(CommandAtPostgresql, DoctorLooksAtServerSchemaAndRights) {
  EXPECT_EQ(c.result_of({"run", "a", "--", "true"}), 0);
  EXPECT_EQ(c.result_of({"doctor"}), 1) << c.output;
  for (char const* line : {"ok       reachable: postgresql://", "ok       TLS: none, and the server is on this machine",
                           "ok       version: PostgreSQL ", "ok       role: primary", "ok       pool: none",
                           "warning  durability: fsync is off", "ok       schema: version ", "ok       rights: all",
                           "hand-over: median "}) {
    EXPECT_TRUE(c.says(line)) << line << '\n' << c.output;
  }
  postgresql_probe{*server_}.ask("create role poor login");
  at_server poor{server_->url("poor")};
  EXPECT_EQ(poor.result_of({"doctor"}), 2);
  EXPECT_TRUE(poor.says(
      "bad      rights: USAGE on the schema conch is missing\n         -> grant usage on schema conch to poor"))
      << poor.output;
  postgresql_probe{*server_}.ask("grant usage on schema conch to poor");
  EXPECT_EQ(poor.result_of({"doctor"}), 2);
  EXPECT_TRUE(poor.says("grant select, insert, update, delete on all tables in schema conch to poor")) << poor.output;
  EXPECT_EQ(poor.result_of({"list"}), 77) << poor.output;
  postgresql_probe{*server_}.ask("revoke usage on schema conch from poor; drop role poor");
}

TEST_F(CommandAtPostgresql, LooksAtAnEmptyDatabaseAndMakesNothingThere) {
  postgresql_probe{*server_}.ask("create database empty");
  at_server empty{"postgresql://conch@/empty?host=" + server_->directory().string() +
                  "&port=" + std::to_string(server_->port())};
  EXPECT_EQ(empty.result_of({"list"}), 0) << empty.output;
  EXPECT_EQ(empty.output, "");
  EXPECT_EQ(postgresql_probe{"postgresql://conch@/empty?host=" + server_->directory().string() +
                             "&port=" + std::to_string(server_->port())}
                .ask("select to_regnamespace('conch') is null"),
            "t");
}

TEST_F(CommandAtPostgresql, SaysThatAServerIsAStandby) {
  postgresql_server standby{{.standby_of = server_.get()}};
  at_server there{standby.url()};
  EXPECT_EQ(there.result_of({"doctor"}), 2);
  EXPECT_TRUE(there.says("bad      role: standby")) << there.output;
  for (std::vector<std::string> const& words :
       std::vector<std::vector<std::string>>{{"list"}, {"watch"}, {"status", "a"}}) {
    EXPECT_EQ(there.result_of(words), 69) << words[0] << ": " << there.output;
    EXPECT_TRUE(there.says("the server is a standby")) << words[0] << ": " << there.output;
  }
  at_server two{"postgresql://conch@/postgres?host=" + standby.directory().string() + "," +
                (server_->directory() / "data").string() + "&port=" + std::to_string(standby.port()) + ",1"};
  EXPECT_EQ(two.result_of({"doctor"}), 2);
  EXPECT_TRUE(two.says("bad      role: standby")) << "the other host is down: " << two.output;
}

TEST_F(CommandAtPostgresql, SaysThatNobodyIsThere) {
  at_server none{"postgresql:///postgres?host=" + (server_->directory() / "data").string()};
  for (std::vector<std::string> const& words :
       std::vector<std::vector<std::string>>{{"list"}, {"watch"}, {"status", "a"}, {"bench"}}) {
    EXPECT_EQ(none.result_of(words), 69) << words[0] << ": " << none.output;
    EXPECT_TRUE(none.says("No such file")) << none.output;
  }
  EXPECT_EQ(none.result_of({"doctor"}), 2);
  EXPECT_TRUE(none.output.starts_with("bad      reachable: ")) << none.output;
}

TEST_F(CommandAtPostgresql, MeasuresCyclesAndHandOvers) {
  EXPECT_EQ(c.result_of({"bench", "--time", "20ms"}), 0) << c.output;
  for (char const* line : {"round trip", "acquire + release", "hand-over"}) EXPECT_TRUE(c.says(line)) << c.output;
}

}  // namespace
}  // namespace conch::test
