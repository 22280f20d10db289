// The table of docs/cancellation.md: in every state of an acquire, every kind of cancellation and the time-out, and
// what comes after. "leave" is the release script with its keep flag; after it a grant made meanwhile is still taken.
#include "engine_fixture.hpp"

namespace conch::engine {
namespace {

constexpr cancel_type every_type[] = {cancel_type::total, cancel_type::partial, cancel_type::terminal};

class EngineCancel : public engine_test {
 public:
  EngineCancel() { settings.command_timeout = 3s; }

  void again() { start_connected(); }
};

// ---- not written yet, or waiting locally: leaves at once -----------------------------------------------------

TEST_F(EngineCancel, OfAnUnwrittenRequestLeavesAtOnceAndNothingIsEverSent) {
  for (cancel_type const type : every_type) {
    again();
    disconnect();
    caller& a = ask("a");
    cancel(a, type);
    EXPECT_EQ(received(), texts{"a failed cancelled"});
    expect_clean();
    connect();
    EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove"}));
  }
}

TEST_F(EngineCancel, ByTimeOutOfAnUnwrittenRequestSaysThatTheServerIsUnreachable) {
  again();
  disconnect();
  ask("a", "L", {.wait = 1s});
  advance(1s - 1ns);
  EXPECT_TRUE(received().empty());
  advance(1ns);
  EXPECT_EQ(received(), texts{"a failed unreachable"});
  expect_clean();
}

TEST_F(EngineCancel, OfALocalWaiterLeavesAtOnceAndTheServerHearsNothing) {
  for (cancel_type const type : every_type) {
    for (bool const first : {false, true}) {  // of three that share one place in the server's queue
      again();
      caller& a = queued("a");
      caller& b = ask("b");
      ask("c");
      cancel(first ? a : b, type);
      EXPECT_EQ(received(), texts{first ? "a failed cancelled" : "b failed cancelled"});
      EXPECT_TRUE(sent().empty());
      push(1, 100);
      EXPECT_EQ(received(), texts{granted(first ? "b" : "a", 100)});
    }
  }
}

TEST_F(EngineCancel, OfAWaiterBehindALocalHolderLeavesAtOnce) {
  for (cancel_type const type : every_type) {
    again();
    caller& a = holding("a");
    caller& b = ask("b");
    cancel(b, type);
    EXPECT_EQ(received(), texts{"b failed cancelled"});
    release(a);
    EXPECT_EQ(sent(), texts{"release L 1"});
    released();
    received();
    expect_clean();
  }
}

TEST_F(EngineCancel, ByTimeOutOfALocalWaiterLeavesAtOnce) {
  again();
  holding("a");
  ask("b", "L", {.wait = 2s});
  advance(2s);
  EXPECT_EQ(received(), texts{"b failed timed_out"});
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(stats.timeouts, 1u);
}

// ---- written, no reply yet ----------------------------------------------------------------------------------

TEST_F(EngineCancel, TotalOfAWrittenRequestStillDeliversItsGrant) {
  again();
  caller& a = ask("a");
  cancel(a, cancel_type::total);
  EXPECT_TRUE(received().empty());
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  // The leave script that went out behind the question finds the grant, and keeps it.
  EXPECT_EQ(sent(), (texts{"acquire L 1", "leave L 1"}));
  stay(100);
  EXPECT_TRUE(received().empty());
  release(a);
  released();
  EXPECT_EQ(received(), texts{"a released ok"});
  expect_clean();
}

TEST_F(EngineCancel, TotalOfAWrittenRequestThatWasQueuedLeavesTheLine) {
  again();
  caller& a = ask("a");
  cancel(a, cancel_type::total);
  queue(30'000);
  EXPECT_TRUE(received().empty());
  removed();
  EXPECT_EQ(received(), texts{"a failed cancelled"});
  expect_clean();
}

TEST_F(EngineCancel, TotalOfAWrittenTryEndsBusyOrCancelledButEnds) {
  again();
  caller& a = ask("a", "L", {.once = true});
  cancel(a, cancel_type::total);
  tell_busy();
  removed();
  EXPECT_EQ(received().size(), 1u);
  expect_clean();
}

TEST_F(EngineCancel, PartialOfAWrittenRequestCleansUpAndThenReports) {
  for (bool const was_granted : {false, true}) {
    again();
    caller& a = ask("a");
    cancel(a, cancel_type::partial);
    EXPECT_EQ(sent(), (texts{"acquire L 1", "release L 1"}));
    was_granted ? grant(100) : queue(30'000);
    EXPECT_TRUE(received().empty()) << "not before the clean-up is answered";
    released(was_granted);
    EXPECT_EQ(received(), texts{"a failed cancelled"});
    expect_clean();
  }
}

TEST_F(EngineCancel, TerminalOfAWrittenRequestReportsAtOnceAndCleansUpBehind) {
  for (bool const was_granted : {false, true}) {
    again();
    caller& a = ask("a");
    cancel(a, cancel_type::terminal);
    EXPECT_EQ(received(), texts{"a failed cancelled"});
    EXPECT_EQ(sent(), (texts{"acquire L 1", "release L 1"}));
    callers.clear();  // the caller is gone
    EXPECT_FALSE(remote->settled());
    was_granted ? grant(100) : queue(30'000);
    released(was_granted);
    EXPECT_TRUE(received().empty());
    expect_clean();
  }
}

TEST_F(EngineCancel, ByTimeOutOfAWrittenRequestNeverThrowsAGrantAway) {
  again();
  ask("a", "L", {.wait = 1s});
  advance(1s);
  EXPECT_EQ(sent(), (texts{"acquire L 1", "leave L 1"}));
  EXPECT_TRUE(received().empty());
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  stay(100);
  EXPECT_TRUE(received().empty());
}

TEST_F(EngineCancel, ByTimeOutOfAWrittenRequestThatWasQueuedLeavesTheLine) {
  again();
  ask("a", "L", {.wait = 1s});
  advance(1s);
  queue(30'000);
  removed();
  EXPECT_EQ(received(), texts{"a failed timed_out"});
  expect_clean();
}

// ---- queued on the server -----------------------------------------------------------------------------------

struct queued_row {
  char const* how;     // "total", "partial", "terminal", "time-out"
  char const* script;  // what goes out
  bool at_once;        // reported before the answer
  bool delivers;       // what was granted meanwhile
  char const* report;
};

constexpr queued_row queued_rows[] = {
    {"total", "leave L 1", false, true, "a failed cancelled"},
    {"partial", "release L 1", false, false, "a failed cancelled"},
    {"terminal", "release L 1", true, false, "a failed cancelled"},
    {"time-out", "leave L 1", false, true, "a failed timed_out"},
};

class EngineCancelQueued : public EngineCancel, public testing::WithParamInterface<queued_row> {
 public:
  void begin_leaving() {
    again();
    std::string const how = GetParam().how;
    caller& a = queued("a", "L", {.wait = how == "time-out" ? duration{1s} : duration::max()});
    if (how == "total") cancel(a, cancel_type::total);
    if (how == "partial") cancel(a, cancel_type::partial);
    if (how == "terminal") cancel(a, cancel_type::terminal);
    if (how == "time-out") advance(1s);
    EXPECT_EQ(sent(), texts{GetParam().script});
    EXPECT_EQ(received(), GetParam().at_once ? texts{GetParam().report} : texts{});
  }
  texts report_if_not_yet() const { return GetParam().at_once ? texts{} : texts{GetParam().report}; }
};

TEST_P(EngineCancelQueued, EndsWhenItWasRemoved) {
  begin_leaving();
  removed();
  EXPECT_EQ(received(), report_if_not_yet());
  expect_clean();
}

TEST_P(EngineCancelQueued, TakesOrGivesBackWhatWasGrantedMeanwhile) {
  begin_leaving();
  if (GetParam().delivers) {
    stay(100);
    EXPECT_EQ(received(), texts{granted("a", 100)});
    EXPECT_TRUE(sent().empty());
    release(*callers.back());
    released();
    EXPECT_EQ(received(), texts{"a released ok"});
  } else {
    released(true, true, false);
    EXPECT_EQ(received(), report_if_not_yet());
  }
  expect_clean();
}

TEST_P(EngineCancelQueued, TakesOrGivesBackWhatIsPushedMeanwhile) {
  begin_leaving();
  push(1, 100);
  if (GetParam().delivers) {
    EXPECT_EQ(received(), texts{granted("a", 100)});
    stay(100);
    EXPECT_TRUE(received().empty());
    release(*callers.back());
    released();
    received();
  } else {
    EXPECT_TRUE(received().empty());
    EXPECT_TRUE(sent().empty()) << "a release of it is under way";
    released(true);
    EXPECT_EQ(received(), report_if_not_yet());
  }
  expect_clean();
}

TEST_P(EngineCancelQueued, ReportsWithoutAnAnswerAfterOneCommandTimeOut) {
  bool const has_own_end = std::string{GetParam().how} == "time-out";
  begin_leaving();
  duration const ends = has_own_end ? duration{100ms} : duration{3s};
  advance(ends - 1ns);
  EXPECT_TRUE(received().empty());
  advance(1ns);
  EXPECT_EQ(received(), has_own_end ? texts{"a failed unreachable"} : report_if_not_yet());
  advance(3s - ends);
  EXPECT_EQ(dropped().size(), 1u);
  callers.clear();

  // The clean-up goes on behind it: on the next connection, whatever happened on the old one.
  disconnect();
  connect();
  auto const next = sent();
  ASSERT_FALSE(next.empty());
  EXPECT_EQ(next.back(), GetParam().script);
  settle_connection();
  if (GetParam().delivers) {
    stay(100);  // granted meanwhile, and nobody wants it
    EXPECT_EQ(sent(), texts{"release L 1"});
    released();
  } else {
    removed();
  }
  EXPECT_TRUE(received().empty());
  expect_clean();
}

TEST_P(EngineCancelQueued, SurvivesALostConnection) {
  begin_leaving();
  disconnect();
  EXPECT_TRUE(received().empty());
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", GetParam().script}));
  settle_connection();
  removed();
  EXPECT_EQ(received(), report_if_not_yet());
  expect_clean();
}

TEST_P(EngineCancelQueued, LeavesALaterCallerUnharmed) {
  begin_leaving();
  ask("b");
  if (GetParam().delivers) {
    EXPECT_TRUE(sent().empty()) << "one place in line for this client";
    removed();
    EXPECT_EQ(received(), report_if_not_yet());
    EXPECT_EQ(sent(), texts{"acquire L 2"});
  } else {
    EXPECT_EQ(sent(), texts{"acquire L 2"});
    released(true, true, true);
    EXPECT_EQ(received(), report_if_not_yet());
  }
  grant(101);
  EXPECT_EQ(received(), texts{granted("b", 101)});
}

TEST_P(EngineCancelQueued, EndsWhenTheServerRefusesTheScript) {
  begin_leaving();
  answer(fault::refused, "OOM no");
  if (GetParam().delivers) {
    EXPECT_EQ(received(), texts{GetParam().report});
    EXPECT_EQ(sent(), texts{"release L 1"}) << "the clean-up is the janitor's";
  } else {
    EXPECT_TRUE(received().empty());
    advance(1s);
    EXPECT_EQ(sent(), texts{"release L 1"});
  }
  removed();
  EXPECT_EQ(received(), GetParam().delivers ? texts{} : report_if_not_yet());
  expect_clean();
}

INSTANTIATE_TEST_SUITE_P(Ways, EngineCancelQueued, testing::ValuesIn(queued_rows), [](auto const& row) {
  std::string const name = row.param.how;
  return name == "time-out" ? "TimeOut" : name;
});

TEST_F(EngineCancel, NeverDeliversAGrantThatComesTooLate) {  // P3
  settings.command_timeout = 60s;
  again();
  caller& a = queued("a", "L", {.lease = 5s});
  cancel(a, cancel_type::total);
  take_sent();
  advance(5s - 52ms);
  stay(100);
  EXPECT_EQ(received(), texts{"a failed cancelled"});
  EXPECT_EQ(sent(), texts{"release L 1"});
  released();
  expect_clean();
}

// ---- P11: the wait ends in time, whatever the server does ------------------------------------------------------

struct ending_row {
  char const* how;
  duration cancelled_after;  // max(): it is not
  cancel_type type;
  duration ends;  // counted from the acquire, which may wait for 1 s
  char const* report;
};

constexpr ending_row endings[] = {
    {"not cancelled", duration::max(), cancel_type::total, 1100ms, "a failed unreachable"},
    {"total, long before", 200ms, cancel_type::total, 1100ms, "a failed cancelled"},
    {"partial, just before", 950ms, cancel_type::partial, 1100ms, "a failed cancelled"},
    {"terminal", 200ms, cancel_type::terminal, 200ms, "a failed cancelled"},
};

TEST_F(EngineCancel, ASilentServerMakesNoWaitLongerThanItsUserAllowsAndOneMomentMore) {
  for (ending_row const& row : endings) {
    for (bool const in_line : {false, true}) {
      SCOPED_TRACE(std::string{row.how} + (in_line ? ", in line" : ""));
      again();
      caller& a = in_line ? queued("a", "L", {.wait = 1s}) : ask("a", "L", {.wait = 1s});
      time_point const began = now;
      if (row.cancelled_after != duration::max()) {
        advance(row.cancelled_after);
        cancel(a, row.type);
      }
      if (now < began + row.ends) {
        advance(began + row.ends - 1ns - now);
        EXPECT_TRUE(received().empty());
        advance(1ns);
      }
      EXPECT_EQ(received(), texts{row.report});
      // What is left of it ends in the background.
      disconnect();
      connect();
      settle_connection();
      removed();
      EXPECT_TRUE(received().empty());
      expect_clean();
    }
  }
}

TEST_F(EngineCancel, AGrantThatIsUnderWayIsAwaitedForAFewUsualRoundTrips) {
  again();
  for (int i = 0; i < 60; ++i) {  // until 50 ms are usual
    caller& one = ask("warm");
    advance(50ms);
    grant(100 + i);
    release(one);
    advance(50ms);
    released();
  }
  received();
  sent();
  ask("a", "L", {.wait = 20ms});
  advance(20ms);
  EXPECT_TRUE(received().empty());
  advance(250ms);
  grant(300);
  EXPECT_EQ(received(), texts{granted("a", 300)});
}

// It took nearly 3 s, and the next silence counts after a quarter of a second all the same.
TEST_F(EngineCancel, ASingleSlowAnswerHardlyChangesWhatIsUsual) {
  again();
  caller& slow = ask("slow");
  advance(2900ms);
  grant(100);
  release(slow);
  released();
  received();
  sent();
  ask("a", "L", {.wait = 20ms});
  advance(20ms + 270ms);
  EXPECT_EQ(received(), texts{"a failed unreachable"});
}

// The answers that came in while this process was paused are read before the server counts as silent.
TEST_F(EngineCancel, APauseOfThisProcessIsNoSilenceOfTheServer) {
  again();
  ask("a", "L", {.wait = 1s});
  advance(1s);
  EXPECT_EQ(sent(), (texts{"acquire L 1", "leave L 1"}));
  sleep(2s);
  EXPECT_TRUE(received().empty());
  queue(30'000);
  removed();
  EXPECT_EQ(received(), texts{"a failed timed_out"});
  expect_clean();
}

TEST_F(EngineCancel, EveryWaiterOfALockHearsThatTheServerIsSilent) {
  again();
  ask("a", "L", {.wait = 1s});
  ask("b", "L", {.wait = 1s});
  advance(1s);
  EXPECT_EQ(received(), texts{"a failed unreachable"});
  advance(100ms);
  EXPECT_EQ(received(), texts{"b failed unreachable"});
}

// ---- granted: too late --------------------------------------------------------------------------------------

TEST_F(EngineCancel, OfAGrantedRequestChangesNothing) {
  for (cancel_type const type : every_type) {
    again();
    caller& a = ask("a", "L", {.wait = 1s});
    grant(100);
    sent();
    cancel(a, type);
    advance(2s);  // nor does the time-out
    EXPECT_EQ(received(), texts{granted("a", 100)});
    EXPECT_TRUE(sent().empty());
    EXPECT_GT(a.deadline(), now);
  }
}

TEST_F(EngineCancel, OfWhatIsOverChangesNothing) {
  for (cancel_type const first : every_type) {
    again();
    disconnect();
    caller& a = ask("a");
    cancel(a, first);
    received();
    for (cancel_type const second : every_type) cancel(a, second);
    EXPECT_TRUE(received().empty());
    expect_clean();
  }
}

// ---- cancel after cancel ------------------------------------------------------------------------------------

TEST_F(EngineCancel, TotalAfterTotalOrATimeOutChangesNothing) {
  for (duration const wait : {duration{1s}, duration::max()}) {
    again();
    caller& a = queued("a", "L", {.wait = wait});
    wait == duration{1s} ? advance(1s) : cancel(a, cancel_type::total);
    sent();
    cancel(a, cancel_type::total);
    EXPECT_TRUE(received().empty());
    EXPECT_TRUE(sent().empty());
    stay(100);
    EXPECT_EQ(received(), texts{granted("a", 100)});
  }
}

TEST_F(EngineCancel, PartialAfterTotalNoLongerWantsAGrant) {
  for (bool const was_granted : {false, true}) {
    again();
    caller& a = queued("a");
    cancel(a, cancel_type::total);
    cancel(a, cancel_type::partial);
    EXPECT_EQ(sent(), (texts{"leave L 1", "release L 1"}));
    was_granted ? stay(100) : removed();
    EXPECT_TRUE(received().empty());
    released(was_granted);
    EXPECT_EQ(received(), texts{"a failed cancelled"});
    expect_clean();
  }
}

// P11: the server was silent when the time had passed. What the cancellation finds counts, not what was found then; and
// not what comes later.
TEST_F(EngineCancel, AfterATimeOutSaysWhetherTheServerHasAnsweredByThen) {
  for (cancel_type const type : {cancel_type::partial, cancel_type::terminal}) {
    for (bool const answers : {false, true}) {
      again();
      caller& a = ask("a", "L", {.wait = 1s});
      advance(1s);
      EXPECT_EQ(sent(), (texts{"acquire L 1", "leave L 1"}));
      if (answers) queue(30'000);
      cancel(a, type);
      if (type == cancel_type::partial) {
        if (!answers) queue(30'000);
        removed();
        EXPECT_TRUE(received().empty());
        released(false);
      }
      EXPECT_EQ(received(), texts{answers ? "a failed timed_out" : "a failed unreachable"});
    }
  }
}

// Found by the fuzzer: the place stayed in between forever, and so did every acquire after it.
TEST_F(EngineCancel, TotalWithAServerThatNeverComesBackKeepsNobodyWaiting) {
  for (bool const gone_before : {false, true}) {
    again();
    caller& a = queued("a");
    if (gone_before) disconnect();
    cancel(a, cancel_type::total);
    if (!gone_before) disconnect();
    ask("b");
    EXPECT_TRUE(received().empty());
    advance(settings.command_timeout);
    EXPECT_EQ(received(), texts{"a failed cancelled"});
    advance(settings.offline_timeout);
    EXPECT_EQ(received(), texts{"b failed unreachable"});
    advance(settings.lease * 2);
    EXPECT_TRUE(remote->settled());
    EXPECT_TRUE(cohort->idle());
    EXPECT_EQ(stats.waiting, 0u);
  }
}

// P4: a server that takes connections, and loses the answers.
TEST_F(EngineCancel, TotalHasOneCommandTimeoutHoweverOftenItsLeaveIsRepeated) {
  again();
  caller& a = queued("a");
  cancel(a, cancel_type::total);
  ask("b");
  disconnect();
  time_point const lost = now;
  for (int i = 0; i < 2; ++i) {
    advance(settings.command_timeout / 4);
    connect("1");
    EXPECT_EQ(sent().back(), "leave L 1");
    advance(settings.command_timeout / 8);
    disconnect();
  }
  connect("1");
  EXPECT_EQ(sent().back(), "leave L 1");
  EXPECT_TRUE(received().empty());
  advance(lost + settings.command_timeout - now);
  EXPECT_EQ(received(), texts{"a failed cancelled"});
  EXPECT_EQ(sent(), (texts{"release L 1", "acquire L 2"}));
}

TEST_F(EngineCancel, PartialAfterTotalAsksAnewForWhoeverCameMeanwhile) {
  again();
  caller& a = queued("a");
  cancel(a, cancel_type::total);
  ask("b");
  EXPECT_EQ(sent(), texts{"leave L 1"});
  cancel(a, cancel_type::partial);
  EXPECT_EQ(sent(), (texts{"release L 1", "acquire L 2"}));
  removed();
  released();
  EXPECT_EQ(received(), texts{"a failed cancelled"});
}

TEST_F(EngineCancel, TerminalAfterAnythingReportsAtOnce) {
  for (int const before : {0, 1, 2}) {  // total, partial, time-out
    again();
    caller& a = queued("a", "L", {.wait = before == 2 ? duration{1s} : duration::max()});
    if (before == 0) cancel(a, cancel_type::total);
    if (before == 1) cancel(a, cancel_type::partial);
    if (before == 2) advance(1s);
    EXPECT_TRUE(received().empty());
    cancel(a, cancel_type::terminal);
    EXPECT_EQ(received(), texts{before == 2 ? "a failed timed_out" : "a failed cancelled"});
    callers.clear();
    sent();
    if (before == 1) {
      released(true);
    } else {
      stay(100);  // granted meanwhile: given back
      EXPECT_EQ(sent(), texts{"release L 1"});
      released();
    }
    EXPECT_TRUE(received().empty());
    expect_clean();
  }
}

TEST_F(EngineCancel, TotalOrPartialAfterPartialChangesNothing) {
  again();
  caller& a = queued("a");
  cancel(a, cancel_type::partial);
  sent();
  cancel(a, cancel_type::total);
  cancel(a, cancel_type::partial);
  EXPECT_TRUE(received().empty());
  EXPECT_TRUE(sent().empty());
  removed();
  EXPECT_EQ(received(), texts{"a failed cancelled"});
}

TEST_F(EngineCancel, ByTimeOutAfterACancelIsStillTheCancellation) {
  for (cancel_type const type : {cancel_type::total, cancel_type::partial}) {
    again();
    caller& a = queued("a", "L", {.wait = 1s});
    cancel(a, type);
    advance(1s + 99ms);
    EXPECT_TRUE(received().empty());
    advance(1ms);
    EXPECT_EQ(received(), texts{"a failed cancelled"});
    removed();
    EXPECT_TRUE(received().empty());
    EXPECT_EQ(stats.cancellations, 1u);
    EXPECT_EQ(stats.timeouts, 0u);
  }
}

TEST_F(EngineCancel, OfEveryLocalWaiterLeavesTheLineOnce) {
  again();
  caller& a = queued("a");
  caller& b = ask("b");
  cancel(a, cancel_type::total);
  EXPECT_EQ(received(), texts{"a failed cancelled"});
  EXPECT_TRUE(sent().empty());
  cancel(b, cancel_type::total);
  EXPECT_EQ(sent(), texts{"leave L 1"});
  removed();
  EXPECT_EQ(received(), texts{"b failed cancelled"});
  expect_clean();
}

TEST_F(EngineCancel, WhoStaysForAGrantPassesItOnToALaterCaller) {
  again();
  caller& a = queued("a");
  cancel(a, cancel_type::total);
  ask("b");
  stay(100);
  EXPECT_EQ(received(), texts{granted("a", 100)}) << "it asked first, and a grant in hand is not thrown away";
  release(a);
  EXPECT_EQ(received(), (texts{"a released ok", granted("b", 100, 1)}));
}

}  // namespace
}  // namespace conch::engine
