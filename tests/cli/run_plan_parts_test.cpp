// What `conch run` does next, as tables: no process, no lock, no clock.

#include <gtest/gtest.h>

#include <cli/run_plan.hpp>

namespace conch::cli {
namespace {

using namespace std::chrono_literals;
using kind = run_plan::order::kind;
using state = run_state;
using orders = run_plan::orders;

constexpr int hup = 1, interrupt = 2, kill = 9, usr1 = 10, term = 15, cont = 18;
constexpr int lost_code = 79;

time_point at(duration d) { return time_point{} + 1h + d; }

struct plan : run_plan {
  explicit plan(int warn = 0) : run_plan{500ms, {term, kill, cont, lost_code, 128, warn}} {}

  static plan running() {
    plan p;
    EXPECT_EQ(p.granted(), (orders{{kind::start}}));
    EXPECT_EQ(p.started(), orders{});
    return p;
  }
};

orders const nothing{};
orders const release{{kind::release}};
orders const leave{{kind::leave}};
orders const kill_now{{kind::signal_group, kill}};

orders end_by(time_point t) { return {{kind::signal_group, term}, {kind::kill_at, 0, t}}; }

TEST(RunPlan, ReleasesWhenTheChildHasEndedAndTakesItsCode) {
  plan p = plan::running();
  EXPECT_EQ(p.child_ended(3, false, true, at(1s)), release);
  EXPECT_EQ(p.released(), leave);
  EXPECT_EQ(p.exit_code(), 3);
}

TEST(RunPlan, ReleasesWhereTheChildCannotBeStarted) {
  plan p;
  p.granted();
  EXPECT_EQ(p.cannot_start(127), release);
  EXPECT_EQ(p.released(), leave);
  EXPECT_EQ(p.exit_code(), 127);
}

TEST(RunPlan, EndsWithTheCodeOfAFailedAcquire) {
  plan p;
  EXPECT_EQ(p.not_granted(75), leave);
  EXPECT_EQ(p.exit_code(), 75);
}

TEST(RunPlan, AsksAgainAfterALossBeforeTheStartUnlessItIsToEnd) {
  plan p;
  EXPECT_EQ(p.lost_claim(), (orders{{kind::ask_again}}));
  p.signalled(term, true, at(0s));
  EXPECT_EQ(p.lost_claim(), leave);
  EXPECT_EQ(p.exit_code(), 128 + term);
}

TEST(RunPlan, GivesUpTheWaitAtTheFirstSignalThatMeansAnEnd) {
  plan p;
  EXPECT_EQ(p.signalled(usr1, false, at(0s)), nothing);
  EXPECT_EQ(p.signalled(term, true, at(0s)), (orders{{kind::stop_waiting}}));
  EXPECT_EQ(p.signalled(interrupt, true, at(0s)), nothing);
  EXPECT_EQ(p.not_granted(70), leave);
  EXPECT_EQ(p.exit_code(), 128 + term);
}

TEST(RunPlan, StartsNothingIfTheGrantHasOvertakenTheSignal) {
  plan p;
  p.signalled(interrupt, true, at(0s));
  EXPECT_EQ(p.granted(), release);
  EXPECT_EQ(p.released(), leave);
  EXPECT_EQ(p.exit_code(), 128 + interrupt);
}

TEST(RunPlan, PassesSignalsOnAndEndsTheGroupAtTheSecondThatMeansAnEnd) {
  plan p = plan::running();
  EXPECT_EQ(p.signalled(usr1, false, at(0s)), (orders{{kind::signal_group, usr1}}));
  EXPECT_EQ(p.signalled(usr1, false, at(0s)), (orders{{kind::signal_group, usr1}}));
  EXPECT_EQ(p.signalled(interrupt, true, at(0s)), (orders{{kind::signal_group, interrupt}}));
  EXPECT_EQ(p.state(), state::running);
  EXPECT_EQ(p.signalled(hup, true, at(1s)),
            (orders{{kind::signal_group, hup}, {kind::signal_group, term}, {kind::kill_at, 0, at(1500ms)}}));
  EXPECT_EQ(p.state(), state::ending);
  EXPECT_EQ(p.signalled(usr1, false, at(1s)), (orders{{kind::signal_group, usr1}}));
  EXPECT_EQ(p.signalled(interrupt, true, at(1100ms)), kill_now);
  EXPECT_EQ(p.signalled(interrupt, true, at(1100ms)), nothing);
  EXPECT_EQ(p.child_ended(137, false, true, at(1100ms)), release);
  EXPECT_EQ(p.exit_code(), 137);
}

TEST(RunPlan, EndsTheGroupAtALossAndHasACodeForIt) {
  plan p = plan::running();
  EXPECT_EQ(p.lost_at(at(10s), at(10400ms)), end_by(at(10400ms)));
  EXPECT_EQ(p.child_ended(0, false, false, at(10100ms)), leave) << "nothing to release";
  EXPECT_EQ(p.exit_code(), lost_code);
}

TEST(RunPlan, WarnsTheGroupOnlyWhileItRunsAndOnlyIfAsked) {
  EXPECT_EQ(plan::running().endangered(), nothing);
  plan p{usr1};
  orders const warning{{kind::signal_group, usr1}};
  EXPECT_EQ(p.endangered(), nothing);
  p.granted();
  p.started();
  EXPECT_EQ(p.endangered(), warning);
  EXPECT_EQ(p.state(), state::running);
  p.child_suspended();
  EXPECT_EQ(p.endangered(), warning) << "it gets it with CONT";
  p.resumed();
  p.checked(true);
  p.lost_at(at(10s), at(11s));
  EXPECT_EQ(p.endangered(), nothing) << "it has got TERM";
  p.child_ended(0, false, false, at(10s));
  EXPECT_EQ(p.endangered(), nothing);
}

TEST(RunPlan, GivesNoMoreThanTheGraceAndNoneWhereAnotherMayHaveTheLock) {
  plan p = plan::running();
  EXPECT_EQ(p.lost_at(at(10s), at(30s)), end_by(at(10500ms)));
  plan late = plan::running();
  EXPECT_EQ(late.lost_at(at(10s), at(9s)), end_by(at(10s)));
}

TEST(RunPlan, KillsTheGroupWhenTheGraceIsOverAndWaitsForAllOfIt) {
  plan p = plan::running();
  p.lost_at(at(10s), at(10400ms));
  EXPECT_EQ(p.grace_over(), kill_now);
  EXPECT_EQ(p.child_ended(137, true, false, at(10500ms)), nothing);
  EXPECT_EQ(p.group_gone(), leave);
  EXPECT_EQ(p.exit_code(), lost_code);
}

TEST(RunPlan, EndsWhatTheChildLeavesBehindBeforeTheRelease) {
  plan p = plan::running();
  EXPECT_EQ(p.child_ended(0, true, true, at(1s)), end_by(at(1500ms)));
  EXPECT_EQ(p.grace_over(), kill_now);
  EXPECT_EQ(p.group_gone(), release);
  EXPECT_EQ(p.exit_code(), 0);
}

TEST(RunPlan, CountsALossWhileTheGroupEnds) {
  plan p = plan::running();
  p.child_ended(0, true, true, at(1s));
  EXPECT_EQ(p.lost_at(at(1100ms), at(1200ms)), (orders{{kind::kill_at, 0, at(1200ms)}}));
  EXPECT_EQ(p.grace_over(), kill_now);
  EXPECT_EQ(p.group_gone(), leave);
  EXPECT_EQ(p.exit_code(), lost_code);
}

TEST(RunPlan, DoesNotCallWorkDoneWhoseLockWasOverBeforeItsEnd) {
  plan p = plan::running();
  EXPECT_EQ(p.child_ended(0, false, false, at(1s)), leave);
  EXPECT_EQ(p.exit_code(), lost_code);
  plan with_others = plan::running();
  EXPECT_EQ(with_others.child_ended(0, true, false, at(1s)), kill_now);
}

TEST(RunPlan, StopsWithTheChildAndLetsItGoOnOnlyIfTheLockIsHeld) {
  plan p = plan::running();
  EXPECT_EQ(p.child_suspended(), (orders{{kind::suspend}}));
  EXPECT_EQ(p.resumed(), (orders{{kind::check}}));
  EXPECT_EQ(p.checked(true), (orders{{kind::signal_group, cont}}));
  EXPECT_EQ(p.state(), state::running);
  EXPECT_EQ(p.resumed(), nothing);

  p.child_suspended();
  p.resumed();
  EXPECT_EQ(p.checked(false), kill_now) << "it must do nothing any more, not even at TERM";
  EXPECT_EQ(p.child_ended(137, false, false, at(1s)), leave);
  EXPECT_EQ(p.exit_code(), lost_code);
}

TEST(RunPlan, KillsAStoppedChildWhoseLockIsLost) {
  plan p = plan::running();
  p.child_suspended();
  EXPECT_EQ(p.lost_at(at(1s), at(2s)), kill_now);
  EXPECT_EQ(p.resumed(), nothing);
}

TEST(RunPlan, LetsAStoppedChildTakeItsTerm) {
  plan p = plan::running();
  p.child_suspended();
  p.signalled(term, true, at(1s));
  EXPECT_EQ(p.signalled(term, true, at(1s)), (orders{{kind::signal_group, term},
                                                     {kind::signal_group, term},
                                                     {kind::signal_group, cont},
                                                     {kind::kill_at, 0, at(1500ms)}}));
}

TEST(RunPlan, HearsNothingAfterTheEnd) {
  plan p = plan::running();
  p.child_ended(0, false, true, at(1s));
  EXPECT_EQ(p.lost_at(at(1s), at(2s)), nothing) << "the release is on its way";
  EXPECT_EQ(p.signalled(term, true, at(1s)), nothing);
  EXPECT_EQ(p.grace_over(), nothing);
  EXPECT_EQ(p.group_gone(), nothing);
  p.released();
  EXPECT_EQ(p.exit_code(), 0);
}

}  // namespace
}  // namespace conch::cli
