// The simulation of clients whose servers keep what was lost or granted for a while: schedules that must break no
// promise, and deliberate faults that must be found.
#include "sim/runner.hpp"

#include <gtest/gtest.h>

#include <string>

namespace conch::sim {
namespace {

TEST(DelaysSimulation, SchedulesBreakNoPromise) {
  auto const found = run_many(31, 0, share_of(5000), 1, nullptr, {}, make_delays_plan);
  if (found)
    FAIL() << found->what.words << "\nseed " << found->seed << "\n"
           << explain(found->seed, found->what, make_delays_plan);
}

TEST(DelaysSimulation, FindsWhatIsBrokenOnPurpose) {
  std::string missed;
  for (mutant const& m : delays_mutants()) {
    if (!find_broken("delays", m, 1, 20000, make_delays_plan)) missed += " " + std::string{m.name};
  }
  EXPECT_EQ(delays_mutants().size(), 17u);
  EXPECT_EQ(missed, "");
}

}  // namespace
}  // namespace conch::sim
