// A hold that leaves its client without being released, and one that takes such a hold over.
#include "unit/engine_fixture.hpp"

namespace conch::engine {
namespace {

class EngineDetach : public engine_test {
 public:
  texts sent_now() {
    advance(0ms);
    return sent();
  }
  /// A moment after what was answered last.
  void detach(caller& a) {
    advance(1ms);
    engine_test::detach(a);
  }
};

TEST_F(EngineDetach, RenewsTheHoldOnceAndForgetsIt) {
  start_connected();
  caller& a = holding("a");
  advance(1s);
  detach(a);
  EXPECT_EQ(a.deadline(), time_point::min()) << "not valid from here on";
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  EXPECT_TRUE(received().empty()) << "the server has not answered";
  renewed({1});
  EXPECT_EQ(received(), texts{"a detached as 1"});
  expect_clean();
  advance(2min);
  disconnect();
  connect();
  settle_connection();
  for (std::string const& text : sent())
    EXPECT_TRUE(text == "ping" || text.starts_with("kill") || text == "subscribe" || text == "prove") << text;
}

TEST_F(EngineDetach, ConfirmsAClaimFirst) {
  start_connected();
  caller& a = queued("a");
  push(1, 100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  detach(a);
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  EXPECT_TRUE(received().empty());
  renewed({1});
  EXPECT_EQ(received(), texts{"a detached as 1"});
  expect_clean();
}

TEST_F(EngineDetach, WaitsForARenewalThatWasWrittenAfterIt) {
  start_connected();
  caller& a = holding("a");
  advance(10s);
  EXPECT_EQ(sent(), texts{"renew L 1"});
  advance(1ms);
  detach(a);
  EXPECT_TRUE(sent_now().empty()) << "one at a time";
  renewed({1});
  EXPECT_TRUE(received().empty()) << "that one was under way before";
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  renewed({1});
  EXPECT_EQ(received(), texts{"a detached as 1"});
  expect_clean();
}

TEST_F(EngineDetach, WaitsForARenewalWithTheLeaseThatItTells) {
  start_connected();
  caller& a = holding("a");
  advance(10s);
  EXPECT_EQ(sent(), texts{"renew L 1"});
  extend(a, 60s);
  engine_test::detach(a);  // in the same moment
  received();
  EXPECT_TRUE(sent_now().empty()) << "one at a time";
  renewed({1});
  EXPECT_TRUE(received().empty()) << "that one was for the lease before";
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  renewed({1});
  EXPECT_EQ(received(), texts{"a detached as 1"});
  expect_clean();
}

TEST_F(EngineDetach, RenewsWhatIsNotRenewedOtherwise) {
  start_connected();
  caller& fixed = holding("fixed", "L", {.fixed = true, .lease = 5s});
  caller& limited = holding("limited", "M", {.max_hold = 1s});
  advance(2s);
  engine_test::detach(fixed);
  engine_test::detach(limited);
  EXPECT_EQ(sent_now(), texts{"renew L 1 M 2"});
  renewed({1, 1});
  EXPECT_EQ(received(), (texts{"fixed detached as 1", "limited detached as 2"}));
  expect_clean();
}

TEST_F(EngineDetach, SendsLocalWaitersToTheServer) {
  start_connected();
  caller& a = holding("a");
  ask("b");
  ask("c");
  EXPECT_TRUE(sent().empty()) << "they wait here";
  detach(a);
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  renewed({1});
  EXPECT_EQ(received(), texts{"a detached as 1"});
  EXPECT_EQ(sent(), texts{"acquire L 2"});
  queue(30'000);
  push(2, 101);
  EXPECT_EQ(received(), texts{granted("b", 101)});
}

TEST_F(EngineDetach, EndsTheChainOfLocalHandOffs) {
  start_connected();
  caller& a = holding("a");
  caller& b = ask("b");
  release(a);
  EXPECT_EQ(received(), (texts{"a released ok", granted("b", 100, 1)}));
  ask("c");
  detach(b);
  sent_now();
  renewed({1});
  EXPECT_EQ(received(), texts{"b detached as 1"});
  EXPECT_EQ(sent(), texts{"acquire L 2"});
}

TEST_F(EngineDetach, SaysThatTheHoldIsNotOurs) {
  start_connected();
  caller& a = holding("a");
  detach(a);
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  renewed({0});
  EXPECT_EQ(received(), texts{"a detached lost"});
  EXPECT_TRUE(sent_now().empty());
  expect_clean();
}

TEST_F(EngineDetach, SaysThatTheHoldWasTakenAway) {
  start_connected();
  caller& a = holding("a");
  detach(a);
  sent_now();
  remote->receiver().pushed(protocol::revocation{"L", 1}, now);
  EXPECT_EQ(received(), texts{"a detached lost"});
  EXPECT_EQ(sent(), texts{"release L 1"});
  renewed({0});
  removed();
  expect_clean();
}

TEST_F(EngineDetach, ReleasesWhatIsLostAlready) {
  start_connected();
  caller& a = holding("a");
  disconnect();
  advance(29700ms - settings.stop_margin + 10ms);
  EXPECT_EQ(received(), texts{"a lost lost"});
  detach(a);
  EXPECT_EQ(received(), texts{"a detached lost"});
  detach(a);
  EXPECT_EQ(received(), texts{"a detached not_held"});
  connect();
  settle_connection();
  EXPECT_EQ(sent().back(), "release L 1");
}

TEST_F(EngineDetach, ReleasesTheHoldIfThereIsNoAnswerInTime) {
  start_connected();
  caller& a = holding("a");
  disconnect();
  detach(a);
  advance(settings.command_timeout - 1ms);
  EXPECT_TRUE(received().empty());
  advance(1ms);
  EXPECT_EQ(received(), texts{"a detached unreachable"});
  connect();
  settle_connection();
  EXPECT_EQ(sent().back(), "release L 1")
      << "a caller that got the error has nothing to adopt, and no client waits for the lease";
  released();
  expect_clean();
}

TEST_F(EngineDetach, GoesOnOverANewConnection) {
  start_connected();
  caller& a = holding("a");
  detach(a);
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  disconnect();
  advance(100ms);
  connect();
  settle_connection();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", "renew L 1"}));
  renewed({1});
  EXPECT_EQ(received(), texts{"a detached as 1"});
  expect_clean();
}

TEST_F(EngineDetach, ReleasesTheHoldWhenItsClientIsClosed) {
  start_connected();
  caller& a = holding("a");
  detach(a);
  sent_now();
  cohort->close(now);
  cohort->give_back_everything(now);
  EXPECT_EQ(received(), texts{"a detached closed"});
  EXPECT_EQ(sent(), texts{"release L 1"});
}

TEST_F(EngineDetach, EndsAnExtensionOfTheHold) {
  start_connected();
  caller& a = holding("a");
  advance(1ms);
  extend(a, 60s);
  engine_test::detach(a);
  EXPECT_EQ(received(), texts{"a not extended not_held"});
  extend(a, 60s);
  EXPECT_EQ(received(), texts{"a not extended ok"});
  sent_now();
  renewed({1});
  EXPECT_EQ(received(), texts{"a detached as 1"});
  expect_clean();
}

TEST_F(EngineDetach, LeavesAPermitOfALockWithSeveralOwners) {
  start_connected();
  permit const two_of_3{.kind = permit_kind::semaphore, .limit = 3, .weight = 2};
  caller& a = ask("a", "L", {.permit = two_of_3});
  take_sent();
  answer({1, 100, server_us(), 0});
  received();
  detach(a);
  EXPECT_EQ(sent_now(), texts{"renew permits L 1"});
  renewed({1});
  EXPECT_EQ(received(), texts{"a detached as 1"});
  EXPECT_TRUE(sent_now().empty());
  expect_clean();
}

// ------------------------------------------------------------------------------------------------------- taking it
// over

class EngineAdopt : public EngineDetach {
 public:
  caller& adopt(std::string label, std::string_view lock = "L", wanted w = {}) {
    w.origin = "other.7 100";
    w.first_index = 5;
    return ask(std::move(label), lock, w);
  }
};

TEST_F(EngineAdopt, HasTheFenceAndTheNextIndexOfTheToken) {
  start_connected();
  caller& a = adopt("a");
  sent_command const question = take_sent().at(0);
  EXPECT_EQ(question.text, "adopt other.7 100 as L 1");
  EXPECT_EQ(question.lease, 30s);
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100, 5)});
  EXPECT_EQ(a.deadline(), question.at + 30s - 302ms);
  advance(10s);
  EXPECT_EQ(sent(), texts{"renew L 1"});
  renewed({1});
  release(a);
  EXPECT_EQ(sent(), texts{"release L 1"});
  released();
  EXPECT_EQ(received(), texts{"a released ok"});
  expect_clean();
}

// The hold may be from before a role change, and its waiters may still be connected to the replica.
TEST_F(EngineAdopt, AwaitsTheFirstInLineWhenItIsReleased) {
  start_connected();
  caller& a = adopt("a");
  take_sent();
  grant(100);
  release(a);
  EXPECT_TRUE(take_sent().at(0).patient);
  answer({3, 0, 1, server_us()});
  EXPECT_EQ(received(), (texts{granted("a", 100, 5), "a released ok"}));
  advance(20ms);
  EXPECT_EQ(sent(), texts{"release L 1"});
}

TEST_F(EngineAdopt, SaysThatTheHoldIsNotThereAnyMore) {
  start_connected();
  adopt("a");
  take_sent();
  answer({2, 0, server_us()});
  EXPECT_EQ(received(), texts{"a failed lost"});
  EXPECT_TRUE(sent_now().empty());
  expect_clean();
}

TEST_F(EngineAdopt, AsksAgainUnderTheSameIdOnANewConnection) {
  start_connected();
  adopt("a");
  disconnect();
  advance(100ms);
  take_sent();
  connect();
  settle_connection();
  EXPECT_EQ(sent().back(), "adopt other.7 100 as L 1");
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100, 5)});
}

