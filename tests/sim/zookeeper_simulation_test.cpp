// The simulation of locks in ZooKeeper as tests.
#include "sim/mutants/mutants.hpp"
#include "sim/runner.hpp"
#include "sim/worlds/zookeeper_world.hpp"

#include <gtest/gtest.h>

#include <set>

namespace conch::sim {
namespace {

/// Runs the share of these seeds, up to the first broken promise. What came of them is added up.
void run_share(std::uint64_t seeds, zookeeper_locks locks, zookeeper_outcome& sum) {
  for (std::uint64_t i = 0; i < share_of(1000); ++i) {
    std::uint64_t const seed = seed_at(seeds, i);
    zookeeper_outcome const o = run_zookeeper(seed, false, locks);
    ASSERT_EQ(o.promise, 0) << o.words << "\nseed " << seed;
    for (auto const count :
         {&zookeeper_outcome::grants, &zookeeper_outcome::losses, &zookeeper_outcome::expired,
          &zookeeper_outcome::built_anew, &zookeeper_outcome::no_place_told, &zookeeper_outcome::calm_remote_grants,
          &zookeeper_outcome::calm_lists, &zookeeper_outcome::calm_creations, &zookeeper_outcome::beside_others,
          &zookeeper_outcome::in_one_node, &zookeeper_outcome::other_kind_told,
          &zookeeper_outcome::owner_elsewhere_told, &zookeeper_outcome::behind_intervals}) {
      sum.*count += o.*count;
    }
  }
}

class ZookeeperSchedules : public testing::TestWithParam<std::uint64_t> {};

TEST_P(ZookeeperSchedules, BreakNoPromise) {
  zookeeper_outcome sum;
  ASSERT_NO_FATAL_FAILURE(run_share(GetParam(), zookeeper_locks::mutexes, sum));
  EXPECT_GT(sum.grants, share_of(10'000));
  if (all_schedules) {
    EXPECT_GT(sum.losses, 50U);
    EXPECT_GT(sum.expired, 100U);
    EXPECT_GE(sum.built_anew, 10U);
    EXPECT_GT(sum.no_place_told, 20U);
  }
  // With nobody ill one list for each node that is made, and hardly more for each grant of one.
  EXPECT_LT(sum.calm_lists * 10, sum.calm_creations * 13);
  RecordProperty("grants", std::to_string(sum.grants));
  RecordProperty("calm_remote_grants", std::to_string(sum.calm_remote_grants));
  RecordProperty("calm_lists", std::to_string(sum.calm_lists));
  RecordProperty("calm_creations", std::to_string(sum.calm_creations));
}

INSTANTIATE_TEST_SUITE_P(Seed, ZookeeperSchedules, testing::Values(1, 2, 3, 4));

class ZookeeperSchedulesOfAllKinds : public testing::TestWithParam<std::uint64_t> {};

TEST_P(ZookeeperSchedulesOfAllKinds, BreakNoPromise) {
  zookeeper_outcome sum;
  ASSERT_NO_FATAL_FAILURE(run_share(GetParam(), zookeeper_locks::of_all_kinds, sum));
  EXPECT_GT(sum.grants, share_of(15'000));
  if (all_schedules) {
    // What the judge looks at does happen.
    EXPECT_GT(sum.losses, 50U);
    EXPECT_GT(sum.beside_others, 2'000U);
    EXPECT_GT(sum.in_one_node, 1'000U);
    EXPECT_GT(sum.other_kind_told, 200U);
    EXPECT_GT(sum.owner_elsewhere_told, 200U);
  }
}

INSTANTIATE_TEST_SUITE_P(Seed, ZookeeperSchedulesOfAllKinds, testing::Values(5, 6));

class ZookeeperSchedulesWithIntervals : public testing::TestWithParam<std::uint64_t> {};

TEST_P(ZookeeperSchedulesWithIntervals, BreakNoPromise) {
  zookeeper_outcome sum;
  ASSERT_NO_FATAL_FAILURE(run_share(GetParam(), zookeeper_locks::with_intervals, sum));
  EXPECT_GT(sum.grants, share_of(8'000));
  EXPECT_GT(sum.behind_intervals, share_of(2'000));
}

INSTANTIATE_TEST_SUITE_P(Seed, ZookeeperSchedulesWithIntervals, testing::Values(7, 8));

// An acquire that is refused because the name is that of a shared_mutex still has its node while a try of its client
// is granted: the judge took it for a waiter that was passed.
TEST(ZookeeperSimulation, WhatIsRefusedIsNotPassed) {
  zookeeper_outcome const o = run_zookeeper(13074038828805121712U, false, zookeeper_locks::of_all_kinds);
  EXPECT_EQ(o.promise, 0) << o.words;
}

TEST(ZookeeperSimulation, TheSameSeedGivesTheSameWorld) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::uint64_t const seed = seed_at(9, i);
    for (auto const locks : {zookeeper_locks::mutexes, zookeeper_locks::of_all_kinds, zookeeper_locks::with_intervals})
      ASSERT_EQ(run_zookeeper(seed, true, locks).trace, run_zookeeper(seed, true, locks).trace);
  }
}

// Each takes one mutant in four, so that they can run side by side.
class ZookeeperMutants : public testing::TestWithParam<std::size_t> {
 protected:
  static void must_be_found(zookeeper_locks locks) {
    std::span<mutant const> const all = mutants_of(locks);
    constexpr std::uint64_t most = 20'000;
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < all.size(); ++i) {
      mutant const& m = all[i];
      EXPECT_TRUE(names.insert(m.name).second) << m.name;
      if (i % 4 != GetParam()) continue;
      auto const found = find_broken(name_of(locks), m, 1, most, [locks](std::uint64_t seed) {
        zookeeper_outcome const o = run_zookeeper(seed, false, locks);
        return outcome{o.promise, o.words, {}, 0};
      });
      EXPECT_TRUE(found.has_value()) << m.name << ": " << m.words << ", and nothing was found in " << most
                                     << " schedules";
    }
  }
};

TEST_P(ZookeeperMutants, FindsWhatIsBrokenOnPurpose) { must_be_found(zookeeper_locks::mutexes); }

TEST_P(ZookeeperMutants, OfAllKindsFindsWhatIsBrokenOnPurpose) { must_be_found(zookeeper_locks::of_all_kinds); }

TEST_P(ZookeeperMutants, WithIntervalsFindsWhatIsBrokenOnPurpose) { must_be_found(zookeeper_locks::with_intervals); }

INSTANTIATE_TEST_SUITE_P(Quarter, ZookeeperMutants, testing::Range<std::size_t>(0, 4));

}  // namespace
}  // namespace conch::sim
