#include "engine_fixture.hpp"

#include <algorithm>

namespace conch::engine {
namespace {

using EngineCohort = engine_test;

TEST_F(EngineCohort, StandsInTheServersLineOnceForAllItsWaiters) {
  start_connected();
  for (int i = 0; i < 100; ++i) ask("a" + std::to_string(i));
  EXPECT_EQ(sent(), texts{"acquire L 1"});
}

TEST_F(EngineCohort, ServesItsWaitersInTheOrderOfTheirAsking) {  // P5
  settings.local_slice = 1s;
  start_connected();
  std::vector<caller*> all;
  for (int i = 0; i < 10; ++i) all.push_back(&ask("a" + std::to_string(i)));
  grant(100);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(received().back(), granted("a" + std::to_string(i), 100, i));
    if (i < 9) release(*all[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(sent(), texts{"acquire L 1"}) << "handed on in memory";
  EXPECT_EQ(stats.grants_local, 9u);
}

TEST_F(EngineCohort, GivesEveryHolderAGreaterFence) {  // P2
  settings.local_slice = 30s;
  start_connected();
  caller* holder = &ask("first");
  grant(100);
  std::int64_t fence = holder->fence;
  for (int i = 1; i <= 50; ++i) {
    caller& next = ask("next");
    release(*holder);
    EXPECT_GT(next.fence, fence);
    fence = next.fence;
    holder = &next;
  }
}

TEST_F(EngineCohort, GoesThroughTheServerWhenTheSliceIsUsedUp) {  // P5
  start_connected();
  caller& a = holding("a");
  caller& b = ask("b");
  ask("c");
  advance(5ms - 1ns);
  release(a);
  EXPECT_EQ(received(), (texts{"a released ok", granted("b", 100, 1)}));
  advance(1ns);
  release(b);
  EXPECT_EQ(sent(), texts{"release L 1 again 2"}) << "back to the end of the server's line, in the same script";
  EXPECT_TRUE(received().empty());
  released_and_queued(30'000);
  EXPECT_EQ(received(), texts{"b released ok"});
  push(2, 101);
  EXPECT_EQ(received(), texts{granted("c", 101)});
}

TEST_F(EngineCohort, IsGrantedAnewByTheSameScriptWhenNobodyElseWaits) {
  start_connected();
  caller& a = holding("a");
  ask("b");
  advance(6ms);
  time_point const written = now;
  release(a);
  EXPECT_EQ(sent(), texts{"release L 1 again 2"});
  advance(1ms);
  released_and_granted(101);
  auto const events_now = received();
  EXPECT_EQ(events_now.size(), 2u);
  EXPECT_NE(std::find(events_now.begin(), events_now.end(), "a released ok"), events_now.end());
  EXPECT_NE(std::find(events_now.begin(), events_now.end(), granted("b", 101)), events_now.end());
  EXPECT_EQ(callers.back()->deadline(), written + 30s - 302ms);
}

TEST_F(EngineCohort, StartsANewSliceWithEveryGrant) {
  start_connected();
  caller& a = holding("a");
  caller& b = ask("b");
  ask("c");
  advance(6ms);
  release(a);
  released_and_granted(101);
  sent();
  received();
  advance(4ms);
  release(b);
  EXPECT_EQ(received(), (texts{"b released ok", granted("c", 101, 1)}));
  EXPECT_TRUE(sent().empty());
}

TEST_F(EngineCohort, WithoutASliceHandsEverythingOverThroughTheServer) {
  settings.local_slice = 0s;
  start_connected();
  caller& a = holding("a");
  ask("b");
  release(a);
  EXPECT_EQ(sent(), texts{"release L 1 again 2"});
  EXPECT_TRUE(received().empty());
}

TEST_F(EngineCohort, AsksAgainWithTheLeaseOfTheNextInLine) {
  settings.local_slice = 0s;
  start_connected();
  caller& a = holding("a");
  caller& b = ask("b", "L", {.lease = 5s});
  release(a);
  EXPECT_EQ(take_sent()[0].lease, 5s);
  released_and_granted(101);
  EXPECT_EQ(b.deadline(), now + 5s - 52ms);
}

TEST_F(EngineCohort, HandsOnUntilTheIndexOfTheTokenIsUsedUp) {  // P2
  settings.local_slice = 30s;
  start_connected();
  caller* holder = &ask("first");
  grant(100);
  take_sent();
  for (int i = 1; i <= 4095; ++i) {
    caller& next = ask("next");
    release(*holder);
    ASSERT_EQ(next.fence, token(100, i));
    holder = &next;
  }
  EXPECT_TRUE(sent().empty());
  caller& next = ask("last");
  release(*holder);
  EXPECT_EQ(sent(), texts{"release L 1 again 2"});
  received();
  released_and_granted(101);
  EXPECT_EQ(next.fence, token(101, 0));
  EXPECT_GT(next.fence, token(100, 4095));
}

TEST_F(EngineCohort, NeverResetsTheIndexByARenewal) {  // P2
  settings.local_slice = 30s;
  start_connected();
  caller& a = holding("a");
  caller& b = ask("b");
  ask("c");
  release(a);
  advance(10s);
  renewed({1});
  release(b);
  EXPECT_EQ(callers.back()->fence, token(100, 2));
}

TEST_F(EngineCohort, DoesNotHandOnAGrantThatIsTooCloseToItsEnd) {  // P3
  settings.local_slice = 30s;
  start_connected();
  caller& a = holding("a");
  ask("b");
  disconnect();  // no renewal succeeds
  time_point const deadline = a.deadline();
  advance(deadline - now - 2 * settings.stop_margin);
  received();
  release(a);
  EXPECT_EQ(received().size(), 0u) << "b gets nothing that would be lost at once";
  connect();
  settle_connection();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", "release L 1", "acquire L 2"}));
}

TEST_F(EngineCohort, StillHandsOnWhatIsGoodForLongerOnceTheServerHasSaidSo) {
  settings.local_slice = 30s;
  start_connected();
  caller& a = holding("a");
  ask("b");
  disconnect();
  advance(a.deadline() - now - 2 * settings.stop_margin - 1ms);
  received();
  release(a);
  EXPECT_EQ(received(), texts{"a released ok"});
  connect();
  settle_connection();
  EXPECT_EQ(sent().back(), "renew L 1");
  renewed({1});
  EXPECT_EQ(received(), texts{granted("b", 100, 1)});
}

TEST_F(EngineCohort, AsksAtOnceForTheWordBehindARenewalThatIsUnderWay) {  // P4
  settings.local_slice = 30s;
  start_connected();
  caller& a = holding("a");
  ask("b");
  advance(10s);
  ASSERT_EQ(sent(), texts{"renew L 1"});
  release(a);
  EXPECT_EQ(received(), texts{"a released ok"});
  EXPECT_TRUE(sent().empty());
  renewed({1});
  advance(0s);
  EXPECT_TRUE(received().empty()) << "asked before the release: it does not say that the lock is ours now";
  EXPECT_EQ(sent(), texts{"renew L 1"});
  renewed({1});
  EXPECT_EQ(received(), texts{granted("b", 100, 1)});
}

// it keeps a quarter of it as its margin, not stop_margin
TEST_F(EngineCohort, HandsOnAShortClaimTooWhileThereIsTimeEnough) {
  settings.claim = 10ms;  // the grant is word enough
  settings.local_slice = 30s;
  ASSERT_EQ(settings.stop_margin, 500ms);
  start_connected();
  caller& a = queued("a");
  caller& b = ask("b");
  ask("c");
  push(1, 100, 10ms);
  received();
  time_point const deadline = a.deadline();
  duration const margin = (deadline - now) / 4;
  advance(deadline - now - 2 * margin - 1ms);
  release(a);
  EXPECT_EQ(received(), (texts{"a released ok", granted("b", 100, 1)}));
  advance(2ms);
  release(b);
  EXPECT_TRUE(received().empty()) << "c gets nothing that would be lost at once";
}

TEST_F(EngineCohort, StartsAFixedLeaseAnewForTheNextOwner) {
  settings.local_slice = 30s;
  for (int which = 0; which < 2; ++which) {
    start_connected();
    caller& a = holding("a", "L", {.fixed = which == 0});
    ask("b", "L", {.fixed = which == 1, .lease = 7s});
    release(a);
    auto const scripts = take_sent();
    ASSERT_EQ(scripts.size(), 1u) << which;
    EXPECT_EQ(scripts[0].text, "release L 1 again 2");
    EXPECT_EQ(scripts[0].lease, 7s);
  }
}

TEST_F(EngineCohort, ReleasesForGoodWhenNobodyWaitsHere) {
  start_connected();
  caller& a = holding("a");
  caller& b = ask("b");
  cancel(b, cancel_type::partial);
  release(a);
  EXPECT_EQ(sent(), texts{"release L 1"});
  released();
  EXPECT_EQ(received(), (texts{"b failed cancelled", "a released ok"}));
  expect_clean();
}

TEST_F(EngineCohort, PassesALockOnForWhichNobodyWaitsAnyMore) {  // P4
  start_connected();
  caller& a = ask("a");
  cancel(a, cancel_type::total);
  cancel(a, cancel_type::terminal);
  received();
  sent();
  grant(100);
  EXPECT_EQ(sent(), texts{"release L 1"});
  released(false);  // the leave
  released(true);
  expect_clean();
}

TEST_F(EngineCohort, ServesWhoAskedDuringTheRelease) {
  start_connected();
  caller& a = holding("a");
  release(a);
  ask("b");
  EXPECT_EQ(sent(), (texts{"release L 1", "acquire L 2"})) << "in this order on one connection";
  released();
  grant(101);
  EXPECT_EQ(received(), (texts{"a released ok", granted("b", 101)}));
}

TEST_F(EngineCohort, RequeuesWithANewId) {
  settings.local_slice = 0s;
  start_connected();
  caller& a = holding("a");
  caller& b = ask("b");
  ask("c");
  release(a);
  released_and_granted(101);
  release(b);
  EXPECT_EQ(sent(), (texts{"release L 1 again 2", "release L 2 again 3"}));
}

TEST_F(EngineCohort, FindsItsPlaceWhenTheRequeueIsPushedBeforeItsAnswer) {
  settings.local_slice = 0s;
  start_connected();
  caller& a = holding("a");
  ask("b");
  release(a);
  push(2, 102);  // another had it in between, and is done already
  EXPECT_EQ(received(), texts{granted("b", 102)});
  sent();
}

TEST_F(EngineCohort, CancelsTheRequeueOfItsOnlyWaiter) {
  settings.local_slice = 0s;
  start_connected();
  caller& a = holding("a");
  caller& b = ask("b");
  release(a);
  cancel(b, cancel_type::partial);
  EXPECT_EQ(sent(), (texts{"release L 1 again 2", "release L 2"}));
  released_and_queued(30'000);
  EXPECT_EQ(received(), texts{"a released ok"});
  removed();
  EXPECT_EQ(received(), texts{"b failed cancelled"});
  // the first release passed the lock on while others waited: a repetition looks after that, under the last id
  advance(4s);
  EXPECT_EQ(sent(), texts{"release L 2"});
  removed();
  expect_clean();
}

TEST_F(EngineCohort, SendsTheRequeueAgainWithItsSource) {
  settings.local_slice = 0s;
  start_connected();
  caller& a = holding("a");
  ask("b");
  release(a);
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), (texts{"release L 1 again 2", "source release L 1 again 2"}));
  released_and_granted(101);
  EXPECT_EQ(stats.held, 1u);
}

TEST_F(EngineCohort, GivesTheNextWaiterTheFenceOfANewGrantAfterALoss) {
  start_connected();
  holding("a");
  ask("b");
  take_sent();
  advance(10s);
  EXPECT_EQ(sent(), texts{"renew L 1"});
  renewed({0});
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), texts{"acquire L 2"});
  grant(200);
  EXPECT_EQ(received(), texts{granted("b", 200)});
}

TEST_F(EngineCohort, DropsItsEntryWhenAllIsDone) {
  start_connected();
  std::vector<caller*> all;
  for (int i = 0; i < 50; ++i) all.push_back(&ask("a", "lock" + std::to_string(i)));
  for (int i = 0; i < 50; ++i) grant(100);
  for (caller* a : all) release(*a);
  for (int i = 0; i < 50; ++i) released();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(cohort->find("lock" + std::to_string(i)), nullptr);
  expect_clean();
}

TEST_F(EngineCohort, LetsADroppedHoldGoWithoutTellingAnybody) {
  start_connected();
  caller& a = holding("a");
  ask("b");
  cohort->abandon(a, now);
  callers.pop_front();
  EXPECT_EQ(received(), texts{granted("b", 100, 1)});
}

}  // namespace
}  // namespace conch::engine
