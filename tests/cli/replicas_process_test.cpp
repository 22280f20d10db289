// The command where replicas must have the lock.

#include <filesystem>
#include <fstream>

#include "cli/command.hpp"
#include "integration/replicas_fixture.hpp"

namespace conch::test {
namespace {

class WithReplicas : public Command {
 protected:
  /// The words, and where the master is.
  std::vector<std::string> at_master(std::vector<std::string> words) const {
    words.insert(words.begin() + 1, {"--url", servers_.url()});
    return words;
  }

  replicated_server servers_{1};
  redis_probe master_{servers_.master(), 10s}, replica_{servers_.replica(0), 10s};
};

TEST_F(WithReplicas, RunStartsTheCommandWhenTheyHaveTheLock) {
  program p = run({"a", "--url", servers_.url(), "--sync-replicas", "1"}, "echo held; sleep 600");
  p.wait_for("held");
  EXPECT_EQ(replica_.integer({"EXISTS", lock_key("a")}), 1);
  EXPECT_GT(replica_.integer({"PTTL", lock_key("a")}), 10000) << "the lease, and not a claim of three seconds";
}

// A script can tell it from a lock that is not free.
TEST_F(WithReplicas, RunHasACodeOfItsOwnWhereTooFewHaveIt) {
  std::vector<std::string> const one_attempt = at_master({"run", "a", "--sync-replicas", "2", "--sync-timeout", "100ms", "--no-wait", "--", "true"});
  EXPECT_EQ(result_of(one_attempt), 80) << output_;
  EXPECT_NE(output_.find("conch: a: too few replicas have the lock: "), std::string::npos) << output_;
  EXPECT_NE(output_.find(" of 2 replicas"), std::string::npos) << output_;
  wait_until([&] { return master_.integer({"EXISTS", lock_key("a")}) == 0; }, "it is not given back");

  std::vector<std::string> const waits =
      at_master({"run", "a", "--sync-replicas", "2", "--sync-timeout", "100ms", "--wait", "5s", "-E", "7", "--json", "--", "true"});
  EXPECT_EQ(result_of(waits), 80) << output_;
  EXPECT_NE(output_.find(R"("exit_code":80})"), std::string::npos) << output_;

  program holder = run({"a", "--url", servers_.url()}, "echo held; sleep 600");
  holder.wait_for("held");
  EXPECT_EQ(result_of(one_attempt), 75) << output_;
}

TEST_F(WithReplicas, TheNumberMayStandInTheFile) {
  std::ofstream{file("conch.toml")} << "sync-replicas = 2\nsync-timeout = '100ms'\n";
  std::filesystem::permissions(file("conch.toml"), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(result_of(at_master({"run", "a", "-n", "--config", file("conch.toml"), "--", "true"})), 80) << output_;
  EXPECT_EQ(result_of(at_master({"run", "a", "--config", file("conch.toml"), "--sync-replicas", "1", "--sync-timeout", "1s", "--", "true"})), 0)
      << output_;
}

TEST_F(WithReplicas, ThereAreNoneOfSeveralServers) {
  EXPECT_EQ(result_of({"run", "a", "--url", "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "--sync-replicas", "1", "--", "true"}), 64) << output_;
  EXPECT_NE(output_.find("several servers decide"), std::string::npos) << output_;
}

TEST_F(WithReplicas, BenchMeasuresWhatTheyCost) {
  EXPECT_EQ(result_of(at_master({"bench", "--time", "50ms", "--sync-replicas", "1"})), 0) << output_;
  EXPECT_NE(output_.find("the least is 3 and the acknowledgement of 1 replica"), std::string::npos) << output_;
  EXPECT_NE(output_.find("the least is 2 and the acknowledgement of 1 replica"), std::string::npos) << output_;
  EXPECT_EQ(result_of(at_master({"bench", "--time", "50ms", "--sync-replicas", "1", "--json"})), 0) << output_;
  EXPECT_NE(output_.find(R"("sync_replicas":1)"), std::string::npos) << output_;
  EXPECT_EQ(result_of(at_master({"bench", "--time", "50ms", "--sync-replicas", "2", "--sync-timeout", "100ms"})), 80) << output_;
}

}  // namespace
}  // namespace conch::test
