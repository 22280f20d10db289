// The warning before a loss: when a renewal counts as late, and what ends the danger.
#include "engine_fixture.hpp"

namespace conch::engine {
namespace {

// A lease of 30 s is good for 29698 ms. Its renewal is due after 9.9 s at the latest, and its loss is reported after
// 29198 ms: half of the time between passes after 19.5 s. Both are rounded down to a grid of 464 ms.
class EngineEndangered : public engine_test {
 public:
  static constexpr duration good_for = 30s - 302ms, lost_after = good_for - 500ms;
  static constexpr duration late_after = (good_for / 3 + lost_after) / 2, grid = good_for / 64;

  EngineEndangered() {
    settings.keep_alive = 0s;
    start_connected();
  }

  void on_endangered(acquisition& a, danger const& d) override {
    EXPECT_TRUE(a.endangered);
    last = d;
    events.push_back(static_cast<caller&>(a).label + " endangered");
  }
  void on_safe_again(acquisition& a) override {
    EXPECT_FALSE(a.endangered);
    events.push_back(static_cast<caller&>(a).label + " safe again");
  }

  /// Lets time pass until something is reported.
  void await_event(duration at_most) {
    time_point const until = now + at_most;
    while (events.empty() && timers.next() <= until) {
      now = std::max(now, timers.next());
      cohort->tick(now);
    }
  }
  /// A holder whose renewal is late.
  caller& endangered(std::string label, wanted w = {}) {
    caller& a = holding(label, "L", w);
    await_event(30s);
    EXPECT_EQ(received(), texts{label + " endangered"});
    take_sent();
    return a;
  }
  void abandon(caller& a) { cohort->abandon(a, now); }
  /// The renewals that were asked for are answered.
  void answer_renewals() {
    while (!unanswered.empty()) {
      unanswered.front().starts_with("renew") ? renewed({1}) : answer({});
    }
  }

