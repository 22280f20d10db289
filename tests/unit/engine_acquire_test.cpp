#include "engine_fixture.hpp"

#include <algorithm>

namespace conch::engine {
namespace {

using EngineAcquire = engine_test;

TEST_F(EngineAcquire, AsksOnceAndIsGrantedInTheAnswer) {
  start_connected();
  time_point const asked = now;
  caller& a = ask("a");
  auto const commands = take_sent();
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].text, "acquire L 1");
  EXPECT_EQ(commands[0].lease, 30s);
  EXPECT_EQ(commands[0].claim, 3s);
  EXPECT_EQ(commands[0].retention, 10min + 30s) << "after the hold, and that lasts a lease";
  EXPECT_EQ(commands[0].ticket, 0);
  EXPECT_EQ(commands[0].not_after_us, 0);
  EXPECT_TRUE(received().empty());

  advance(1ms);
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  // P3: from before the request was written, less the drift: 1 % and 2 ms.
  EXPECT_EQ(a.deadline(), asked + 30s - 302ms);
  EXPECT_EQ(a.fence, 100 * 4096);
  EXPECT_TRUE(sent().empty());
}

TEST_F(EngineAcquire, CostsOneCommandToTakeAndOneToGiveBack) {  // P10
  start_connected();
  caller& a = ask("a");
  grant(100);
  release(a);
  EXPECT_EQ(sent(), (texts{"acquire L 1", "release L 1"}));
  EXPECT_EQ(received(), texts{granted("a", 100)});
  released();
  EXPECT_EQ(received(), texts{"a released ok"});
  expect_clean();
  EXPECT_EQ(timers.next(), begin + settings.command_timeout) << "the guard of the connection, and nothing else";
}

TEST_F(EngineAcquire, AsksWithTheLeaseOfTheCaller) {
  start_connected();
  ask("a", "L", {.lease = 5s});
  EXPECT_EQ(take_sent()[0].lease, 5s);
}

TEST_F(EngineAcquire, HoldsTheLeaseOfTheCallerForTheDeadline) {
  start_connected();
  caller& a = ask("a", "L", {.lease = 5s});
  grant(100);
  EXPECT_EQ(a.deadline(), begin + 5s - 52ms);
}

