#include "engine_fixture.hpp"

#include <algorithm>

namespace conch::engine {
namespace {

class EngineCleanup : public engine_test {
 protected:
  /// A hold was dropped while the server is away. The lease that it had, its drift and the command time-out will be
  /// over after `left`.
  void drop_while_away(duration left = {}) {
    start_connected();
    caller& a = holding("a");
    disconnect();
    cohort->abandon(a, now);
    callers.clear();
    advance(30s + 302ms + settings.command_timeout - left);
  }
};

// ---- a release is sent until it is answered ------------------------------------------------------------------

TEST_F(EngineCleanup, TellsWhetherTheHoldWasStillHeld) {
  for (bool const was_owner : {true, false}) {
    start_connected();
    caller& a = holding("a");
    release(a);
    EXPECT_TRUE(received().empty());
    released(was_owner);
    EXPECT_EQ(received(), texts{was_owner ? "a released ok" : "a not released ok"});
    expect_clean();
  }
}

TEST_F(EngineCleanup, ResendsAReleaseAndTakesNotMineForSuccess) {  // P8
  start_connected();
  caller& a = holding("a");
  release(a);
  disconnect();  // carried out or not: nobody knows
  EXPECT_TRUE(received().empty());
  connect();
  EXPECT_EQ(sent(), (texts{"release L 1", "kill here:1", "subscribe", "prove", "release L 1"}));
  settle_connection();
  removed();
  EXPECT_EQ(received(), texts{"a released ok"});
  expect_clean();
}

// The place lasts for the lease of the holder, which is longer than any of this client's.
TEST_F(EngineCleanup, LeavesALineForAsLongAsTheServerKeepsIt) {
  start_connected();
  caller& a = ask("a", "L", {.lease = 6s});
  take_sent();
  queue(60'000);
  cancel(a, cancel_type::partial);
  time_point const listed_until = now + 66s;
  while (now < listed_until) {
    EXPECT_FALSE(remote->settled()) << (listed_until - now).count();
    while (!unanswered.empty()) answer(fault::refused, "MISCONF");
    advance(1s);
  }
  for (int i = 0; i < 5; ++i) {
    while (!unanswered.empty()) answer(fault::refused, "MISCONF");
    advance(1s);
  }
  EXPECT_TRUE(remote->settled());
}

TEST_F(EngineCleanup, P6ReleasesForAsLongAsAnEarlierLeaseLasts) {
  start_connected();
  caller& a = holding("a", "L", {.lease = 120s});
  extend(a, 5s);
  received();
  release(a);
  time_point const kept_until = now + 120s;
  while (now < kept_until) {
    EXPECT_FALSE(remote->settled()) << (kept_until - now).count();
    while (!unanswered.empty()) answer(fault::refused, "MISCONF");
    advance(1s);
  }
  for (int i = 0; i < 6; ++i) {
    while (!unanswered.empty()) answer(fault::refused, "MISCONF");
    advance(1s);
  }
  EXPECT_TRUE(remote->settled());
}

TEST_F(EngineCleanup, TakesNotMineForWhatItIsWhenTheReleaseWasNeverWrittenBefore) {
  start_connected();
  caller& a = holding("a");
  disconnect();
  release(a);
  connect();
  settle_connection();
  removed();
  EXPECT_EQ(received(), texts{"a not released ok"});
}

TEST_F(EngineCleanup, ReportsAReleaseThatIsNotAnsweredInTimeAndGoesOn) {
  start_connected();
  caller& a = holding("a");
  release(a);
  advance(3s);
  EXPECT_EQ(received(), texts{"a released unreachable"});
  callers.clear();
  EXPECT_FALSE(remote->settled());
  disconnect();
  connect();
  EXPECT_EQ(sent().back(), "release L 1");
  settle_connection();
  released();
  EXPECT_TRUE(received().empty());
  expect_clean();
}

TEST_F(EngineCleanup, SendsTheReleaseOfAnAbandonedHold) {  // P6
  start_connected();
  caller& a = holding("a");
  cohort->abandon(a, now);
  callers.clear();
  EXPECT_EQ(sent(), texts{"release L 1"});
  released();
  EXPECT_TRUE(received().empty());
  expect_clean();
}

TEST_F(EngineCleanup, SendsTheReleaseOfAHoldAbandonedWhileTheServerIsAway) {  // P6
  start_connected();
  caller& a = holding("a");
  disconnect();
  cohort->abandon(a, now);
  callers.clear();
  connect();
  EXPECT_EQ(sent().back(), "release L 1");
}

TEST_F(EngineCleanup, ReleasesOnlyOnce) {  // P7
  start_connected();
  caller& a = holding("a");
  release(a);
  released();
  received();
  sent();
  release(a);
  EXPECT_EQ(received(), texts{"a not released ok"});
  EXPECT_TRUE(sent().empty());
}

// The lease has ended, but the request may still lie in some buffer of the previous connection: until that has been
// ended nobody can say that it will not be carried out.
TEST_F(EngineCleanup, GoesOutOnceMoreWhenNobodyWaitsForItAnyMore) {  // P6
  drop_while_away(1ms);
  EXPECT_FALSE(remote->settled());
  advance(1ms);
  EXPECT_TRUE(remote->settled()) << "a client that closes does not wait for it";
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", "release L 1"}));
  EXPECT_FALSE(remote->settled());
  settle_connection();
  released(false);
  expect_clean();
}

// Its old connection has ended with the server, which may have carried out just before what it had written, and may
// have kept it.
TEST_F(EngineCleanup, GoesOutOnceMoreAtTheNextRunOfTheServer) {  // P6
  drop_while_away();
  connect("2");
  EXPECT_EQ(sent(), (texts{"kill here:2", "subscribe", "prove", "release L 1"}));
  settle_connection();
  released(false);
  expect_clean();
}

// The process was paused for longer than a lease, and the server carried out what it had written just before it went.
TEST_F(EngineCleanup, IsRepeatedAtTheNextServerWhenWhatItEndsMayHaveBeenCarriedOutLate) {  // P6
  start_connected();
  caller& a = ask("a");
  cohort->cancel(a, cancel_type::partial, now);
  EXPECT_EQ(sent(), (texts{"acquire L 1", "release L 1"}));
  now += 30s + 302ms + settings.command_timeout;
  disconnect();
  connect("2");
  EXPECT_EQ(sent(), (texts{"kill here:2", "subscribe", "prove", "release L 1"}));
  settle_connection();
  released(true);
  expect_clean();
}

// What it ends was carried out just before the server ended the old connection; and then the server does not carry out
// the release.
TEST_F(EngineCleanup, IsRepeatedForALeaseAfterTheOldConnectionHasEnded) {  // P6
  drop_while_away();
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", "release L 1"}));
  settle_connection();
  answer(fault::refused, "OOM");
  EXPECT_FALSE(remote->settled());
  advance(100ms);
  EXPECT_EQ(sent(), texts{"release L 1"});
  released(false);
  expect_clean();
}

// Its old connection cannot be ended. It may deliver a leave when the lock has been passed on to that id, and a leave
// that keeps what it is granted makes the lease longer.
TEST_F(EngineCleanup, GoesOutOnceMoreWithoutClientKill) {  // P6
  start_connected(false);
  caller& a = ask("a");
  queue(30'000);
  cancel(a, cancel_type::total);
  EXPECT_EQ(sent(), (texts{"acquire L 1", "leave L 1"}));
  disconnect();
  advance(10min);
  EXPECT_EQ(received(), texts{"a failed cancelled"});
  EXPECT_TRUE(remote->settled()) << "a client that closes does not wait for it";
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", "release L 1"}));
  settle_connection(false);
  answer(fault::refused, "OOM");
  EXPECT_FALSE(remote->settled()) << "for a lease more";
  advance(100ms);
  EXPECT_EQ(sent(), texts{"release L 1"});
  released(true);
  expect_clean();
}

// ---- refusals ------------------------------------------------------------------------------------------------

TEST_F(EngineCleanup, RepeatsARefusedReleaseUntilTheLeaseIsOver) {  // P6
  settings.keep_alive = 0s;
  for (fault const what : {fault::refused, fault::try_later}) {
    start_connected();
    time_point const from = now;
    caller& a = holding("a");
    release(a);
    take_sent();
    answer(what, "OOM");
    int repeated = 0;
    time_point last = now;
    duration pause{};
    while (!remote->settled()) {
      ASSERT_LT(now - from, 40s);
      advance(5ms);
      for (auto const& command : take_sent()) {
        EXPECT_EQ(command.text, "release L 1");
        pause = std::max(pause, command.at - last);
        last = command.at;
        ++repeated;
        answer(what, "OOM");
      }
    }
    EXPECT_GT(repeated, 8);
    EXPECT_LT(repeated, 60) << "more and more slowly";
    EXPECT_LE(pause, 4s);
    EXPECT_GE(now - from, 30s);
    EXPECT_LE(now - last, 50ms) << "once more at the end: the longer lease of somebody else may keep a place in line";
    EXPECT_EQ(received(), texts{what == fault::refused ? "a released server_refused" : "a released unreachable"})
        << "to whom it was reported in time";
    std::string const plain = what == fault::refused ? "the lock server refused" : "the lock server cannot be reached";
    EXPECT_EQ(last_failure.message(), plain + ": OOM (releasing lock \"L\")");
    expect_clean();
  }
}

// It found the lock held; or an earlier script gave it back before it ran out of memory, and ended with an error.
TEST_F(EngineCleanup, P8SucceedsWhenTheServerRecoversWhateverTheRefusedScriptHadDone) {
  for (bool const is_still_held : {true, false}) {
    start_connected();
    caller& a = holding("a");
    release(a);
    answer(fault::refused, "OOM");
    take_sent();
    advance(200ms);
    EXPECT_EQ(sent(), texts{"release L 1"});
    released(is_still_held);
    EXPECT_EQ(received(), texts{"a released ok"});
    expect_clean();
  }
}

TEST_F(EngineCleanup, EndsWithWhatRepeatingWouldNotMend) {
  struct {
    fault what;
    char const* report;
  } const table[] = {{fault::wrong_type, "a not released wrong_type"},
                     {fault::access_denied, "a not released access_denied"},
                     {fault::malformed, "a not released protocol"}};
  for (auto const& row : table) {
    start_connected();
    caller& a = holding("a");
    release(a);
    answer(row.what, "WORDS");
    EXPECT_EQ(received(), texts{row.report});
    expect_clean();
  }
}

TEST_F(EngineCleanup, LeavesAConnectionToAServerThatMayNotWrite) {
  start_connected();
  caller& a = holding("a");
  release(a);
  answer(fault::reconnect, "READONLY");
  EXPECT_EQ(dropped(), texts{"READONLY"});
  disconnect();
  connect();
  EXPECT_EQ(sent().back(), "release L 1");
  settle_connection();
  released();
  EXPECT_EQ(received(), texts{"a released ok"});
  expect_clean();
}

TEST_F(EngineCleanup, TakesNothingFromAnAnswerThatIsTooShort) {
  start_connected();
  caller& a = holding("a");
  release(a);
  answer({1, 0});
  EXPECT_EQ(dropped().size(), 1u);
  EXPECT_TRUE(received().empty());
  disconnect();
  connect();
  settle_connection();
  released(false);
  EXPECT_EQ(received(), texts{"a released ok"});
}

TEST_F(EngineCleanup, RepeatsARefusedReleaseAtOnceWhenTheServerGrantsAgain) {  // P6
  settings.keep_alive = 0s;
  start_connected();
  caller& a = queued("a");
  cancel(a, cancel_type::terminal);
  callers.clear();
  take_sent();
  for (int i = 0; i < 4; ++i) {
    answer(fault::try_later, "BUSY");
    if (i < 3) advance(1s);
  }
  take_sent();
  push(1, 100);
  EXPECT_EQ(sent(), texts{"release L 1"});
  released(true);
  expect_clean();
}

// ---- the kick ------------------------------------------------------------------------------------------------

// P4: the next in line may be dead behind a connection the server believes in. The client that passed the lock on while
// more were waiting checks on it when the claim ends, by the server's clock: a hundredth later by ours.

TEST_F(EngineCleanup, KicksAfterEveryClaimThatNobodyTook) {
  settings.keep_alive = 0s;
  start_connected();
  caller& a = holding("a");
  release(a);
  released(true, true, true);
  EXPECT_EQ(received(), texts{"a released ok"});
  EXPECT_TRUE(remote->settled()) << "nothing is owed: closing does not wait for it";
  take_sent();
  for (std::uint64_t dead = 1; dead < 5; ++dead) {
    advance(3s + 30ms);
    EXPECT_TRUE(sent().empty()) << "a look that comes too early is the last";
    advance(160ms);
    EXPECT_EQ(sent(), texts{"release L 1"});
    EXPECT_EQ(stats.kicks, dead);
    answer({0, 1, 1, server_us()});  // and it passed on again
  }
  advance(4s);
  take_sent();
  answer({0, 0, 0, server_us()});  // it is held
  advance(1min);
  EXPECT_TRUE(sent().empty());
  expect_clean();
}

// A replica that had missed the release took over: there the kick is the release, and the next owner may be dead as
// well.
TEST_F(EngineCleanup, KicksAgainWhenTheKickFoundItselfOwner) {
  settings.keep_alive = 0s;
  start_connected();
  caller& a = holding("a");
  release(a);
  released(true, true, true);
  advance(4s);
  take_sent();
  answer({1, 1, 1, server_us()});
  advance(4s);
  EXPECT_EQ(sent(), texts{"release L 1"});
  EXPECT_EQ(stats.kicks, 2u);
  answer({0, 1, 0, server_us()});  // to the last in line
  advance(1min);
  EXPECT_TRUE(sent().empty());
  expect_clean();
}

TEST_F(EngineCleanup, KicksWhenItTriedInTheMeantimeAndFoundItBusy) {
  settings.keep_alive = 0s;
  start_connected();
  caller& a = holding("a");
  release(a);
  released(true, true, true);
  advance(1s);
  ask("b", "L", {.once = true});
  take_sent();
  answer({2, 2000, server_us()});
  advance(2s + 190ms);
  EXPECT_EQ(sent(), texts{"release L 2"});
  removed();
  expect_clean();
}

TEST_F(EngineCleanup, KicksWhenItStoodInLineInTheMeantimeAndLeft) {
  settings.keep_alive = 0s;
  start_connected();
  caller& a = holding("a");
  release(a);
  released(true, true, true);
  advance(1s);
  caller& b = ask("b");
  take_sent();
  queue(2000);
  cancel(b, cancel_type::partial);
  EXPECT_EQ(sent(), texts{"release L 2"});
  answer({0, 0, 0, server_us()});
  advance(2s + 190ms);
  EXPECT_EQ(sent(), texts{"release L 2"});
  removed();
  expect_clean();
}

// The new owner gave no sign, and a client found the lock free: that passed it on to the next.
TEST_F(EngineCleanup, KicksWhenAQuestionPassedItOn) {
  settings.keep_alive = 0s;
  for (bool const once : {true, false}) {
    start_connected();
    caller& a = ask("a", "L", {.once = once});
    take_sent();
    once ? answer({2, 3000, server_us(), 0, 1}) : answer({0, 3000, server_us(), 77, 1});
    if (!once) {
      advance(1s);
      cancel(a, cancel_type::total);
      take_sent();
      removed();
      advance(2s);
    } else {
      advance(3s);
    }
    EXPECT_TRUE(sent().empty());
    advance(190ms);
    EXPECT_EQ(sent(), texts{"release L 1"}) << once;
    removed();
    expect_clean();
  }
}

TEST_F(EngineCleanup, KicksWhenAQuestionPassedItOnThatNobodyWaitsForAnyMore) {
  settings.keep_alive = 0s;
  start_connected();
  caller& a = ask("a");
  cancel(a, cancel_type::terminal);
  take_sent();
  answer({0, 3000, server_us(), 77, 1});
  removed();
  advance(3s + 30ms);
  EXPECT_TRUE(sent().empty());
  advance(160ms);
  EXPECT_EQ(sent(), texts{"release L 1"});
  removed();
  expect_clean();
}

TEST_F(EngineCleanup, RepeatsARefusedKick) {
  settings.keep_alive = 0s;
  start_connected();
  caller& a = holding("a");
  release(a);
  released(true, true, true);
  take_sent();
  advance(3190ms);
  EXPECT_EQ(sent(), texts{"release L 1"});
  answer(fault::try_later, "BUSY");
  advance(100ms);
  EXPECT_EQ(sent(), texts{"release L 1"});
  removed();
  advance(1min);
  EXPECT_TRUE(sent().empty());
  expect_clean();
}

TEST_F(EngineCleanup, KicksOnlyWhenItPassedOnAndMoreWereWaiting) {
  settings.keep_alive = 0s;
  for (int which = 0; which < 3; ++which) {
    start_connected();
    caller& a = holding("a");
    release(a);
    take_sent();
    released(true, which == 1, which == 2);
    advance(10s);
    EXPECT_TRUE(sent().empty()) << which;
    expect_clean();
  }
}

TEST_F(EngineCleanup, KicksAfterALeaveThatPassedOn) {
  settings.keep_alive = 0s;
  start_connected();
  caller& a = queued("a");
  cancel(a, cancel_type::total);
  answer({0, 1, 1, server_us()});
  EXPECT_EQ(received(), texts{"a failed cancelled"});
  take_sent();
  advance(3190ms);
  EXPECT_EQ(sent(), texts{"release L 1"});
  removed();
  expect_clean();
}

// A question may have passed the lock on, and its asker leaves the queue before that claim ends. Its leave is repeated
// later in any case, because an earlier connection may still act; to check on the next owner it is repeated when the
// claim ends, and not a claim after the leave.
TEST_F(EngineCleanup, IsRepeatedInTimeToLookAfterWhomAQuestionPassedTheLockOnTo) {  // P4
  settings.keep_alive = 0s;
  settings.command_timeout = 9s;
  start_connected(false);
  caller& a = ask("a");
  disconnect();
  connect();
  settle_connection(false);
  take_sent();
  answer({0, 3000, server_us(), 77, passed_on_flag});
  advance(2s);
  cancel(a, cancel_type::total);
  take_sent();
  answer({0, 0, 1, server_us()});
  EXPECT_EQ(received(), texts{"a failed cancelled"});
  EXPECT_EQ(sent(), texts{"release L 1"});
  answer({0, 0, 1, server_us()});
  advance(1s);
  EXPECT_TRUE(sent().empty()) << "the claim is not over by the server's clock";
  advance(190ms);
  EXPECT_EQ(sent(), texts{"release L 1"});
}

TEST_F(EngineCleanup, DropsTheKickWhenItActsOnTheLockAgain) {
  settings.keep_alive = 0s;
  start_connected();
  caller& a = holding("a");
  release(a);
  released(true, true, true);
  advance(1s);
  ask("b");
  take_sent();
  queue(30'000);
  advance(10s);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(stats.kicks, 0u);
}

TEST_F(EngineCleanup, DoesNotKickWhenTheSameScriptPutItBackInLine) {
  settings.keep_alive = 0s;
  settings.local_slice = 0s;
  start_connected();
  caller& a = holding("a");
  ask("b");
  release(a);
  take_sent();
  released_and_queued(30'000);
  advance(10s);
  EXPECT_EQ(sent(), texts{"acquire L 2"}) << "from its place in line, after a claim";
  EXPECT_EQ(stats.kicks, 0u);
}

TEST_F(EngineCleanup, KicksOnTheNextConnection) {
  settings.keep_alive = 0s;
  for (bool const written : {false, true}) {
    start_connected();
    caller& a = holding("a");
    release(a);
    released(true, true, true);
    if (written) advance(3190ms);
    disconnect();
    if (!written) advance(3190ms);
    take_sent();
    connect();
    EXPECT_EQ(sent().back(), "release L 1") << "nobody knows whether it was carried out";
    settle_connection();
    removed();
    advance(1min);
    EXPECT_TRUE(sent().empty());
    expect_clean();
  }
}

TEST_F(EngineCleanup, ForgetsAKickThatHasBecomePointless) {
  settings.keep_alive = 0s;
  start_connected();
  caller& a = holding("a");
  release(a);
  released(true, true, true);
  disconnect();
  advance(34s);
  take_sent();
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove"})) << "by now every waiter has asked";
  settle_connection();
  expect_clean();
}

TEST_F(EngineCleanup, SendsItsKicksAtOnceWhenTheClientClosesSoThatThoseInLineLookThemselves) {
  start_connected();
  caller& a = holding("a");
  release(a);
  released(true, true, true);
  take_sent();
  remote->drop_kicks(now);
  EXPECT_EQ(sent(), texts{"release L 1"});
  removed();
  expect_clean();
  advance(10s);
  EXPECT_TRUE(sent().empty());
}

TEST_F(EngineCleanup, SendsAKickAgainWithItsSource) {
  start_connected();
  caller& a = holding("a");
  release(a);
  released(true, true, true);
  take_sent();
  advance(3200ms);
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), (texts{"release L 1", "source release L 1"}));
  removed();
  expect_clean();
}

// ---- clean-ups do not block requests --------------------------------------------------------------------

TEST_F(EngineCleanup, DoesNotHinderTheNextAcquireOfTheSameLock) {
  start_connected();
  caller& a = holding("a");
  disconnect();
  cohort->abandon(a, now);
  ask("b");
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", "release L 1", "acquire L 2"}));
  settle_connection();
  released();
  grant(101);
  EXPECT_EQ(received(), texts{granted("b", 101)});
  EXPECT_EQ(stats.held, 1u);
}

TEST_F(EngineCleanup, EndsWhileTheNextHolderHasTheLock) {
  start_connected();
  caller& a = holding("a");
  cohort->abandon(a, now);
  caller& b = ask("b");
  released();
  grant(101);
  release(b);
  released();
  EXPECT_EQ(received(), (texts{granted("b", 101), "b released ok"}));
  expect_clean();
}

TEST_F(EngineCleanup, IsDoneForEachOfManyDeadIds) {
  start_connected();
  for (int i = 0; i < 5; ++i) {
    caller& a = ask("a");
    cancel(a, cancel_type::terminal);
  }
  take_sent();
  disconnect();
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", "release L 1", "release L 2", "release L 3",
                           "release L 4", "release L 5"}));
  settle_connection();
  for (int i = 0; i < 5; ++i) removed();
  expect_clean();
}

}  // namespace
}  // namespace conch::engine
