#include "engine_fixture.hpp"

namespace conch::engine {
namespace {

// After a connection to another run of the server those in line may not be back yet: scripts are patient for 200 ms and
// twice the outage.
using EngineRegroup = engine_test;

TEST_F(EngineRegroup, AReleaseAtAnotherRunOfTheServerWaitsForTheFirstInLine) {  // P5
  start_connected();
  caller& a = holding("a");
  disconnect();
  release(a);
  connect("2");
  settle_connection();
  EXPECT_TRUE(take_sent().back().patient);
  answer({3, 0, 1, server_us()});
  EXPECT_EQ(received(), texts{"a released ok"}) << "it was its owner, and need not wait for somebody else";
  EXPECT_EQ(remote->pending(), 1u);
  advance(20ms);
  auto const again = take_sent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].text, "release L 1");
  EXPECT_TRUE(again[0].patient);
  answer({1, 1, 0, server_us()});
  EXPECT_EQ(received(), texts{});
  expect_clean();
}

TEST_F(EngineRegroup, IsOverInTime) {  // P4: a waiter that is not back then is passed over
  struct {
    duration outage, over;
  } const table[] = {{0ms, 200ms}, {100ms, 400ms}, {1s, 2200ms}, {1min, 3s}};
  for (auto const& [outage, over] : table) {
    start_connected();
    caller& a = holding("a", "L", {.lease = 10min});
    disconnect();
    advance(outage);
    connect("2");
    time_point const began = now;
    settle_connection();
    renewed({1});
    take_sent();
    release(a);
    sent_command last = take_sent().back();
    while (last.patient) {
      ASSERT_LT(last.at, began + over);
      answer({3, 0, 1, server_us()});
      advance(20ms);
      last = take_sent().back();
    }
    EXPECT_GE(last.at, began + over);
    answer({1, 1, 0, server_us()});
    EXPECT_EQ(received(), texts{"a released ok"});
  }
}

// P5: a waiter may still be connected to the replica
TEST_F(EngineRegroup, AHoldOfBeforeIsGivenBackPatientlyHoweverLate) {
  start_connected();
  caller& a = holding("a");
  disconnect();
  connect("2");
  settle_connection();
  renewed({1});
  advance(5s);
  take_sent();
  release(a);
  EXPECT_TRUE(take_sent().back().patient);
  answer({1, 1, 0, server_us()});
  received();
  caller& b = ask("b");
  EXPECT_TRUE(take_sent().back().patient) << "the first question there";
  grant(101);
  release(b);
  EXPECT_FALSE(take_sent().back().patient);
}

// A waiter there learns of the other run when the lease of the owner ends, or from a client that asks for that lock.
TEST_F(EngineRegroup, TheFirstQuestionAboutALockIsPatientHoweverLate) {  // P5
  struct {
    duration later;
    bool patient;
  } const table[] = {
      {5s, true}, {settings.lease + settings.claim, true}, {settings.lease + settings.claim + 1s, false}};
  settings.keep_alive = 0s;
  for (auto const& [later, patient] : table) {
    start_connected();
    disconnect();
    connect("2");
    settle_connection();
    advance(later);
    time_point const began = now;
    ask("a");
    sent_command last = take_sent().back();
    EXPECT_EQ(last.patient, patient);
    for (; last.patient; last = take_sent().back()) {
      ASSERT_LT(last.at, began + 200ms) << "a waiter that has not come by then is passed over";
      queue(20);
      advance(30ms);
    }
    queue(20);
    cancel(*callers.front(), cancel_type::terminal);
  }
}

// The first in line was told to come when the question was asked.
TEST_F(EngineRegroup, ToGiveAFirstQuestionUpIsPatientToo) {  // P5
  for (auto const& [how, sends] : {std::pair{cancel_type::terminal, "release"}, {cancel_type::total, "leave"}}) {
    start_connected();
    disconnect();
    connect("2");
    settle_connection();
    advance(5s);
    caller& a = ask("a");
    ASSERT_TRUE(take_sent().back().patient);
    queue(20);
    cancel(a, how);
    sent_command const last = take_sent().back();
    EXPECT_TRUE(last.text.starts_with(sends)) << last.text;
    EXPECT_TRUE(last.patient);
  }
}

TEST_F(EngineRegroup, IsForAnotherRunOnlyOrAnUnknownOne) {
  start_connected();
  queued("a");
  ask("b", "M");
  EXPECT_FALSE(take_sent().back().patient);
  disconnect();
  connect("1");
  EXPECT_FALSE(take_sent().back().patient) << "the others have their connections still";
  disconnect();
  connect("2");
  EXPECT_TRUE(take_sent().back().patient);
  advance(1s);
  disconnect();
  connect("");
  EXPECT_TRUE(take_sent().back().patient);
}

TEST_F(EngineRegroup, WhoeverReleasesAndAsksAgainDoesSoInTwoScripts) {
  start_connected();
  settings.local_slice = 0s;
  caller& a = holding("a");
  ask("b");
  disconnect();
  connect("2");
  settle_connection();
  renewed({1});
  take_sent();
  release(a);
  EXPECT_EQ(sent(), (texts{"release L 1", "acquire L 2"}));
}

}  // namespace
}  // namespace conch::engine