TEST_F(EngineAdopt, SendsTheSourceOfItsScriptWhenTheServerDoesNotKnowIt) {
  start_connected();
  adopt("a");
  take_sent();
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), texts{"source adopt other.7 100 as L 1"});
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100, 5)});
}

TEST_F(EngineAdopt, ReleasesWhatItTookOverForACallerThatIsGone) {
  start_connected();
  caller& a = adopt("a");
  take_sent();
  cancel(a, cancel_type::terminal);
  EXPECT_EQ(received(), texts{"a failed cancelled"});
  EXPECT_EQ(sent(), texts{"release L 1"});
  grant(100);
  released();
  EXPECT_TRUE(received().empty());
  expect_clean();
}

TEST_F(EngineAdopt, DeliversAfterATotalCancellationWhatItTookOver) {
  start_connected();
  caller& a = adopt("a");
  take_sent();
  cancel(a, cancel_type::total);
  EXPECT_EQ(sent(), texts{"leave L 1"});
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100, 5)});
  stay(100);
  EXPECT_TRUE(received().empty());
}

TEST_F(EngineAdopt, WaitsForNobodyOfItsClientAndHandsOnToNobodyInMemory) {
  start_connected();
  queued("waits");
  caller& a = adopt("a");
  EXPECT_EQ(sent(), texts{"adopt other.7 100 as L 2"});
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100, 5)});
  ask("later");
  EXPECT_TRUE(sent().empty()) << "behind the one that is queued";
  release(a);
  EXPECT_EQ(sent(), texts{"release L 2"});
  push(1, 101);
  released(true, true, false);
  EXPECT_EQ(received(), (texts{granted("waits", 101), "a released ok"}));
}

