// The table of docs/cancellation.md: in every state of an acquire, every kind of cancellation and the time-out, and what
// comes after. "leave" is the release script with its keep flag; after it a grant made meanwhile is still taken.
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
    EXPECT_EQ(heard(), texts{"a failed cancelled"});
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
  EXPECT_TRUE(heard().empty());
  advance(1ns);
  EXPECT_EQ(heard(), texts{"a failed unreachable"});
  expect_clean();
}

TEST_F(EngineCancel, OfALocalWaiterLeavesAtOnceAndTheServerHearsNothing) {
  for (cancel_type const type : every_type) {
    for (bool const first : {false, true}) {  // of three who stand in one place of the server's line
      again();
      caller& a = queued("a");
      caller& b = ask("b");
      ask("c");
      cancel(first ? a : b, type);
      EXPECT_EQ(heard(), texts{first ? "a failed cancelled" : "b failed cancelled"});
      EXPECT_TRUE(sent().empty());
      push(1, 100);
      EXPECT_EQ(heard(), texts{granted(first ? "b" : "a", 100)});
    }
  }
}

TEST_F(EngineCancel, OfAWaiterBehindALocalHolderLeavesAtOnce) {
  for (cancel_type const type : every_type) {
    again();
    caller& a = holding("a");
    caller& b = ask("b");
    cancel(b, type);
    EXPECT_EQ(heard(), texts{"b failed cancelled"});
    release(a);
    EXPECT_EQ(sent(), texts{"release L 1"});
    released();
    heard();
    expect_clean();
  }
}

TEST_F(EngineCancel, ByTimeOutOfALocalWaiterLeavesAtOnce) {
  again();
  holding("a");
  ask("b", "L", {.wait = 2s});
  advance(2s);
  EXPECT_EQ(heard(), texts{"b failed timed_out"});
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(stats.timeouts, 1u);
}

// ---- written, no reply yet ----------------------------------------------------------------------------------

TEST_F(EngineCancel, TotalOfAWrittenRequestStillDeliversItsGrant) {
  again();
  caller& a = ask("a");
  cancel(a, cancel_type::total);
  EXPECT_TRUE(heard().empty());
  grant(100);
  EXPECT_EQ(heard(), texts{granted("a", 100)});
  // The leave script that went out behind the question finds the grant, and keeps it.
  EXPECT_EQ(sent(), (texts{"acquire L 1", "leave L 1"}));
  stay(100);
  EXPECT_TRUE(heard().empty());
  release(a);
  released();
  EXPECT_EQ(heard(), texts{"a released ok"});
  expect_clean();
}

