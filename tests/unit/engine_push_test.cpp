#include "engine_fixture.hpp"

namespace conch::engine {
namespace {

// Deadline of a pushed grant: min(t0 + 0.99 (G - S), now) + claim - drift, (t0, S) being the best time sample of this
// connection. With a claim of 3 s the drift is 32 ms; less than a quarter of the claim left is too late to begin with.
using EnginePush = engine_test;

TEST_F(EnginePush, CountsItsClaimFromWhenTheServerMayHaveGrantedIt) {
  start_connected();  // samples the server's time
  caller& a = queued("a");
  time_point const sampled = now;
  advance(10s);
  std::int64_t const granted_us = server_us();
  advance(5ms);  // on its way
  push_granted_at(granted_us, 1, 100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_EQ(a.deadline(), sampled + 9900ms + 3s - 32ms);
}

TEST_F(EnginePush, NeverCountsItsClaimFromTheFuture) {  // P3
  start_connected();
  caller& a = queued("a");
  advance(10s);
  // The server's clock goes 1 % fast against ours, and more: as if it had granted later than now.
  push_granted_at(server_us() + 500'000, 1, 100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_EQ(a.deadline(), now + 3s - 32ms);
}

TEST_F(EnginePush, UsesTheClaimOfTheReleaserNotItsOwn) {
  start_connected();
  caller& a = queued("a");
  push(1, 100, 1s);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_EQ(a.deadline(), now + 1s - 12ms);
}

TEST_F(EnginePush, TrustsTheLatestSampleOfThisConnectionOnly) {
  start_connected();
  caller& a = queued("a");
  advance(20s);
  disconnect();
  server_ahead = 7s;  // another server, with another clock
  connect();
  settle_connection();
  queue(30'000);
  advance(1s);
  push(1, 100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_EQ(a.deadline(), now - 10ms + 3s - 32ms);
}

TEST_F(EnginePush, TakesItsSampleFromBeforeTheRequestWasWritten) {
  start_connected();
  ask("other", "M");
  advance(400ms);  // the round trip
  queue(60'000);
  caller& a = ask("a");
  time_point const written = now;
  advance(100ms);
  std::int64_t const seen_us = server_us();
  advance(100ms);
  answer({0, 30'000, seen_us, 77});
  advance(50ms);
  // The server's clock showed seen_us no earlier than the request was written.
  push_granted_at(seen_us + 1'000, 2, 100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_GE(a.deadline(), written + 3s - 32ms);
  EXPECT_LE(a.deadline(), written + 100ms + 3s - 32ms + 1ms);
}

TEST_F(EnginePush, IsAskedAgainWhenItCannotBeShownToBeInTime) {  // P3
  start_connected();
  queued("a");
  std::int64_t const granted_us = server_us();
  advance(2300ms);
  push_granted_at(granted_us, 1, 100);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(sent(), texts{"acquire L 1"}) << "the same id: it renews what is still ours";
  EXPECT_EQ(stats.pushes_late, 1u);
  time_point const written = now;
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_EQ(callers.back()->deadline(), written + 30s - 302ms) << "that answer gave it the full lease";
}

TEST_F(EnginePush, IsAskedAgainWithItsPlaceInLine) {  // P5
  start_connected();
  ask("a");
  queue(30'000, 4711);
  sent();
  std::int64_t const granted_us = server_us();
  advance(4s);
  push_granted_at(granted_us, 1, 100);
  auto const again = take_sent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].ticket, 4711);
  queue(2'000, 4711);
  EXPECT_TRUE(received().empty());
  push(1, 101);
  EXPECT_EQ(received(), texts{granted("a", 101)});
}

TEST_F(EnginePush, FromBeforeTheSampleIsAskedAgain) {
  start_connected();
  queued("a");
  advance(1s);
  server_ahead = -10s;  // its clock was stepped back
  push(1, 100);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(sent(), texts{"acquire L 1"});
}

TEST_F(EnginePush, BeforeTheReplyToItsOwnQuestionIsTaken) {
  start_connected();
  ask("a");
  push(1, 100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  grant(100);  // the question came after the grant: it is ours, and now with a full lease
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(callers.back()->deadline(), now + 30s - 302ms);
  EXPECT_EQ(sent(), texts{"acquire L 1"});
}

TEST_F(EnginePush, ThatIsOverIsNotRevivedByALaterGrantOfTheSameId) {  // P3, P9
  start_connected();
  queued("a");
  advance(36s);
  ASSERT_EQ(sent(), texts{"acquire L 1"});  // the safety check; it stays on its way for long
  push(1, 100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  // The process is paused. Its claim ends, another client gets the lock and gives it back, and then the question
  // arrives.
  now += 5s;
  grant(200);
  EXPECT_EQ(received(), texts{"a lost lost"}) << "in between it was somebody else's";
  EXPECT_EQ(sent(), texts{"release L 1"}) << "nobody was told of the second grant";
}

TEST_F(EnginePush, WhoIsAskedTwiceAndFailsOnceIsCleanedUpAfterTheSecondQuestion) {  // P6
  start_connected();
  queued("a");
  std::int64_t const long_ago = server_us();
  advance(36s);
  push_granted_at(long_ago, 1, 100);
  EXPECT_EQ(sent(), (texts{"acquire L 1", "acquire L 1"})) << "a safety check, and once more for the late push";
  answer(fault::wrong_type, "WRONGTYPE");
  EXPECT_EQ(received(), texts{"a failed wrong_type"});
  // The foreign key is removed: the second question is granted, to nobody.
  EXPECT_EQ(sent(), texts{"release L 1"});
  grant(101);
  released();
  EXPECT_TRUE(received().empty());
  expect_clean();
}

TEST_F(EnginePush, ForNobodyIsGivenBackAtOnce) {  // P4, P6
  start_connected();
  push(7, 100, 3s, "never heard of");
  EXPECT_EQ(sent(), texts{"release never heard of 7"});
  EXPECT_EQ(stats.pushes_stray, 1u);
  EXPECT_FALSE(remote->settled());
  released();
  EXPECT_TRUE(remote->settled());
  EXPECT_EQ(cohort->find("never heard of"), nullptr);
}

TEST_F(EnginePush, ForAnotherIdThanTheLiveOneGrantsNothingAndIsGivenBack) {
  start_connected();
  queued("a");
  push(99, 100);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(sent(), texts{"release L 99"});
  removed();
  push(1, 101);
  EXPECT_EQ(received(), texts{granted("a", 101)});
}

TEST_F(EnginePush, ForAnIdThatIsBeingReleasedNeedsNoSecondRelease) {
  start_connected();
  caller& a = queued("a");
  cancel(a, cancel_type::terminal);
  EXPECT_EQ(sent(), texts{"release L 1"});
  push(1, 100);
  EXPECT_TRUE(sent().empty());
  released();
  expect_clean();
}

TEST_F(EnginePush, ForAnIdThatWasReleasedLongAgoIsGivenBack) {
  start_connected();
  caller& a = queued("a");
  cancel(a, cancel_type::terminal);
  removed();
  sent();
  received();
  push(1, 100);
  EXPECT_EQ(sent(), texts{"release L 1"});
  released();
  EXPECT_TRUE(received().empty());
  expect_clean();
}

TEST_F(EnginePush, OfWhatIsHeldAlreadyChangesNothing) {  // P8
  start_connected();
  caller& a = queued("a");
  push(1, 100);
  time_point const deadline = a.deadline();
  push(1, 100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_EQ(a.deadline(), deadline);
  EXPECT_TRUE(sent().empty());
}

TEST_F(EnginePush, IsConfirmedAtAThirdOfTheClaim) {
  start_connected();
  queued("a");
  push(1, 100);
  received();
  advance(900ms);
  EXPECT_TRUE(sent().empty()) << "most holds are over by then";
  advance(100ms);
  auto const confirmation = take_sent();
  ASSERT_EQ(confirmation.size(), 1u);
  EXPECT_EQ(confirmation[0].text, "renew L 1");
  EXPECT_EQ(confirmation[0].leases[0], 30s);
  time_point const written = confirmation[0].at;
  renewed({1});
  EXPECT_EQ(callers.back()->deadline(), written + 30s - 302ms);
  EXPECT_TRUE(received().empty());
}

TEST_F(EnginePush, ThatEndsBeforeItIsConfirmedCostsNoSecondScript) {  // P10
  start_connected();
  caller& a = queued("a");
  push(1, 100);
  advance(500ms);
  release(a);
  EXPECT_EQ(sent(), texts{"release L 1"});
  released();
  advance(10s);
  EXPECT_TRUE(sent().empty());
}

TEST_F(EnginePush, ThatIsNotConfirmedIsLostBeforeTheClaimEnds) {  // P3, P9
  start_connected();
  caller& a = queued("a");
  push(1, 100);
  time_point const deadline = a.deadline();
  advance(deadline - now - 500ms - 1ns);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  advance(1ns);
  EXPECT_EQ(received(), texts{"a lost lost"});
}

TEST_F(EnginePush, StopsAtMostAQuarterOfAShortClaimBeforeItsEnd) {
  start_connected();
  caller& a = queued("a");
  push(1, 100, 400ms);  // the drift is 6 ms
  received();
  time_point const deadline = a.deadline();
  EXPECT_EQ(deadline, now + 394ms);
  advance(deadline - now - (394ms / 4) - 1ms);
  EXPECT_TRUE(received().empty());
  advance(2ms);
  EXPECT_EQ(received(), texts{"a lost lost"});
}

TEST_F(EnginePush, ConfirmsTheFixedLeaseOnceAndThenNoMore) {
  start_connected();
  caller& a = queued("a", "L", {.fixed = true, .lease = 10s});
  push(1, 100);
  advance(1s);
  auto const confirmation = take_sent();
  ASSERT_EQ(confirmation.size(), 1u);
  EXPECT_EQ(confirmation[0].text, "renew L 1");
  EXPECT_EQ(confirmation[0].leases[0], 10s);
  time_point const written = confirmation[0].at;
  renewed({1});
  EXPECT_EQ(a.deadline(), written + 10s - 102ms);
  advance(8s);
  EXPECT_TRUE(sent().empty());
}

TEST_F(EnginePush, ATurnMissedAtAnotherServerIsAskedForAgainWithTheOldTicket) {  // P1, P5
  start_connected();
  ask("a");
  queue(30'000, 4711);
  take_sent();
  remote->receiver().pushed(protocol::missed_turn{"L", 1}, now);
  auto const again = take_sent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].text, "acquire L 1");
  EXPECT_EQ(again[0].ticket, 4711);
  answer(fault::reconnect, "READONLY You can't write against a read only replica.");
  EXPECT_EQ(dropped().size(), 1u) << "what it is connected to is a replica";
  disconnect();
  connect("another run");
  settle_connection();
  auto const there = take_sent();
  ASSERT_FALSE(there.empty());
  EXPECT_EQ(there.back().text, "acquire L 1");
  EXPECT_EQ(there.back().ticket, 4711);
}

TEST_F(EnginePush, AMissedTurnOfSomethingElseChangesNothing) {
  start_connected();
  caller& a = queued("a");
  remote->receiver().pushed(protocol::missed_turn{"L", 2}, now);
  remote->receiver().pushed(protocol::missed_turn{"M", 1}, now);
  EXPECT_EQ(sent(), texts{});
  push(1, 100);
  remote->receiver().pushed(protocol::missed_turn{"L", 1}, now);  // it is owned: no turn is waited for
  EXPECT_EQ(sent(), texts{});
  release(a);
  take_sent();
  remote->receiver().pushed(protocol::missed_turn{"L", 1}, now);
  EXPECT_EQ(sent(), texts{});
}

TEST_F(EnginePush, WhoseClaimPassedBeforeTheQuestionArrivedIsLost) {  // P9
  start_connected();
  ask("a");
  take_sent();
  push(1, 100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  // The question found another owner, and queued us again under an id that is dead by now.
  queue(30'000);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), texts{"release L 1"});
  removed();
  release(*callers.back());
  EXPECT_EQ(received(), texts{"a not released ok"});
  expect_clean();
}

}  // namespace
}  // namespace conch::engine