TEST_F(EngineAdopt, LosesTheHoldThatAnOperatorTakesAway) {
  start_connected();
  queued("waits");
  adopt("a");
  take_sent();
  grant(100);
  received();
  remote->receiver().pushed(protocol::revocation{"L", 2}, now);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), texts{"release L 2"});
}

TEST_F(EngineAdopt, IsTakenBackByTheClientThatLetItGo) {
  start_connected();
  caller& a = holding("a");
  ask("waits");
  detach(a);
  sent_now();
  renewed({1});
  EXPECT_EQ(sent(), texts{"acquire L 2"});
  queue(30'000);
  ask("again", "L", {.origin = "me.1 100", .first_index = 1});
  EXPECT_EQ(sent(), texts{"adopt me.1 100 as L 3"});
  grant(100);
  EXPECT_EQ(received(), (texts{"a detached as 1", granted("again", 100, 1)}));
}

TEST_F(EngineAdopt, CanBeDetachedAgain) {
  start_connected();
  caller& a = adopt("a");
  take_sent();
  grant(100);
  detach(a);
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  renewed({1});
  EXPECT_EQ(received(), (texts{granted("a", 100, 5), "a detached as 1"}));
  EXPECT_EQ(a.fence, token(100, 5));
  expect_clean();
}

TEST_F(EngineAdopt, IsNotGrantedByAPush) {
  start_connected();
  adopt("a");
  take_sent();
  push(1, 100);
  EXPECT_TRUE(received().empty()) << "it stands in no line, so no server has sent that";
  answer({2, 0, server_us()});
  EXPECT_EQ(received(), texts{"a failed lost"});
}

TEST_F(EngineAdopt, TakesOverAPermit) {
  start_connected();
  permit const segment{.kind = permit_kind::segments, .limit = 20, .weight = 1};
  caller& a = adopt("a", "L", {.permit = segment});
  EXPECT_EQ(sent(), texts{"adopt other.7 100 as L 1 permit 1 of 20"});
  answer({1, 100, server_us(), 17});
  EXPECT_EQ(received(), texts{granted("a", 100, 5)});
  EXPECT_EQ(a.segment, 17u);
  release(a);
  EXPECT_EQ(sent(), texts{"release L 1 permit 1 of 20"});
}

TEST_F(EngineAdopt, TellsTheLossOfAnotherHoldOfTheLockFirst) {
  start_connected();
  holding("old");
  now += 45s;  // the process is paused: the network comes before the timers
  adopt("a");
  take_sent();
  grant(200);
  EXPECT_EQ(received(), (texts{"old lost lost", granted("a", 200, 5)}));
}

}  // namespace
}  // namespace conch::engine
