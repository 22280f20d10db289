// The simulation of several locks at once: schedules that must break no promise, and deliberate faults that must be
// found.
#include "sim/runner.hpp"

#include <gtest/gtest.h>

#include <string>

namespace conch::sim {
namespace {

TEST(MultiSimulation, SchedulesBreakNoPromise) {
  auto const found = run_many(11, 0, share_of(5000), 1, nullptr, {}, make_multi_plan);
  if (found)
    FAIL() << found->what.words << "\nseed " << found->seed << "\n"
           << explain(found->seed, found->what, make_multi_plan);
}

TEST(MultiSimulation, FindsWhatIsBrokenOnPurpose) {
  std::string missed;
  for (mutant const& m : multi_mutants()) {
    if (!find_broken("multi", m, 1, 20000, make_multi_plan)) missed += " " + std::string{m.name};
  }
  EXPECT_GE(multi_mutants().size(), 16u);
  EXPECT_EQ(missed, "");
}

}  // namespace
}  // namespace conch::sim
