// The simulation of a lock over several servers as tests.
#include "sim/mutants.hpp"
#include "sim/quorum_world.hpp"
#include "sim/runner.hpp"

#include <gtest/gtest.h>

namespace conch::sim {
namespace {

class QuorumSchedules : public testing::TestWithParam<std::uint64_t> {};

TEST_P(QuorumSchedules, BreakNoPromise) {
  quorum_outcome sum;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    std::uint64_t const seed = seed_at(GetParam(), i);
    quorum_outcome const o = run_quorum(seed);
    ASSERT_EQ(o.promise, 0) << o.words << "\nseed " << seed;
    sum.calm_grants += o.calm_grants;
    sum.calm_given_back += o.calm_given_back;
    sum.grants += o.grants;
  }
  EXPECT_GT(sum.grants, 20'000u);
  // With nobody ill, also where all ask at the same moment, one vote in ten grants is given back at most.
  EXPECT_LT(sum.calm_given_back * 10, sum.calm_grants);
  RecordProperty("grants", std::to_string(sum.grants));
  RecordProperty("calm_grants", std::to_string(sum.calm_grants));
  RecordProperty("calm_votes_given_back", std::to_string(sum.calm_given_back));
}

INSTANTIATE_TEST_SUITE_P(Seed, QuorumSchedules, testing::Values(1, 2, 3, 4));

TEST(QuorumSimulation, TheSameSeedGivesTheSameWorld) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::uint64_t const seed = seed_at(9, i);
    ASSERT_EQ(run_quorum(seed, true).trace, run_quorum(seed, true).trace);
  }
}

TEST(QuorumSimulation, FindsWhatIsBrokenOnPurpose) {
  std::size_t found = 0;
  std::string missed;
  for (mutant const& m : quorum_mutants()) {
    activate(&m);
    bool caught = false;
    for (std::uint64_t i = 0; i < 500 && !caught; ++i) caught = run_quorum(seed_at(1, i)).promise != 0;
    if (caught) {
      ++found;
    } else {
      missed += " " + std::string{m.name};
    }
  }
  activate(nullptr);
  EXPECT_GE(found, 14u) << "not found in 500 schedules:" << missed;
}

}  // namespace
}  // namespace conch::sim
