// How long a place in line sleeps, and what it is told of an owner who follows on another. Which word of the server a
// hand-over in memory goes by.
#include "unit/engine_fixture.hpp"

namespace conch::engine {
namespace {

class EngineTold : public engine_test {
 protected:
  /// When the next question is sent, counted from now; the answer gives the owner's lease `left_ms`.
  duration next_question(std::int64_t left_ms) {
    time_point const from = now;
    while (on_wire.empty() && now - from < std::chrono::hours{1}) advance(5ms);
    EXPECT_EQ(sent(), texts{"acquire L 1"});
    queue(left_ms);
    return now - from;
  }
};

TEST_F(EngineTold, P4TheFirstInLineIsToldWhenTheLeaseOfTheNextOwnerEndsAndAsksThen) {
  start_connected();
  ask("c");
  take_sent();
  queue(40'000);  // of the present owner
  advance(2s);
  remote->receiver().pushed(protocol::end_of_lease{"L", 1, 3s}, now);
  EXPECT_EQ(sent(), texts{}) << "to be told costs no message";
  duration const asked = next_question(1'000);
  EXPECT_GE(asked, 3s);
  EXPECT_LE(asked, 3400ms);
  EXPECT_LE(next_question(30'000), 1200ms) << "and goes on as behind any owner";
}

TEST_F(EngineTold, WhatItIsToldDoesNotPutTheQuestionOff) {
  start_connected();
  ask("c");
  take_sent();
  queue(2'000);
  remote->receiver().pushed(protocol::end_of_lease{"L", 1, 25s}, now);
  EXPECT_LE(next_question(2'000), 2300ms);
}

TEST_F(EngineTold, P4NobodySleepsForLongerThanTenClaimsWhateverItIsTold) {
  for (std::int64_t const left_ms : {std::int64_t{86'400'000}, std::int64_t{3'600'000}, std::int64_t{1} << 52}) {
    start_connected();
    ask("c");
    take_sent();
    queue(left_ms);  // as when the server's clock has gone back, or the key's expiry was removed
    EXPECT_LE(next_question(30'000), 10 * settings.claim + settings.claim + 10ms) << left_ms;
  }
}

TEST_F(EngineTold, AnEndThatIsNoTimeDoesNotMakeItAskWithoutAPause) {
  start_connected();
  ask("c");
  take_sent();
  queue(-1);
  EXPECT_GE(next_question(-1), 20ms);
  remote->receiver().pushed(protocol::end_of_lease{"L", 1, 0ms}, now);
  EXPECT_GE(next_question(30'000), 20ms);
}

TEST_F(EngineTold, AnEndOfSomethingElseChangesNothing) {
  start_connected();
  ask("c");
  take_sent();
  queue(20'000);
  remote->receiver().pushed(protocol::end_of_lease{"L", 2, 1s}, now);
  remote->receiver().pushed(protocol::end_of_lease{"M", 1, 1s}, now);
  remote->receiver().pushed(protocol::end_of_lease{"M", 9, 1s}, now);
  EXPECT_GE(next_question(20'000), 20s);
  push(1, 100);
  received();
  remote->receiver().pushed(protocol::end_of_lease{"L", 1, 1s}, now);  // an owner waits for no end of a lease
  advance(500ms);
  EXPECT_EQ(sent(), texts{});
}

TEST_F(EngineTold, APermitInLineIsToldToo) {
  start_connected();
  wanted w;
  w.permit = {.kind = permit_kind::semaphore, .limit = 3, .weight = 1};
  ask("c", "L", w);
  take_sent();
  queue(20'000);
  remote->receiver().pushed(protocol::end_of_lease{"L", 1, 1s}, now);
  advance(1200ms);
  EXPECT_EQ(sent(), texts{"acquire L 1 permit 1 of 3"});
}

TEST_F(EngineTold, AWatcherIsToldTooAndAsksThen) {
  struct nobody : admin_events {
    void on_admin_answered(admin_request&, admin_result const&, error_code) override {}
  } whose;
  start_connected();
  admin_request i;
  i.what = admin_request::kind::wait_free;
  i.name = "L";
  cohort->administer(i, whose, now);
  take_sent();
  answer({0, 40'000, server_us()});
  remote->receiver().pushed(protocol::end_of_lease{"L", i.id, 2s}, now);
  advance(1900ms);
  EXPECT_EQ(sent(), texts{});
  advance(1s);
  EXPECT_EQ(sent(), texts{"watch L 1"});
  answer({0, 0, server_us()});
  advance(19ms);
  EXPECT_EQ(sent(), texts{}) << "an end that is no time";
  advance(20ms);
  EXPECT_EQ(sent(), texts{"watch L 1"});
}

// ---- hand-overs in memory ----

TEST_F(EngineTold, P2AnOldWordIsProvedBeforeALockIsHandedOnInMemory) {
  settings.local_slice = 5s;
  start_connected();
  caller& a = holding("a");
  ask("b");
  advance(6ms);
  release(a);
  EXPECT_EQ(received(), texts{"a released ok"}) << "a client that releases waits for nothing";
  advance(1ms);
  EXPECT_EQ(sent(), texts{"renew L 1"});
  renewed({1});
  EXPECT_EQ(received(), texts{granted("b", 100, 1)});
  ask("c");
  release(*callers[1]);
  EXPECT_EQ(received(), (texts{"b released ok", granted("c", 100, 2)})) << "that word is new enough";
}

TEST_F(EngineTold, P2WhereTheServerHasLostTheGrantNobodyIsHandedItOn) {
  settings.local_slice = 5s;
  start_connected();
  caller& a = holding("a");
  ask("b");
  advance(100ms);
  release(a);
  received();
  advance(1ms);
  EXPECT_EQ(sent(), texts{"renew L 1"});
  renewed({0});
  EXPECT_EQ(received(), texts{});
  EXPECT_EQ(sent(), texts{"acquire L 2"});
  grant(200);
  EXPECT_EQ(received(), texts{granted("b", 200)});
}

TEST_F(EngineTold, P2AnAnswerToAQuestionFromBeforeTheReleaseProvesNothing) {
  settings.local_slice = 30s;
  settings.renew_every = 1s;
  start_connected();
  caller& a = holding("a");
  ask("b");
  advance(1010ms);
  EXPECT_EQ(sent(), texts{"renew L 1"});
  release(a);
  advance(1ms);
  renewed({1});
  EXPECT_EQ(received(), texts{"a released ok"});
  advance(1s);
  EXPECT_EQ(sent(), texts{"renew L 1"});
  renewed({1});
  EXPECT_EQ(received(), texts{granted("b", 100, 1)});
}

TEST_F(EngineTold, P2WithoutAConnectionNothingIsHandedOn) {
  settings.local_slice = 5s;
  start_connected();
  caller& a = holding("a");
  ask("b");
  disconnect();
  release(a);
  EXPECT_EQ(received(), texts{"a released ok"});
  advance(1ms);
  EXPECT_EQ(sent(), texts{});
  connect();
  settle_connection();
  EXPECT_EQ(sent().back(), "renew L 1");
  renewed({1});
  EXPECT_EQ(received(), texts{granted("b", 100, 1)});
}

TEST_F(EngineTold, WhatNobodyWaitsForAnyMoreIsGivenBack) {
  settings.local_slice = 5s;
  start_connected();
  caller& a = holding("a");
  caller& b = ask("b");
  advance(100ms);
  release(a);
  advance(1ms);
  take_sent();
  cancel(b, cancel_type::total);
  received();
  EXPECT_EQ(sent(), texts{"release L 1"}) << "at once";
  renewed({1});
  released();
  expect_clean();
}

TEST_F(EngineTold, AProofThatNeverComesEndsWithTheGrant) {
  settings.local_slice = 5s;
  settings.command_timeout = 60s;
  start_connected();
  caller& a = holding("a");
  ask("b");
  advance(100ms);
  release(a);
  received();
  advance(30s);
  texts const all = sent();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back(), "release L 1 again 2") << "the server is asked for a new grant before the old one ends";
}

TEST_F(EngineTold, ClosingGivesBackWhatIsBeingProved) {
  settings.local_slice = 5s;
  start_connected();
  caller& a = holding("a");
  ask("b");
  advance(100ms);
  release(a);
  advance(1ms);
  take_sent();
  EXPECT_FALSE(cohort->idle());
  cohort->close(now);
  cohort->give_back_everything(now);
  EXPECT_EQ(sent(), texts{"release L 1"});
  EXPECT_TRUE(cohort->idle());
}

}  // namespace
}  // namespace conch::engine