  danger last;
};

TEST_F(EngineEndangered, AfterHalfOfTheTimeBetweenTheRenewalAndTheLoss) {
  caller& a = holding("a");
  await_event(30s);
  EXPECT_EQ(received(), texts{"a endangered"});
  EXPECT_LE(now - begin, late_after);
  EXPECT_GT(now - begin, late_after - 2 * grid);
  EXPECT_EQ(last.left, lost_after - (now - begin));
  EXPECT_EQ(last.silent, now - begin);
  EXPECT_NE(last.why, "");
  EXPECT_TRUE(a.endangered);
  EXPECT_EQ(stats.endangered, 1u);
  EXPECT_EQ(stats.warnings, 1u);
  EXPECT_EQ(stats.losses, 0u);
}

TEST_F(EngineEndangered, SaysWhatKeepsItFromBeingRenewed) {
  holding("a");
  disconnect();
  await_event(30s);
  EXPECT_EQ(received(), texts{"a endangered"});
  EXPECT_EQ(last.why, "the connection is lost");
}

TEST_F(EngineEndangered, UntilARenewalSucceeds) {
  caller& a = endangered("a");
  renewed({1});
  EXPECT_EQ(received(), texts{"a safe again"});
  EXPECT_EQ(stats.endangered, 0u);
  EXPECT_EQ(stats.warnings, 1u);
  EXPECT_TRUE(a.deadline() > now);
  advance(1s);
  EXPECT_EQ(received(), texts{});
}

TEST_F(EngineEndangered, OrUntilItIsLost) {
  endangered("a");
  await_event(30s);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(now - begin, lost_after);
  EXPECT_EQ(stats.endangered, 0u);
  EXPECT_EQ(stats.losses, 1u);
}

TEST_F(EngineEndangered, OrUntilItIsReleased) {
  std::vector<void (EngineEndangered::*)(caller&)> const ends{&EngineEndangered::release, &EngineEndangered::abandon,
                                                              &EngineEndangered::detach};
  for (auto const end : ends) {
    start_connected();
    caller& a = endangered("a");
    EXPECT_EQ(stats.endangered, 1u);
    (this->*end)(a);
    EXPECT_EQ(stats.endangered, 0u);
    EXPECT_EQ(received(), texts{});
    EXPECT_EQ(stats.warnings, 1u);
  }
}

TEST_F(EngineEndangered, OnceInEachTimeOfDanger) {
  endangered("a");
  for (int i = 0; i < 3; ++i) {
    renewed({1});
    EXPECT_EQ(received(), texts{"a safe again"});
    await_event(30s);
    EXPECT_EQ(received(), texts{"a endangered"});
  }
  EXPECT_EQ(stats.warnings, 4u);
}

TEST_F(EngineEndangered, NotWhileRenewalsAreAnsweredInTime) {
  holding("a");
  for (int i = 0; i < 600; ++i) {
    advance(500ms);
    answer_renewals();
  }
  EXPECT_EQ(received(), texts{});
  EXPECT_EQ(stats.warnings, 0u);
}

TEST_F(EngineEndangered, NotAHoldThatIsNotRenewed) {
  holding("a", "L", {.fixed = true});
  await_event(1min);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(stats.warnings, 0u);
}

TEST_F(EngineEndangered, NotAHoldWhoseMaxHoldIsOver) {
  holding("a", "L", {.max_hold = 12s});
  advance(10s);
  answer_renewals();
  await_event(1min);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(stats.warnings, 0u);
}

TEST_F(EngineEndangered, AndStaysSoWhenMaxHoldIsOverThen) {
  endangered("a", {.max_hold = 22s});
  advance(5s);
  EXPECT_EQ(stats.endangered, 1u);
  await_event(30s);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(stats.endangered, 0u);
}

TEST_F(EngineEndangered, NotAFixedLeaseBecauseItsExtensionIsNotAnswered) {
  caller& a = holding("a", "L", {.fixed = true});
  advance(24s);
  extend(a, 40s);
  advance(4s);
  EXPECT_EQ(received(), texts{"a extended unreachable"});
  await_event(1min);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(stats.warnings, 0u);
}

TEST_F(EngineEndangered, AHoldIsSafeWhenItIsExtended) {
  caller& a = endangered("a");
  extend(a, 30s);
  renewed({1});
  EXPECT_EQ(received().front(), "a safe again");
}

// A claim of 3 s is confirmed by its first renewal.
TEST_F(EngineEndangered, AClaimThatIsNotConfirmed) {
  for (bool const fixed : {false, true}) {
    SCOPED_TRACE(fixed);
    start_connected();
    queued("a", "L", {.fixed = fixed});
    push(1, 100);
    EXPECT_EQ(received().back(), granted("a", 100));
    time_point const granted_at = now;
    await_event(3s);
    EXPECT_EQ(received(), texts{"a endangered"});
    EXPECT_GT(now - granted_at, 1s);
    EXPECT_LT(now - granted_at, 2s);
    answer_renewals();
    EXPECT_EQ(received(), texts{"a safe again"});
  }
}

TEST_F(EngineEndangered, ARenewalThatLeavesNoTimeForTheNextEndsNoDanger) {
  settings.command_timeout = 1min;  // the answer is waited for
  start_connected();
  caller& a = endangered("a");
  time_point const before = a.deadline();
  advance(9s);  // the answer comes when its own lease is nearly over, too
  EXPECT_EQ(stats.losses, 0u);
  disconnect();
  advance(500ms);
  EXPECT_EQ(a.deadline(), before);
  EXPECT_EQ(stats.endangered, 1u);
  connect();
  settle_connection();
  renewed({1});
  EXPECT_EQ(received(), texts{"a safe again"}) << "it was written just now";
}

TEST_F(EngineEndangered, NotWithoutTimeBetweenTheWarningAndTheLoss) {
  holding("a");
  sleep(1h);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(stats.warnings, 0u);
}

TEST_F(EngineEndangered, AlsoAShortLeaseThatIsRenewedLate) {
  settings.renew_every = 50ms;
  settings.lease = 100ms;
  start_connected();
  holding("a");
  await_event(1s);
  EXPECT_EQ(received(), texts{"a endangered"});
  EXPECT_GT(now - begin, 50ms);
  await_event(1s);
  EXPECT_EQ(received(), texts{"a lost lost"});
}

TEST_F(EngineEndangered, WithoutAnotherTimerThanThatOfTheRenewal) {
  holding("a");
  timer const& watch = static_cast<lock_entry*>(cohort->find("L")->owner)->watch;
  EXPECT_GT(watch.at() - begin, good_for / 3 - grid);
  EXPECT_LE(watch.at() - begin, good_for / 3);
}

}  // namespace
}  // namespace conch::engine
