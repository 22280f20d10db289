// Small worlds in every order; and what is left out hides no deliberate fault.
#include "sim/exhaustive/checkpoint.hpp"
#include "sim/exhaustive/explorer.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>
#include <vector>

namespace conch::sim {
namespace {

explored explore_all(char const* name, mutant const* broken = nullptr, reductions reduced = {}) {
  exploring how;
  how.broken = broken;
  how.reduced = reduced;
  return explore(*find_scope(name), how);
}

class SmallWorlds : public testing::TestWithParam<char const*> {};

TEST_P(SmallWorlds, BreakNoPromiseInAnyOrder) {
  explored const all = explore_all(GetParam());
  EXPECT_TRUE(all.finished);
  EXPECT_EQ(all.counts.cut_off, 0U);
  EXPECT_FALSE(all.found) << all.found->what.words << "\nscripts/sim --exhaustive " << GetParam() << " --path '"
                          << to_text(all.found->where) << "'";
}

INSTANTIATE_TEST_SUITE_P(OneServer, SmallWorlds,
                         testing::Values("mutex-2c-0f", "mutex-3c-0f", "cancel-2c-0f", "cancel-3c-0f",
                                         "semaphore-3c-0f", "shared-3c-0f", "ids-1c-1f", "declared-2c-0f"));
INSTANTIATE_TEST_SUITE_P(Quorum, SmallWorlds, testing::Values("quorum-1c-0f"));
INSTANTIATE_TEST_SUITE_P(ZooKeeper, SmallWorlds, testing::Values("zookeeper-1c-1f", "zookeeper-2c-0f"));
INSTANTIATE_TEST_SUITE_P(Chains, SmallWorlds, testing::Values("chains-1c-0f"));

class BeginningsOfSmallWorlds : public testing::TestWithParam<char const*> {};

/// These are too large to finish. Of each order the first steps are explored, and the rest is in the order of its time.
TEST_P(BeginningsOfSmallWorlds, BreakNoPromiseInAnyOrder) {
  explored const all = explore_all(GetParam());
  EXPECT_TRUE(all.finished);
  EXPECT_NE(all.counts.cut_off, 0U);
  EXPECT_FALSE(all.found) << all.found->what.words << "\nscripts/sim --exhaustive " << GetParam() << " --path '"
                          << to_text(all.found->where) << "'";
}

INSTANTIATE_TEST_SUITE_P(Scope, BeginningsOfSmallWorlds, testing::Values("quorum-2c-begin", "slot-1c-begin"));

class LargeWorlds : public testing::TestWithParam<char const*> {};

/// For as long as this takes; few of them finish.
TEST_P(LargeWorlds, BreakNoPromiseInManyOrders) {
  exploring how;
  how.most_seconds = 60;
  explored const all = explore(*find_scope(GetParam()), how);
  EXPECT_FALSE(all.found) << all.found->what.words << "\nscripts/sim --exhaustive " << GetParam() << " --path '"
                          << to_text(all.found->where) << "'";
}

INSTANTIATE_TEST_SUITE_P(Slow, LargeWorlds,
                         testing::Values("quorum-1c-1f", "quorum-try-2c-0f", "quorum-2c-0f", "quorum-2c-1f",
                                         "zookeeper-2c-1f", "zookeeper-3c-0f", "slot-1c-1f", "slot-2c-1f",
                                         "chains-2c-0f", "chains-2c-1f", "chains-3c-0f"));

TEST(Exhaustive, P1P4P6WithAFaultOfAnyClientAtAnyMoment) {
  if (!all_schedules) GTEST_SKIP() << "too long for this build";
  explored const all = explore_all("mutex-2c-1f");
  EXPECT_TRUE(all.finished);
  EXPECT_FALSE(all.found) << all.found->what.words << "\nscripts/sim --exhaustive mutex-2c-1f --path '"
                          << to_text(all.found->where) << "'";
}

struct looked_for {
  char const* scope;
  std::vector<char const*> faults;
  std::size_t found, not_found;  // at least
};

class Reductions : public testing::TestWithParam<looked_for> {};

/// With and without each reduction the same ones are found.
TEST_P(Reductions, HideNoDeliberateFault) {
  std::set<std::string_view> found[4];
  for (char const* const name : GetParam().faults) {
    mutant const* const m = find_mutant(name);
    ASSERT_NE(m, nullptr) << name;
    for (int i = 0; i < 4; ++i) {
      if (explore_all(GetParam().scope, m, {(i & 1) != 0, (i & 2) != 0}).found) found[i].insert(name);
    }
  }
  for (int i = 1; i < 4; ++i) EXPECT_EQ(found[i], found[0]);
  EXPECT_GE(found[0].size(), GetParam().found);
  EXPECT_LE(found[0].size() + GetParam().not_found, GetParam().faults.size());
}

constexpr char const* some_fault = "newcomer-takes-what-is-held";

INSTANTIATE_TEST_SUITE_P(
    Scope, Reductions,
    testing::Values(
        looked_for{"mutex-2c-0f",
                   {some_fault, "release-forgets-line", "fence-time-only", "fence-not-kept", "claim-is-lease",
                    "line-ends-with-lock", "renewing-for-ever", "guard-opens-to-all", "release-says-held"},
                   5,
                   1},
        looked_for{"quorum-1c-0f",
                   {"claim-taken-for-lease", "unanswered-not-released", "no-floor", "vote-claimed-for-lease"},
                   4,
                   0},
        looked_for{"slot-1c-begin", {"ask-changes-the-map"}, 1, 0},
        looked_for{"zookeeper-2c-0f",
                   {"zk-gone-before-watched", "zk-fence-of-sequence", "zk-cleanup-not-sent", "zk-lock-node-written"},
                   4,
                   0}),
    [](auto const& of) {
      std::string name = of.param.scope;
      std::erase(name, '-');
      return name;
    });

TEST(Exhaustive, APathIsReplayed) {
  mutant const* const m = find_mutant(some_fault);
  explored const all = explore_all("mutex-2c-0f", m);
  ASSERT_TRUE(all.found);
  outcome const again = run_path(*find_scope("mutex-2c-0f"), path_of(to_text(all.found->where)), m, false);
  EXPECT_EQ(again.words, all.found->what.words);
}

TEST(Exhaustive, GoesOnFromACheckpoint) {
  std::string const file = testing::TempDir() + "conch_exhaustive_checkpoint";
  std::remove(file.c_str());
  exploring how;
  how.checkpoint = file;
  how.most_runs = 7;
  how.reduced = {true, false};  // so that the runs before and after add up
  scope const& s = *find_scope("mutex-2c-0f");
  explored part;
  int times = 0;
  do {
    part = explore(s, how);
    ++times;
  } while (!part.finished && times < 1000);
  EXPECT_GT(times, 1);
  EXPECT_EQ(part.counts.runs, explore_all("mutex-2c-0f", nullptr, how.reduced).counts.runs);
  EXPECT_THROW(explore(*find_scope("mutex-2c-1f"), how), std::runtime_error);
  std::remove(file.c_str());
}

TEST(Exhaustive, SeveralThreadsFinishAScope) {
  exploring how;
  how.threads = 3;
  explored const all = explore(*find_scope("mutex-2c-0f"), how);
  EXPECT_TRUE(all.finished);
  EXPECT_FALSE(all.found);
}

}  // namespace
}  // namespace conch::sim