TEST_F(EngineAcquire, WaitsInLineUntilTheGrantIsPushed) {
  start_connected();
  ask("a");
  queue(30'000);
  advance(10s);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(sent(), texts{"acquire L 1"});
  push(1, 100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_TRUE(sent().empty()) << "confirmed later, off the critical path";
  EXPECT_EQ(stats.grants_pushed, 1u);
}

TEST_F(EngineAcquire, AsksAgainInItsPlaceWhenTheLeaseItSawIsOver) {  // P4
  start_connected();
  ask("a");
  queue(2'000, 4711);
  take_sent();
  advance(2s);
  EXPECT_TRUE(sent().empty());
  advance(700ms);
  auto const again = take_sent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].text, "acquire L 1");
  EXPECT_EQ(again[0].ticket, 4711);
  EXPECT_EQ(stats.safety_checks, 1u);
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
}

TEST_F(EngineAcquire, ChecksOnceALeaseAndNoMoreOften) {  // P10
  settings.keep_alive = 0s;
  start_connected();
  ask("a");
  queue(30'000);
  take_sent();
  for (int lease = 1; lease <= 5; ++lease) {
    advance(30s);
    advance(3100ms);
    EXPECT_EQ(sent(), texts{"acquire L 1"}) << lease;
    queue(30'000);
  }
}

// P5: the line outlives the lock by the asker's lease
TEST_F(EngineAcquire, AsksAgainBeforeItsPlaceInLineIsForgotten) {
  settings.keep_alive = 0s;
  start_connected();
  for (int i = 0; i < 20; ++i) {
    ask("a", "lock" + std::to_string(i), {.lease = 500ms});
    queue(30'000);
  }
  take_sent();
  advance(30s);
  EXPECT_TRUE(sent().empty());
  advance(300ms);
  EXPECT_EQ(sent().size(), 20u);
}

TEST_F(EngineAcquire, SpreadsTheSafetyChecksOfManyLocks) {
  settings.keep_alive = 0s;
  start_connected();
  for (int i = 0; i < 20; ++i) {
    ask("a", "lock" + std::to_string(i));
    queue(10'000);
  }
  take_sent();
  advance(14s);
  std::vector<time_point> moments;
  for (auto const& c : take_sent()) moments.push_back(c.at);
  ASSERT_EQ(moments.size(), 20u);
  EXPECT_GT(moments.back() - moments.front(), 1s);
  EXPECT_GE(moments.front(), begin + 10s);
}

/// All see the end of the same lease. The first of many finds a dead holder at once, the last after a claim; and in no
/// moment do all of them ask.
TEST_F(EngineAcquire, SpreadsTheSafetyChecksBehindOneLeaseOverAClaim) {  // P4, P10
  settings.keep_alive = 0s;
  settings.claim = 2s;
  start_connected();
  constexpr int waiters = 2'000;
  make_room(waiters);
  for (int i = 0; i < waiters; ++i) {
    ask("a", "semaphore", {.permit = {.kind = permit_kind::semaphore, .limit = 1, .weight = 1}});
    answer({0, 15'000, server_us(), 77 + i});
  }
  take_sent();
  advance(15s + 2s + 5ms);
  std::vector<int> in_a_tenth(21);
  std::size_t all = 0;
  for (auto const& c : take_sent()) {
    ASSERT_GE(c.at, begin + 15s);
    ++in_a_tenth[static_cast<std::size_t>((c.at - begin - 15s) / 100ms)];
    ++all;
  }
  EXPECT_EQ(all, 2'000u);
  EXPECT_GT(in_a_tenth[0], 0);
  for (int const n : in_a_tenth) EXPECT_LT(n, waiters / 20 * 2) << "twice the mean";
}

TEST_F(EngineAcquire, IsToldThatATriedLockIsBusy) {
  start_connected();
  ask("a", "L", {.once = true});
  EXPECT_EQ(sent(), texts{"try L 1"});
  tell_busy();
  EXPECT_EQ(received(), texts{"a busy"});
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(stats.tries_busy, 1u);
  expect_clean();
}

TEST_F(EngineAcquire, HoldsATriedLockThatWasFree) {
  start_connected();
  caller& a = ask("a", "L", {.once = true});
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  release(a);
  released();
  expect_clean();
}

TEST_F(EngineAcquire, FindsALockBusyThatThisProcessUsesWithoutAskingTheServer) {
  start_connected();
  holding("a");
  ask("b", "L", {.once = true});
  EXPECT_EQ(received(), texts{"b busy"});
  queued("c", "other");
  ask("d", "other", {.once = true});
  EXPECT_EQ(received(), texts{"d busy"});
  EXPECT_TRUE(sent().empty());
}

TEST_F(EngineAcquire, GoesOnWithTheNextWhenATryWasBusy) {
  start_connected();
  ask("a", "L", {.once = true});
  ask("b");
  EXPECT_EQ(sent(), texts{"try L 1"});
  tell_busy();
  EXPECT_EQ(received(), texts{"a busy"});
  EXPECT_EQ(sent(), texts{"acquire L 2"});
}

TEST_F(EngineAcquire, GivesATriedGrantToTheNextWhenTheTryWasCancelled) {
  start_connected();
  caller& a = ask("a", "L", {.once = true});
  ask("b");
  cancel(a, cancel_type::terminal);
  EXPECT_EQ(received(), texts{"a failed cancelled"});
  grant(100);
  EXPECT_EQ(received(), texts{granted("b", 100)});
}

TEST_F(EngineAcquire, AsksForAWaiterWhenTheTryBeforeItWasCancelledAndBusy) {
  start_connected();
  caller& a = ask("a", "L", {.once = true});
  ask("b");
  cancel(a, cancel_type::terminal);
  sent();
  tell_busy();
  EXPECT_EQ(sent(), texts{"acquire L 2"});
  grant(100);
  EXPECT_EQ(received(), (texts{"a failed cancelled", granted("b", 100)}));
}

TEST_F(EngineAcquire, TakesAnswersInTheOrderOfTheQuestions) {
  start_connected();
  ask("a", "A");
  ask("b", "B");
  ask("c", "C", {.once = true});
  EXPECT_EQ(sent(), (texts{"acquire A 1", "acquire B 2", "try C 3"}));
  grant(10);
  queue(1'000);
  tell_busy();
  EXPECT_EQ(received(), (texts{granted("a", 10), "c busy"}));
}

TEST_F(EngineAcquire, NeverUsesAnIdAgain) {
  start_connected();
  for (std::uint64_t id = 1; id <= 5; ++id) {
    caller& a = ask("a");
    EXPECT_EQ(sent(), texts{"acquire L " + std::to_string(id)});
    grant(static_cast<std::int64_t>(100 + id));
    release(a);
    released();
    take_sent();
  }
  expect_clean();
}

TEST_F(EngineAcquire, GivesAGrantBackThatArrivesTooLateAndAsksAnew) {  // P3, P6
  settings.command_timeout = 60s;
  start_connected();
  ask("a");
  take_sent();
  advance(29'698ms);
  grant(100);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(sent(), (texts{"release L 1", "acquire L 2"}));
  released();
  grant(101);
  EXPECT_EQ(received(), texts{granted("a", 101)});
}

TEST_F(EngineAcquire, DeliversAGrantThatArrivesJustInTime) {
  settings.command_timeout = 60s;
  start_connected();
  caller& a = ask("a");
  advance(29'697ms);
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_GT(a.deadline(), now);
}

TEST_F(EngineAcquire, TakesAFenceAloneForAGrant) {
  start_connected();
  ask("a");
  answer({100});
  EXPECT_EQ(received(), texts{granted("a", 100)});
}

TEST_F(EngineAcquire, TakesNothingFromAnswersThatMakeNoSense) {
  for (numbers const& nonsense : {numbers{}, numbers{1, 100}, numbers{9, 100, 5}}) {
    start_connected();
    ask("a");
    answer(nonsense);
    EXPECT_EQ(dropped().size(), 1u);
    EXPECT_TRUE(received().empty());
    disconnect();
    connect();
    settle_connection();
    EXPECT_EQ(sent().back(), "acquire L 1") << "the same request on the next connection";
  }
}

// P11: another program has spoilt the key of its fence. The grant is given back, and no other lock is affected.
TEST_F(EngineAcquire, AFenceOfWhichNoTokenCanBeMadeFailsThatLockAlone) {
  for (std::int64_t const fence : {fence_limit, std::int64_t{1} << 53, std::int64_t{0}}) {
    start_connected();
    caller& other = holding("other", "M");
    ask("a");
    take_sent();
    grant(fence);
    EXPECT_EQ(received(), texts{"a failed protocol"});
    EXPECT_EQ(sent(), texts{"release L 2"});
    released();

    ask("b");
    queue(30'000);
    take_sent();
    push(3, fence);
    EXPECT_EQ(sent(), texts{"acquire L 3"}) << "anybody may have written that message; the answer says how it is";
    grant(fence);
    EXPECT_EQ(received(), texts{"b failed protocol"});
    EXPECT_EQ(sent(), texts{"release L 3"});
    released();

    caller& c = ask("c");
    queue(30'000);
    cancel(c, cancel_type::total);
    take_sent();
    stay(fence);
    EXPECT_EQ(received(), texts{"c failed cancelled"});
    EXPECT_EQ(sent(), texts{"release L 4"});
    released();

    push(77, fence);  // of no request
    EXPECT_EQ(sent(), texts{"release L 77"});
    released();
    EXPECT_TRUE(dropped().empty());
    EXPECT_GT(other.deadline(), now);
    release(other);
    released();
    received();
    expect_clean();
  }
}

TEST_F(EngineAcquire, SaysOfWhichLockTheFenceIs) {
  start_connected();
  ask("a", "the name");
  grant(fence_limit);
  EXPECT_EQ(received(), texts{"a failed protocol"});
  EXPECT_NE(last_failure.message().find("the name"), std::string::npos) << last_failure.message();
}

TEST_F(EngineAcquire, DropsAConnectionThatAnswersWhatWasNotAsked) {
  start_connected();
  remote->receiver().answered({fault::none, {}, {}}, now);
  EXPECT_EQ(dropped(), texts{"an unexpected answer"});
}

TEST_F(EngineAcquire, IsRefusedByAClosedClient) {
  start_connected();
  cohort->close(now);
  EXPECT_TRUE(cohort->closed());
  ask("a");
  EXPECT_EQ(received(), texts{"a failed closed"});
  EXPECT_TRUE(sent().empty());
  expect_clean();
}

TEST_F(EngineAcquire, EndsAllWaitsWhenTheClientIsClosed) {  // P6
  start_connected();
  holding("a", "A");
  ask("b", "A");
  queued("c", "C");
  ask("d", "D");
  caller& e = queued("e", "E");
  cancel(e, cancel_type::total);  // already on its way out
  sent();
  cohort->close(now);
  EXPECT_EQ(received().size(), 4u);
  auto scripts = sent();
  std::sort(scripts.begin(), scripts.end());
  EXPECT_EQ(scripts, (texts{"release C 2", "release D 3"}));
  EXPECT_EQ(stats.waiting, 0u);
  EXPECT_EQ(stats.held, 1u) << "holds stay";
}

TEST_F(EngineAcquire, GivesAllHoldsBackAtTheEndOfTheClosing) {
  start_connected();
  caller& a = holding("a", "A");
  caller& b = holding("b", "B");
  sent();
  cohort->close(now);
  cohort->give_back_everything(now);
  EXPECT_EQ(received().size(), 2u);
  EXPECT_LT(a.deadline(), now);
  EXPECT_LT(b.deadline(), now);
  EXPECT_EQ(sent().size(), 2u);
  release(a);
  EXPECT_EQ(received(), texts{"a not released ok"});
  released();
  released();
  expect_clean();
}

TEST_F(EngineAcquire, IsNotSettledWhileWhoLeavesMayStillBeGranted) {
  start_connected();
  caller& a = queued("a");
  cancel(a, cancel_type::total);
  take_sent();
  cohort->close(now);
  EXPECT_EQ(received().size(), 1u);
  EXPECT_FALSE(remote->settled()) << "a client that ends now would leave the lock to its lease";
  stay(101);
  EXPECT_EQ(sent(), texts{"release L 1"});
  EXPECT_FALSE(remote->settled());
  released();
  expect_clean();
}

TEST_F(EngineAcquire, CountsWhatItDoes) {
  start_connected();
  caller& a = ask("a");
  ask("b");
  EXPECT_EQ(stats.acquires, 2u);
  EXPECT_EQ(stats.waiting, 2u);
  grant(100);
  EXPECT_EQ(stats.grants_replied, 1u);
  EXPECT_EQ(stats.waiting, 1u);
  EXPECT_EQ(stats.held, 1u);
  advance(1ms);
  release(a);
  EXPECT_EQ(stats.grants_local, 1u);
  EXPECT_EQ(stats.releases, 1u);
  EXPECT_EQ(stats.held, 1u);
  EXPECT_EQ(stats.waiting, 0u);
  EXPECT_EQ(stats.scripts, 1u);
  EXPECT_EQ(stats.wait.count, 2u);
  EXPECT_EQ(stats.hold.count, 1u);
}

}  // namespace
}  // namespace conch::engine
