// The simulation as tests: schedules that must break no promise, and deliberate faults that must be found.
#include "sim/runner.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace conch::sim {
namespace {

void breaks_no_promise(plan const& p) {
  outcome const o = run_plan(p);
  EXPECT_FALSE(o.failed()) << o.words;
}

// Four tests, so that they run side by side.
class Schedules : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Schedules, BreakNoPromise) {
  auto const found = run_many(GetParam(), 0, share_of(5000), 1, nullptr);
  if (found) {
    FAIL() << found->what.words << "\nseed " << found->seed << "\n"
           << explain(found->seed, found->what) << "replay: scripts/sim --replay " << found->seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Seed, Schedules, testing::Values(1, 2, 3, 4));

/// It was given back while its renewal was under way, and deleted by an operator before that arrived.
TEST(Simulation, P6WhatARenewalDoesNotFindIsNotOwed) { breaks_no_promise(make_plan(13471663808489923765U)); }

/// The memory was full, and the command that failed did so for another reason.
TEST(Simulation, P6AFullMemoryIsNotBlamedForAnotherFailure) { breaks_no_promise(make_plan(3820727049233843764U)); }

/// A request to let go was for a grant that an operator then took away; the same id was granted the lock again.
TEST(Simulation, ARequestIsForTheGrantThatItNamesAlsoIfItsIdIsGrantedAgain) {
  breaks_no_promise(make_plan(17525507930806948636U));
}

/// A process was paused with half a write behind it, and the rest of it, with new credentials, came after the pause.
TEST(Simulation, P10NewCredentialsMayWaitForAProcessThatIsPaused) {
  breaks_no_promise(make_permits_plan(12631693414298635089U, engine::permit_kind::segments));
}

/// The provider answered when the process had been paused for longer than the client waits for an answer.
TEST(Simulation, P10CredentialsThatComeTooLateAreNotWritten) {
  breaks_no_promise(make_replicas_plan(17331173266197117024U));
}

/// A WAIT told of the renewal of one permit, and another one of the same client was refused.
TEST(Simulation, P11AWaitTellsOfThePermitsThatWereRenewedBefore) {
  breaks_no_promise(make_synced_permits_plan(10802239535596303253U, engine::permit_kind::semaphore));
}

TEST(Simulation, TheSameSeedGivesTheSameWorld) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    plan const p = make_plan(seed_at(7, i));
    ASSERT_EQ(run_plan(p, true).trace, run_plan(p, true).trace);
  }
}

TEST(Simulation, MutantsHaveDifferentNamesAndMatchTheScripts) {
  std::set<std::string_view> names;
  for (mutant const& m : all_mutants()) {
    EXPECT_TRUE(names.insert(m.name).second) << m.name;
    EXPECT_NO_THROW(activate(&m)) << m.name;
  }
  activate(nullptr);
  EXPECT_GE(names.size(), 40u);
}

TEST(Simulation, FindsTheSeldomOnesWhereTheyWereSeen) {
  auto const run = [](std::uint64_t seed) { return run_plan(make_plan(seed)); };
  for (char const* const name : {"late-cleanup-not-extended", "owed-by-the-next", "lost-hold-prolonged"}) {
    auto const found = find_where_seen("one server", *find_mutant(name), run);
    ASSERT_TRUE(found) << name;
    EXPECT_FALSE(run(found->seed).failed()) << "without " << name;
  }
}

// `scripts/sim --mutants` looks for all of them; a few take more schedules than a test has time for.
TEST(Simulation, FindsWhatIsBrokenOnPurpose) {
  std::size_t found = 0;
  std::string missed;
  for (mutant const& m : all_mutants()) {
    if (find_broken("one server", m, 1, 600)) {
      ++found;
    } else {
      missed += " " + std::string{m.name};
    }
  }
  EXPECT_GE(found, 60u) << "not found in 600 schedules:" << missed;
}

}  // namespace
}  // namespace conch::sim