TEST_F(EngineCancel, TotalOfAWrittenRequestThatWasQueuedLeavesTheLine) {
  again();
  caller& a = ask("a");
  cancel(a, cancel_type::total);
  queue(30'000);
  EXPECT_TRUE(heard().empty());
  removed();
  EXPECT_EQ(heard(), texts{"a failed cancelled"});
  expect_clean();
}

TEST_F(EngineCancel, TotalOfAWrittenTryEndsBusyOrCancelledButEnds) {
  again();
  caller& a = ask("a", "L", {.once = true});
  cancel(a, cancel_type::total);
  tell_busy();
  removed();
  EXPECT_EQ(heard().size(), 1u);
  expect_clean();
}

TEST_F(EngineCancel, PartialOfAWrittenRequestCleansUpAndThenReports) {
  for (bool const was_granted : {false, true}) {
    again();
    caller& a = ask("a");
    cancel(a, cancel_type::partial);
    EXPECT_EQ(sent(), (texts{"acquire L 1", "release L 1"}));
    was_granted ? grant(100) : queue(30'000);
    EXPECT_TRUE(heard().empty()) << "not before the clean-up is answered";
    released(was_granted);
    EXPECT_EQ(heard(), texts{"a failed cancelled"});
    expect_clean();
  }
}

TEST_F(EngineCancel, TerminalOfAWrittenRequestReportsAtOnceAndCleansUpBehind) {
  for (bool const was_granted : {false, true}) {
    again();
    caller& a = ask("a");
    cancel(a, cancel_type::terminal);
    EXPECT_EQ(heard(), texts{"a failed cancelled"});
    EXPECT_EQ(sent(), (texts{"acquire L 1", "release L 1"}));
    callers.clear();  // the caller is gone
    EXPECT_FALSE(remote->settled());
    was_granted ? grant(100) : queue(30'000);
    released(was_granted);
    EXPECT_TRUE(heard().empty());
    expect_clean();
  }
}

TEST_F(EngineCancel, ByTimeOutOfAWrittenRequestNeverThrowsAGrantAway) {
  again();
  ask("a", "L", {.wait = 1s});
  advance(1s);
  EXPECT_EQ(sent(), (texts{"acquire L 1", "leave L 1"}));
  EXPECT_TRUE(heard().empty());
  grant(100);
  EXPECT_EQ(heard(), texts{granted("a", 100)});
  stay(100);
  EXPECT_TRUE(heard().empty());
}

TEST_F(EngineCancel, ByTimeOutOfAWrittenRequestThatWasQueuedLeavesTheLine) {
  again();
  ask("a", "L", {.wait = 1s});
  advance(1s);
  queue(30'000);
  removed();
  EXPECT_EQ(heard(), texts{"a failed timed_out"});
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
    EXPECT_EQ(heard(), GetParam().at_once ? texts{GetParam().report} : texts{});
  }
  texts report_if_not_yet() const { return GetParam().at_once ? texts{} : texts{GetParam().report}; }
};

TEST_P(EngineCancelQueued, EndsWhenItWasRemoved) {
  begin_leaving();
  removed();
  EXPECT_EQ(heard(), report_if_not_yet());
  expect_clean();
}

TEST_P(EngineCancelQueued, TakesOrGivesBackWhatWasGrantedMeanwhile) {
  begin_leaving();
  if (GetParam().delivers) {
    stay(100);
    EXPECT_EQ(heard(), texts{granted("a", 100)});
    EXPECT_TRUE(sent().empty());
    release(*callers.back());
    released();
    EXPECT_EQ(heard(), texts{"a released ok"});
  } else {
    released(true, true, false);
    EXPECT_EQ(heard(), report_if_not_yet());
  }
  expect_clean();
}

TEST_P(EngineCancelQueued, TakesOrGivesBackWhatIsPushedMeanwhile) {
  begin_leaving();
  push(1, 100);
  if (GetParam().delivers) {
    EXPECT_EQ(heard(), texts{granted("a", 100)});
    stay(100);
    EXPECT_TRUE(heard().empty());
    release(*callers.back());
    released();
    heard();
  } else {
    EXPECT_TRUE(heard().empty());
    EXPECT_TRUE(sent().empty()) << "a release of it is under way";
    released(true);
    EXPECT_EQ(heard(), report_if_not_yet());
  }
  expect_clean();
}

TEST_P(EngineCancelQueued, ReportsWithoutAnAnswerAfterOneCommandTimeOut) {
  begin_leaving();
  advance(3s - 1ns);
  EXPECT_TRUE(heard().empty());
  advance(1ns);
  EXPECT_EQ(heard(), report_if_not_yet());
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
  EXPECT_TRUE(heard().empty());
  expect_clean();
}

TEST_P(EngineCancelQueued, SurvivesALostConnection) {
  begin_leaving();
  disconnect();
  EXPECT_TRUE(heard().empty());
  connect();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", GetParam().script}));
  settle_connection();
  removed();
  EXPECT_EQ(heard(), report_if_not_yet());
  expect_clean();
}

TEST_P(EngineCancelQueued, LeavesALaterCallerUnharmed) {
  begin_leaving();
  ask("b");
  if (GetParam().delivers) {
    EXPECT_TRUE(sent().empty()) << "one place in line for this client";
    removed();
    EXPECT_EQ(heard(), report_if_not_yet());
    EXPECT_EQ(sent(), texts{"acquire L 2"});
  } else {
    EXPECT_EQ(sent(), texts{"acquire L 2"});
    released(true, true, true);
    EXPECT_EQ(heard(), report_if_not_yet());
  }
  grant(101);
  EXPECT_EQ(heard(), texts{granted("b", 101)});
}

TEST_P(EngineCancelQueued, EndsWhenTheServerRefusesTheScript) {
  begin_leaving();
  answer(fault::refused, "OOM no");
  if (GetParam().delivers) {
    EXPECT_EQ(heard(), texts{GetParam().report});
    EXPECT_EQ(sent(), texts{"release L 1"}) << "the clean-up is the janitor's";
  } else {
    EXPECT_TRUE(heard().empty());
    advance(1s);
    EXPECT_EQ(sent(), texts{"release L 1"});
  }
  removed();
  EXPECT_EQ(heard(), GetParam().delivers ? texts{} : report_if_not_yet());
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
  EXPECT_EQ(heard(), texts{"a failed cancelled"});
  EXPECT_EQ(sent(), texts{"release L 1"});
  released();
  expect_clean();
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
    EXPECT_EQ(heard(), texts{granted("a", 100)});
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
    heard();
    for (cancel_type const second : every_type) cancel(a, second);
    EXPECT_TRUE(heard().empty());
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
    EXPECT_TRUE(heard().empty());
    EXPECT_TRUE(sent().empty());
    stay(100);
    EXPECT_EQ(heard(), texts{granted("a", 100)});
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
    EXPECT_TRUE(heard().empty());
    released(was_granted);
    EXPECT_EQ(heard(), texts{"a failed cancelled"});
    expect_clean();
  }
}

// Found by the fuzzer: the place stayed in between for ever, and so did whoever asked after it.
TEST_F(EngineCancel, TotalWithAServerThatNeverComesBackKeepsNobodyWaiting) {
  for (bool const gone_before : {false, true}) {
    again();
    caller& a = queued("a");
    if (gone_before) disconnect();
    cancel(a, cancel_type::total);
    if (!gone_before) disconnect();
    ask("b");
    EXPECT_TRUE(heard().empty());
    advance(settings.command_timeout);
    EXPECT_EQ(heard(), texts{"a failed cancelled"});
    advance(settings.offline_timeout);
    EXPECT_EQ(heard(), texts{"b failed unreachable"});
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
  EXPECT_TRUE(heard().empty());
  advance(lost + settings.command_timeout - now);
  EXPECT_EQ(heard(), texts{"a failed cancelled"});
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
  EXPECT_EQ(heard(), texts{"a failed cancelled"});
}

TEST_F(EngineCancel, TerminalAfterAnythingReportsAtOnce) {
  for (int const before : {0, 1, 2}) {  // total, partial, time-out
    again();
    caller& a = queued("a", "L", {.wait = before == 2 ? duration{1s} : duration::max()});
    if (before == 0) cancel(a, cancel_type::total);
    if (before == 1) cancel(a, cancel_type::partial);
    if (before == 2) advance(1s);
    EXPECT_TRUE(heard().empty());
    cancel(a, cancel_type::terminal);
    EXPECT_EQ(heard(), texts{before == 2 ? "a failed timed_out" : "a failed cancelled"});
    callers.clear();
    sent();
    if (before == 1) {
      released(true);
    } else {
      stay(100);  // granted meanwhile: given back
      EXPECT_EQ(sent(), texts{"release L 1"});
      released();
    }
    EXPECT_TRUE(heard().empty());
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
  EXPECT_TRUE(heard().empty());
  EXPECT_TRUE(sent().empty());
  removed();
  EXPECT_EQ(heard(), texts{"a failed cancelled"});
}

TEST_F(EngineCancel, ByTimeOutAfterACancelIsStillTheCancellation) {
  for (cancel_type const type : {cancel_type::total, cancel_type::partial}) {
    again();
    caller& a = queued("a", "L", {.wait = 1s});
    cancel(a, type);
    advance(2s);
    EXPECT_TRUE(heard().empty());
    removed();
    EXPECT_EQ(heard(), texts{"a failed cancelled"});
    EXPECT_EQ(stats.cancellations, 1u);
    EXPECT_EQ(stats.timeouts, 0u);
  }
}

TEST_F(EngineCancel, OfEveryLocalWaiterLeavesTheLineOnce) {
  again();
  caller& a = queued("a");
  caller& b = ask("b");
  cancel(a, cancel_type::total);
  EXPECT_EQ(heard(), texts{"a failed cancelled"});
  EXPECT_TRUE(sent().empty());
  cancel(b, cancel_type::total);
  EXPECT_EQ(sent(), texts{"leave L 1"});
  removed();
  EXPECT_EQ(heard(), texts{"b failed cancelled"});
  expect_clean();
}

TEST_F(EngineCancel, WhoStaysForAGrantPassesItOnToALaterCaller) {
  again();
  caller& a = queued("a");
  cancel(a, cancel_type::total);
  ask("b");
  stay(100);
  EXPECT_EQ(heard(), texts{granted("a", 100)}) << "it asked first, and a grant in hand is not thrown away";
  release(a);
  EXPECT_EQ(heard(), (texts{"a released ok", granted("b", 100, 1)}));
}

}  // namespace
}  // namespace conch::engine
