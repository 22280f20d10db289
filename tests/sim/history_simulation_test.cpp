// The general judge (support/history) beside the others: it explains what users were told in all schedules that break
// no promise, and shows by itself that locks are shared which must not be.
#include "sim/judges/history_run.hpp"
#include "sim/worlds/quorum_world.hpp"
#include "sim/worlds/zookeeper_world.hpp"

#include <gtest/gtest.h>

#include <string>

namespace conch::sim {
namespace {

using engine::permit_kind;

plan make_of(permit_kind kind, std::uint64_t seed) {
  return kind == permit_kind::none ? make_plan(seed) : make_permits_plan(seed, kind);
}

class HistoriesOfKind : public testing::TestWithParam<permit_kind> {};

TEST_P(HistoriesOfKind, OfSchedulesThatBreakNoPromiseHaveAnOrder) {
  std::uint64_t grants = 0;
  for (std::uint64_t i = 0; i < share_of(500); ++i) {
    std::uint64_t const seed = seed_at(31, i);
    history_run const r = run_for_history(make_of(GetParam(), seed));
    ASSERT_EQ(r.judged.is, history::verdict::answer::linearizable) << r.judged.words << "\nseed " << seed;
    grants += r.counted.grants;
  }
  EXPECT_GT(grants, share_of(500));
}

std::string name_of_kind(testing::TestParamInfo<permit_kind> const& of) {
  switch (of.param) {
    case permit_kind::none: return "Mutex";
    case permit_kind::semaphore: return "Semaphore";
    case permit_kind::shared: return "SharedMutex";
    case permit_kind::reentrant: return "ReentrantMutex";
    default: return "StripedMutex";
  }
}

INSTANTIATE_TEST_SUITE_P(Kind, HistoriesOfKind,
                         testing::Values(permit_kind::none, permit_kind::semaphore, permit_kind::shared,
                                         permit_kind::segments, permit_kind::reentrant),
                         name_of_kind);

bool shows_in_a_history(char const* fault, permit_kind kind) {
  activate(find_mutant(fault));
  bool shown = false;
  for (std::uint64_t i = 0; i < 5000 && !shown; ++i)
    shown = run_for_history(make_of(kind, seed_at(31, i)), true).judged.broken();
  activate(nullptr);
  return shown;
}

TEST(Histories, ShowByThemselvesWhatIsBrokenOnPurpose) {
  EXPECT_TRUE(shows_in_a_history("claim-is-lease", permit_kind::none));
  EXPECT_TRUE(shows_in_a_history("permits-one-too-many", permit_kind::semaphore));
  EXPECT_TRUE(shows_in_a_history("permits-one-too-many", permit_kind::shared));
  EXPECT_TRUE(shows_in_a_history("permits-segment-not-taken", permit_kind::segments));
}

/// Does a schedule in which the other judges see it show it in its history as well?
template <class Run>
bool shows_in_a_history_too(char const* fault, Run const& run) {
  activate(find_mutant(fault));
  bool shown = false;
  for (std::uint64_t i = 0; i < 5000 && !shown; ++i) shown = run(seed_at(31, i)).in_history;
  activate(nullptr);
  return shown;
}

TEST(Histories, OfQuorumsAndZooKeeperShowWhatIsBrokenOnPurpose) {
  EXPECT_TRUE(shows_in_a_history_too("quorum-of-less", [](std::uint64_t seed) { return run_quorum(seed); }));
  EXPECT_TRUE(
      shows_in_a_history_too("zk-death-before-is-a-grant", [](std::uint64_t seed) { return run_zookeeper(seed); }));
}

}  // namespace
}  // namespace conch::sim
