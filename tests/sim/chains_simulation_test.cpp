// The simulation of tasks that wait for each other: schedules that must break no promise, and deliberate faults that
// must be found.
#include "sim/runner.hpp"

#include <gtest/gtest.h>

#include <string>

namespace conch::sim {
namespace {

TEST(ChainsSimulation, SchedulesBreakNoPromise) {
  auto const found = run_many(31, 0, share_of(3000), 1, nullptr, {}, make_chains_plan);
  if (found)
    FAIL() << found->what.words << "\nseed " << found->seed << "\n"
           << explain(found->seed, found->what, make_chains_plan);
}

TEST(ChainsSimulation, FindsWhatIsBrokenOnPurpose) {
  std::string missed;
  for (mutant const& m : chains_mutants()) {
    if (!find_broken("chains", m, 1, 20000, make_chains_plan)) missed += " " + std::string{m.name};
  }
  EXPECT_EQ(chains_mutants().size(), 10u);
  EXPECT_EQ(missed, "");
}

}  // namespace
}  // namespace conch::sim
