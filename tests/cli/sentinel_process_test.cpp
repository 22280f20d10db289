// The command where Sentinels name the server.

#include <csignal>

#include "cli/command.hpp"
#include "integration/sentinel_fixture.hpp"

namespace conch::test {
namespace {

TEST_F(Command, AsksTheSentinelsForTheMasterWhateverItDoes) {
  sentinel_set set;
  std::string const url = set.url();
  program holder = run({"jobs", "--url", url}, "echo held; sleep 600");
  holder.wait_for("held");

  EXPECT_EQ(result_of({"status", "jobs", "--url", url}), 0);
  EXPECT_NE(output_.find("jobs: mutex, held"), std::string::npos) << output_;
  EXPECT_EQ(result_of({"list", "--url", url}), 0);
  EXPECT_NE(output_.find("jobs: mutex, held"), std::string::npos) << output_;

  EXPECT_EQ(result_of({"doctor", "--url", url}), 1) << output_;  // replicas may lag
  std::string const master = "127.0.0.1:" + std::to_string(set.server(0).port());
  EXPECT_NE(output_.find("ok       Sentinels: "), std::string::npos) << output_;
  EXPECT_NE(output_.find(" names " + master), std::string::npos) << output_;
  expect_hand_over();

  EXPECT_EQ(result_of({"bench", "--time", "50ms", "--url", url}), 0) << output_;

  program watch = conch({"watch", "--every", "100ms", "--url", url});
  EXPECT_NE(watch.wait_for("2").find("jobs: mutex, held"), std::string::npos);
  set.fail_over();
  set.wait_until_replaced(0);
  std::string const other = "jobs-after";
  program next = run({other, "--url", url}, "echo held; sleep 600");
  next.wait_for("held");
  // Other lines tell of the failover, and that the first lock is there still.
  while (watch.wait_for("2").find(other + ": mutex, held") == std::string::npos) {
  }
  EXPECT_EQ(result_of({"unlock", "jobs", "--yes", "--url", url}), 0) << output_;
  EXPECT_EQ(holder.wait_for_end(), 79) << "the lock went along to the new master, and was taken away there";
  watch.signal(SIGTERM);
  EXPECT_EQ(watch.wait_for_end(), 128 + SIGTERM);
}

TEST_F(Command, SaysWhatEachSentinelSaid) {
  sentinel_set set{{.replicas = 1, .sentinels = 1}};
  std::string const sentinel = "127.0.0.1:" + std::to_string(set.sentinel(0).port());
  std::string const wrong_name = "redis-sentinel://" + sentinel + "?sentinelMasterId=another";
  for (char const* const what : {"list", "bench"}) {
    EXPECT_EQ(result_of({what, "--url", wrong_name}), 76) << "as run: " << output_;
    EXPECT_NE(output_.find(sentinel + ": does not know this name"), std::string::npos) << output_;
  }
  set.sentinel(0).kill();
  EXPECT_EQ(result_of({"list", "--url", set.url()}), 69) << output_;
  EXPECT_NE(output_.find(sentinel + ": "), std::string::npos) << output_;
}

}  // namespace
}  // namespace conch::test
