// The simulation of locks in ZooKeeper as tests.
#include "sim/mutants/mutants.hpp"
#include "sim/runner.hpp"
#include "sim/worlds/zookeeper_world.hpp"

#include <gtest/gtest.h>

#include <set>

namespace conch::sim {
namespace {

class ZookeeperSchedules : public testing::TestWithParam<std::uint64_t> {};

TEST_P(ZookeeperSchedules, BreakNoPromise) {
  zookeeper_outcome sum;
  for (std::uint64_t i = 0; i < share_of(1000); ++i) {
    std::uint64_t const seed = seed_at(GetParam(), i);
    zookeeper_outcome const o = run_zookeeper(seed);
    ASSERT_EQ(o.promise, 0) << o.words << "\nseed " << seed;
    sum.grants += o.grants;
    sum.losses += o.losses;
    sum.expired += o.expired;
    sum.calm_remote_grants += o.calm_remote_grants;
    sum.calm_lists += o.calm_lists;
    sum.calm_creations += o.calm_creations;
  }
  EXPECT_GT(sum.grants, share_of(10'000));
  EXPECT_GT(sum.losses, share_of(50));
  EXPECT_GT(sum.expired, share_of(100));
  // With nobody ill one list for each node that is made, and hardly more for each grant of one.
  EXPECT_LT(sum.calm_lists * 10, sum.calm_creations * 13);
  RecordProperty("grants", std::to_string(sum.grants));
  RecordProperty("calm_remote_grants", std::to_string(sum.calm_remote_grants));
  RecordProperty("calm_lists", std::to_string(sum.calm_lists));
  RecordProperty("calm_creations", std::to_string(sum.calm_creations));
}

INSTANTIATE_TEST_SUITE_P(Seed, ZookeeperSchedules, testing::Values(1, 2, 3, 4));

TEST(ZookeeperSimulation, TheSameSeedGivesTheSameWorld) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::uint64_t const seed = seed_at(9, i);
    ASSERT_EQ(run_zookeeper(seed, true).trace, run_zookeeper(seed, true).trace);
  }
}

// Each takes one mutant in four, so that they can run side by side.
class ZookeeperMutants : public testing::TestWithParam<std::size_t> {};

TEST_P(ZookeeperMutants, FindsWhatIsBrokenOnPurpose) {
  constexpr std::uint64_t most = 20'000;
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < zookeeper_mutants().size(); ++i) {
    mutant const& m = zookeeper_mutants()[i];
    EXPECT_TRUE(names.insert(m.name).second) << m.name;
    if (i % 4 != GetParam()) continue;
    auto const found = run_schedules(1, 0, most, 1, &m, [](std::uint64_t seed) {
      zookeeper_outcome const o = run_zookeeper(seed);
      return outcome{o.promise, o.words, {}, 0};
    });
    EXPECT_TRUE(found.has_value()) << m.name << ": " << m.words << ", and nothing was found in " << most << " schedules";
  }
}

INSTANTIATE_TEST_SUITE_P(Quarter, ZookeeperMutants, testing::Range<std::size_t>(0, 4));

}  // namespace
}  // namespace conch::sim
