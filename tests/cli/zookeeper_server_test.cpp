// Every command at a ZooKeeper server.

#include "cli/at_server.hpp"
#include "support/zookeeper_ensemble.hpp"

namespace conch::test {
namespace {

class CommandAtZookeeper : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<zookeeper_ensemble>(); }
  static void TearDownTestSuite() { server_.reset(); }

  static inline std::unique_ptr<zookeeper_ensemble> server_;
  at_server c{server_->url()};
};

TEST_F(CommandAtZookeeper, RunsUnderALockAndShowsIt) {
  program holder = c.run({"a", "b/%}"}, holds);
  std::string const fences = fence_of(holder), fence = fences.substr(0, fences.find(' '));
  program waiting = c.run({"a"}, "true");
  for (c.output.clear(); !c.says(", 1 waiting"); c.result_of({"status", "a"})) {
  }
  EXPECT_TRUE(c.output.starts_with("a: mutex, held, 1 waiting\n  ")) << c.output;
  EXPECT_TRUE(c.says("fence " + fence)) << c.output;
  EXPECT_FALSE(c.says(" left")) << "ZooKeeper knows no lease: " << c.output;
  EXPECT_EQ(c.result_of({"status", "a", "--json"}), 0);
  EXPECT_TRUE(c.says("\"lease_left_ms\":null")) << c.output;
  EXPECT_EQ(c.result_of({"run", "a", "--no-wait", "--", "true"}), 75);
  EXPECT_EQ(c.result_of({"list"}), 0);
  EXPECT_TRUE(c.output.starts_with("a: mutex, held")) << c.output;
  EXPECT_EQ(c.result_of({"list", "b*", "--names"}), 0);
  EXPECT_EQ(c.output, "b/%}\n");
  program watch = c.conch({"watch", "--every", "100ms"});
  EXPECT_NE(watch.wait_for("2").find("a: mutex, held, 1 waiting;"), std::string::npos);
  EXPECT_EQ(c.result_of({"status", "free"}), 0);
  EXPECT_EQ(c.output, "free: free\n");
}

TEST_F(CommandAtZookeeper, ShowsReadersAndPermits) {
  program readers[]{c.run({"r", "--kind", "shared"}, holds), c.run({"r", "--kind", "shared"}, holds)};
  program permit = c.run({"s", "--kind", "semaphore=3"}, holds);
  for (program* const one : {&readers[0], &readers[1], &permit}) fence_of(*one);
  EXPECT_EQ(c.result_of({"status", "r", "s"}), 0);
  EXPECT_TRUE(c.says("r: shared_mutex, held by 2 readers, 0 waiting")) << c.output;
  EXPECT_TRUE(c.says("s: semaphore, 1 of 3 permits held, 0 waiting")) << c.output;
}

TEST_F(CommandAtZookeeper, KeepsALockThatWasWaitedFor) {
  program before = c.run({"w"}, "echo held; sleep 1");
  before.wait_for("held", std::chrono::seconds{60});
  EXPECT_EQ(c.result_of({"run", "w", "--", "sleep", "4"}), 0) << c.output;
}

TEST_F(CommandAtZookeeper, ShowsALockAsHeldWithinItsMinimumInterval) {
  EXPECT_EQ(c.result_of({"run", "daily", "--at-least", "1h", "--", "true"}), 0) << c.output;
  EXPECT_EQ(c.result_of({"status", "daily"}), 0);
  EXPECT_TRUE(c.output.starts_with("daily: mutex, held, 0 waiting\n  ")) << c.output;
  EXPECT_FALSE(c.says("fence 0,")) << c.output;
  EXPECT_EQ(c.result_of({"run", "daily", "--no-wait", "--", "true"}), 75);
}

TEST_F(CommandAtZookeeper, NamesWhatItCannotDo) {
  EXPECT_EQ(c.result_of({"unlock", "a", "--yes"}), 64);
  EXPECT_TRUE(c.says("async_force_release over zookeeper://")) << c.output;
  EXPECT_EQ(c.result_of({"run", "a", "--kind", "striped=2", "--", "true"}), 64);
  EXPECT_TRUE(c.says("striped_mutex over zookeeper://")) << c.output;
  EXPECT_EQ(c.result_of({"run", "a", "--sync-replicas", "1", "--", "true"}), 64);
  EXPECT_TRUE(c.says("sync_replicas is set, and an ensemble of ZooKeeper always waits for a majority")) << c.output;
}

TEST_F(CommandAtZookeeper, DoctorLooksAtServersSessionAndRights) {
  EXPECT_EQ(c.result_of({"run", "a", "--", "true"}), 0);
  EXPECT_LE(c.result_of({"doctor"}), 1) << c.output;
  for (char const* line :
       {"ok       reachable: zookeeper://127.0.0.1:", "ok       TLS: none, and the server is on this machine",
        "round trip: median ", "version: ", "servers: zookeeper://127.0.0.1:", "ok       session: 30 s",
        "ok       rights: /conch is open to everybody", "hand-over: median "}) {
    EXPECT_TRUE(c.says(line)) << line << '\n' << c.output;
  }
  std::string const with_login = "zookeeper://u:p@" + server_->url().substr(12);
  at_server named{with_login};
  EXPECT_EQ(named.result_of({"doctor"}), 2);
  EXPECT_TRUE(named.says("bad      rights: anybody may change /conch\n         -> setAcl /conch auth::cdrwa"))
      << named.output;
}

TEST_F(CommandAtZookeeper, LooksAtAnEmptyChrootAndMakesNothingThere) {
  at_server empty{server_->url() + "/nowhere"};
  EXPECT_EQ(empty.result_of({"list"}), 0) << empty.output;
  EXPECT_EQ(empty.output, "");
  EXPECT_EQ(empty.result_of({"status", "a"}), 0) << empty.output;
  EXPECT_EQ(empty.output, "a: free\n");
}

TEST_F(CommandAtZookeeper, SaysThatNobodyIsThere) {
  at_server none{"zookeeper://127.0.0.1:1"};
  for (std::vector<std::string> const& words :
       std::vector<std::vector<std::string>>{{"list"}, {"watch"}, {"status", "a"}, {"bench"}}) {
    EXPECT_EQ(none.result_of(words), 69) << words[0] << ": " << none.output;
    EXPECT_TRUE(none.says("Connection refused")) << none.output;
  }
  EXPECT_EQ(none.result_of({"doctor"}), 2);
  EXPECT_TRUE(none.output.starts_with("bad      reachable: ")) << none.output;
}

TEST_F(CommandAtZookeeper, MeasuresCyclesAndHandOvers) {
  EXPECT_EQ(c.result_of({"bench", "--time", "20ms"}), 0) << c.output;
  for (char const* line : {"round trip", "acquire + release", "hand-over"}) EXPECT_TRUE(c.says(line)) << c.output;
}

}  // namespace
}  // namespace conch::test
