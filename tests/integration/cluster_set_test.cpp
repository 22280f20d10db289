// The Cluster that tests have.

#include "support/cluster_set.hpp"

#include <gtest/gtest.h>

#include <string>

namespace conch::test {
namespace {

TEST(ClusterSet, MovesASlotWithItsKeys) {
  cluster_set c;
  EXPECT_EQ(c.owner(0), 0u);
  EXPECT_EQ(c.owner(16383), 2u);
  std::string const name = c.name_at(0), key = "{" + name + "}";
  unsigned const slot = c.slot_of(key);
  ASSERT_EQ(c.owner(slot), 0u);
  EXPECT_EQ(redis_probe{c.node(0)}.command({"SET", key, "here"}), "OK");
  c.begin_move(slot, 1);
  EXPECT_EQ(redis_probe{c.node(0)}.command({"GET", key}), "here");
  EXPECT_EQ(c.move_keys(slot, 1), 1u);
  EXPECT_TRUE(redis_probe{c.node(0)}.command({"GET", key}).starts_with("(error) ASK ")) << "it is still on its way";
  c.end_move(slot, 1);
  EXPECT_EQ(c.owner(slot, 0), 1u);
  EXPECT_EQ(redis_probe{c.node(1)}.command({"GET", key}), "here");
}

TEST(ClusterSet, FailsOverToAReplica) {
  cluster_set c{{.replicas = 3}};
  std::string const name = c.name_at(1), key = "{" + name + "}";
  redis_probe before{c.node(1)};
  EXPECT_EQ(before.command({"SET", key, "here"}), "OK");
  EXPECT_EQ(before.command({"WAIT", "1", "10000"}), "1");
  c.fail_over(4);
  EXPECT_EQ(c.owner(c.slot_of(key)), 4u);
  EXPECT_EQ(redis_probe{c.node(4)}.command({"GET", key}), "here");
}

}  // namespace
}  // namespace conch::test
