// The simulation of a master with replicas that lag and take over: schedules that must break no promise, and deliberate faults that must be found.
#include "sim/runner.hpp"

#include <gtest/gtest.h>

#include <string>

namespace conch::sim {
namespace {

TEST(ReplicasSimulation, SchedulesBreakNoPromise) {
  auto const found = run_many(21, 0, share_of(5000), 1, nullptr, {}, make_replicas_plan);
  if (found) FAIL() << found->what.words << "\nseed " << found->seed << "\n" << explain(found->seed, found->what, make_replicas_plan);
}

TEST(ReplicasSimulation, FindsWhatIsBrokenOnPurpose) {
  std::string missed;
  for (mutant const& m : replicas_mutants()) {
    if (!run_many(1, 0, 20000, 1, &m, {}, make_replicas_plan)) missed += " " + std::string{m.name};
  }
  EXPECT_GE(replicas_mutants().size(), 13u);
  EXPECT_EQ(missed, "");
}

TEST(SyncedSimulation, SchedulesBreakNoPromise) {
  auto const found = run_many(21, 0, share_of(5000), 1, nullptr, {}, make_synced_plan);
  if (found) FAIL() << found->what.words << "\nseed " << found->seed << "\n" << explain(found->seed, found->what, make_synced_plan);
}

TEST(SyncedSimulation, FindsWhatIsBrokenOnPurpose) {
  std::string missed;
  for (mutant const& m : synced_mutants()) {
    if (!run_many(1, 0, 20000, 1, &m, {}, make_synced_plan)) missed += " " + std::string{m.name};
  }
  EXPECT_EQ(synced_mutants().size(), 4u);
  EXPECT_EQ(missed, "");
}

}  // namespace
}  // namespace conch::sim
