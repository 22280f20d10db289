// The simulation of a Cluster whose slots move and whose replicas take over: schedules that must break no promise, and
// deliberate faults that must be found.
#include "sim/runner.hpp"

#include <gtest/gtest.h>

#include <string>

namespace conch::sim {
namespace {

TEST(ClusterSimulation, SchedulesBreakNoPromise) {
  auto const found = run_many(21, 0, share_of(2000), 1, nullptr, {}, make_cluster_plan);
  if (found)
    FAIL() << found->what.words << "\nseed " << found->seed << "\n"
           << explain(found->seed, found->what, make_cluster_plan);
}

TEST(ClusterSimulation, FindsWhatIsBrokenOnPurpose) {
  std::string missed;
  for (mutant const& m : cluster_mutants()) {
    if (!find_broken("cluster", m, 1, 20000, make_cluster_plan)) missed += " " + std::string{m.name};
  }
  EXPECT_EQ(cluster_mutants().size(), 11u);
  EXPECT_EQ(missed, "");
}

}  // namespace
}  // namespace conch::sim
