// The command where a Cluster keeps the locks.

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "support/cluster_set.hpp"

namespace conch::test {
namespace {

TEST_F(Command, SeesTheLocksOfAllMastersOfACluster) {
  cluster_set set{{.replicas = 3}};
  std::string const url = set.url({1});  // one node is enough
  std::vector<std::string> names;
  std::vector<std::unique_ptr<program>> holders;
  for (std::size_t master = 0; master < 3; ++master) {
    names.push_back(set.name_at(master));
    holders.emplace_back(new program(run({names.back(), "--url", url}, "echo held; sleep 600")));  // it cannot be moved
    holders.back()->wait_for("held");
  }

  EXPECT_EQ(result_of({"list", "--url", url}), 0) << output_;
  for (std::string const& name : names) {
    EXPECT_NE(output_.find(name + ": mutex, held"), std::string::npos) << output_;
    EXPECT_EQ(result_of({"status", name, "--url", url}), 0) << output_;
    EXPECT_EQ(result_of({"list", "--url", url}), 0) << output_;
  }

  EXPECT_EQ(result_of({"doctor", "--url", url}), 1) << output_;  // replicas may lag
  EXPECT_NE(output_.find("ok       Cluster: "), std::string::npos) << output_;
  for (std::size_t i = 0; i < 3; ++i) {
    std::string const master = "127.0.0.1:" + std::to_string(set.node(i).port());
    EXPECT_NE(output_.find(master + ": role: master"), std::string::npos) << output_;
    EXPECT_NE(output_.find(master + ": rights: all "), std::string::npos) << output_;
  }
  expect_hand_over();
  EXPECT_EQ(result_of({"bench", "--time", "50ms", "--url", url}), 0) << output_;

  program watch = conch({"watch", "--every", "100ms", "--url", url});
  EXPECT_NE(watch.wait_for("2").find(": mutex, held"), std::string::npos);
  set.move_slot(set.slot_of("{" + names[0] + "}"), 2);
  EXPECT_EQ(result_of({"list", names[0], "--url", url}), 0) << output_;
  EXPECT_NE(output_.find(names[0] + ": mutex, held"), std::string::npos) << output_;
  EXPECT_EQ(result_of({"unlock", names[0], "--yes", "--url", url}), 0) << output_;
  EXPECT_EQ(holders[0]->wait_for_end(), 79) << "the lock went along to the other master, and was taken away there";
  watch.signal(SIGTERM);
  EXPECT_EQ(watch.wait_for_end(), 128 + SIGTERM);
}

TEST_F(Command, SaysWhatEachNodeOfAClusterSaid) {
  cluster_set set;
  redis_server alone{{.tcp = true}};
  std::string const node = "127.0.0.1:" + std::to_string(set.node(0).port()),
                    server = "127.0.0.1:" + std::to_string(alone.port());
  EXPECT_EQ(result_of({"doctor", "--url", alone.url()}), 1) << output_;
  EXPECT_EQ(result_of({"doctor", "--url", "redis://" + node}), 2) << output_;
  EXPECT_NE(output_.find("redis-cluster://"), std::string::npos) << output_;
  EXPECT_EQ(result_of({"list", "--url", "redis-cluster://" + server}), 64) << "as run: " << output_;
  EXPECT_NE(output_.find(server + ": "), std::string::npos) << output_;
}

}  // namespace
}  // namespace conch::test
