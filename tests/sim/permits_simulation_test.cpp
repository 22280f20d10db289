// The simulation of locks with several owners, kind by kind: schedules that must break no promise, and deliberate
// faults that must be found.
#include "sim/runner.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace conch::sim {
namespace {

using engine::permit_kind;

class PermitsSchedules : public testing::TestWithParam<permit_kind> {
 protected:
  static plan_maker maker() {
    return [kind = GetParam()](std::uint64_t seed) { return make_permits_plan(seed, kind); };
  }
};

TEST_P(PermitsSchedules, BreakNoPromise) {
  auto const found = run_many(11, 0, share_of(3000), 1, nullptr, {}, maker());
  if (found)
    FAIL() << found->what.words << "\nseed " << found->seed << "\n" << explain(found->seed, found->what, maker());
}

TEST_P(PermitsSchedules, FindWhatIsBrokenOnPurpose) {
  std::size_t tried = 0;
  std::string missed;
  for (mutant const& m : permits_mutants()) {
    if (m.rule.substr(0, m.rule.find(' ')).find(static_cast<char>(GetParam())) == std::string_view::npos) continue;
    ++tried;
    if (!find_broken("permits " + std::string{static_cast<char>(GetParam())}, m, 1, 30000, maker()))
      missed += " " + std::string{m.name};
  }
  EXPECT_GE(tried, 5u);
  EXPECT_EQ(missed, "");
}

INSTANTIATE_TEST_SUITE_P(Kind, PermitsSchedules,
                         testing::Values(permit_kind::semaphore, permit_kind::shared, permit_kind::segments,
                                         permit_kind::reentrant),
                         [](testing::TestParamInfo<permit_kind> const& of) {
                           switch (of.param) {
                             case permit_kind::semaphore: return "Semaphore";
                             case permit_kind::shared: return "SharedMutex";
                             case permit_kind::reentrant: return "ReentrantMutex";
                             default: return "StripedMutex";
                           }
                         });

TEST(PermitsSimulation, TheSameSeedGivesTheSameWorld) {
  for (std::uint64_t i = 0; i < 30; ++i) {
    plan const p = make_permits_plan(seed_at(7, i), permit_kind::semaphore);
    ASSERT_EQ(run_plan(p, true).trace, run_plan(p, true).trace);
  }
}

TEST(PermitsSimulation, MutantsHaveDifferentNamesAndMatchTheScripts) {
  std::set<std::string_view> names;
  for (mutant const& m : permits_mutants()) {
    EXPECT_TRUE(names.insert(m.name).second) << m.name;
    EXPECT_NO_THROW(activate(&m)) << m.name;
  }
  activate(nullptr);
}

}  // namespace
}  // namespace conch::sim
