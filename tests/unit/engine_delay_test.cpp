// config::lock_delay: the server keeps what was lost, and what was released is free at once.
#include "engine_fixture.hpp"

namespace conch::engine {
namespace {

class EngineDelay : public engine_test {
 protected:
  EngineDelay() { settings.lock_delay = 10s; }
};

TEST_F(EngineDelay, EveryRequestAsksForItAndTheDeadlineDoesNotCountIt) {
  start_connected();
  caller& a = ask("a");
  auto const asked = take_sent();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].lease, 40s);
  EXPECT_EQ(asked[0].claim, 3s);
  EXPECT_EQ(asked[0].retention, settings.fence_retention + 40s);
  grant(100);
  EXPECT_EQ(a.deadline(), now + good_for(30s));
  advance(11s);
  auto const renewal = take_sent();
  ASSERT_EQ(renewal.size(), 1u);
  EXPECT_EQ(renewal[0].leases, (std::vector<milliseconds>{40s}));
  EXPECT_LE(renewal[0].at - begin, good_for(30s) / 3) << "as without a delay";
  renewed({1});
  EXPECT_EQ(a.deadline(), renewal[0].at + good_for(30s));
  ask("b", "M", {.once = true});
  EXPECT_EQ(take_sent().at(0).lease, 40s);
  try_all({"x", "y"});
  EXPECT_EQ(take_sent().at(0).leases, (std::vector<milliseconds>{40s, 40s}));
}

TEST_F(EngineDelay, AReleaseFreesItAtOnce) {
  start_connected();
  caller& a = holding("a");
  release(a);
  EXPECT_EQ(sent(), texts{"release L 1"});
  released();
  EXPECT_EQ(received(), texts{"a released ok"});
  expect_clean();
}

TEST_F(EngineDelay, AfterALossNothingIsSent) {
  start_connected();
  holding("a", "L", {.fixed = true});
  advance(40s);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), texts{});
  expect_clean();
}

TEST_F(EngineDelay, AReleaseThatFollowsTheLossIsNotSentEither) {
  start_connected();
  caller& a = holding("a", "L", {.fixed = true});
  advance(good_for(30s) - 500ms);
  EXPECT_EQ(received(), texts{"a lost lost"});
  release(a);
  EXPECT_EQ(received(), texts{"a not released ok"});
  EXPECT_EQ(sent(), texts{});
  expect_clean();
}

TEST_F(EngineDelay, AReleaseThatComesTooLateIsNotSent) {
  start_connected();
  caller& a = holding("a");
  disconnect();
  now += 31s;  // this process did not run
  release(a);
  EXPECT_EQ(received(), (texts{"a lost lost", "a not released ok"}));
  connect();
  settle_connection();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove"}));
  expect_clean();
}

/// Behind the lost grant, under another id.
TEST_F(EngineDelay, AWaiterOfTheSameClientWaitsToo) {
  start_connected();
  holding("a", "L", {.fixed = true});
  ask("b");
  EXPECT_EQ(sent(), texts{});
  advance(30s);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), texts{"acquire L 2"});
  queue(10'000);
  EXPECT_EQ(received(), texts{});
}

TEST_F(EngineDelay, ALossThatTheServerHasReportedLeavesNothing) {
  start_connected();
  holding("a");
  advance(11s);
  EXPECT_EQ(sent(), texts{"renew L 1"});
  renewed({0});
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), texts{});
  expect_clean();
}

/// A claim ends without a delay, so it is not believed in.
TEST_F(EngineDelay, APushIsConfirmedBeforeItIsDelivered) {
  start_connected();
  caller& a = queued("a");
  push(1, 100);
  EXPECT_EQ(received(), texts{});
  auto const asked = take_sent();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].text, "acquire L 1");
  EXPECT_EQ(asked[0].lease, 40s);
  grant(100);
  EXPECT_EQ(received(), texts{"a granted 409600"});
  EXPECT_EQ(a.deadline(), now + good_for(30s));
}

TEST_F(EngineDelay, TheEndOfTheClientReleasesWhatItHoldsAndNotWhatItHasLost) {
  start_connected();
  holding("a");
  caller& b = ask("b", "M", {.fixed = true, .lease = 1s});
  take_sent();
  grant(101);
  received();
  advance(good_for(1s) - 100ms);
  EXPECT_EQ(received(), texts{"b lost lost"});
  EXPECT_EQ(b.phase, acquisition_phase::lost);
  cohort->close(now);
  cohort->give_back_everything(now);
  EXPECT_EQ(received(), texts{"a lost closed"});
  EXPECT_EQ(sent(), texts{"release L 1"});
}

}  // namespace
}  // namespace conch::engine
