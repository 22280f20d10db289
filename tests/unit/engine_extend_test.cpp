#include "engine_fixture.hpp"

// Holds that are given another lease. With the defaults a lease of 30 s is good for 29698 ms.
namespace conch::engine {
namespace {

class EngineExtend : public engine_test {
 public:
  /// What is sent at once.
  texts sent_now() {
    advance(0ms);
    return sent();
  }
};

TEST_F(EngineExtend, RenewsAtOnceWithTheNewLease) {
  start_connected();
  caller& a = holding("a");
  advance(1s);
  extend(a, 60s);
  advance(0ms);
  auto const renewal = take_sent();
  ASSERT_EQ(renewal.size(), 1u);
  EXPECT_EQ(renewal[0].text, "renew L 1");
  EXPECT_EQ(renewal[0].leases, std::vector<milliseconds>{60s});
  EXPECT_TRUE(received().empty()) << "the server has not answered";
  advance(2ms);
  renewed({1});
  EXPECT_EQ(received(), texts{"a extended ok"});
  EXPECT_EQ(a.deadline(), renewal[0].at + 60s - 602ms);
}

TEST_F(EngineExtend, IsDoneAtOnceWhereTheHoldIsGoodForThatLong) {
  start_connected();
  caller& a = holding("a");
  time_point const deadline = a.deadline();
  extend(a, 10s);
  EXPECT_EQ(received(), texts{"a extended ok"});
  EXPECT_TRUE(sent_now().empty());
  EXPECT_EQ(a.deadline(), deadline) << "never moved back";
}

TEST_F(EngineExtend, RenewsAFixedLeaseOnce) {
  start_connected();
  caller& a = holding("a", "L", {.fixed = true, .lease = 2s});
  advance(1s);
  extend(a, 5s);
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  time_point const written = now;
  renewed({1});
  EXPECT_EQ(received(), texts{"a extended ok"});
  EXPECT_EQ(a.deadline(), written + 5s - 52ms);
  advance(5s);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), texts{"release L 1"});
}

TEST_F(EngineExtend, DoesNotConfirmAClaimThatIsLongEnough) {
  start_connected();
  caller& a = queued("a", "L", {.fixed = true, .lease = 1s});
  push(1, 100, 3s);
  advance(500ms);
  received();
  extend(a, 2s);  // the claim is long enough
  EXPECT_EQ(received(), texts{"a extended ok"});
  time_point const ends = a.deadline();
  EXPECT_EQ(ends, now + 2s - 22ms);
  advance(ends - now - 501ms);
  EXPECT_TRUE(sent().empty())
      << "nothing is left to confirm: a renewal that succeeds late would only make the margin smaller";
  EXPECT_TRUE(received().empty());
  advance(1ms);
  EXPECT_EQ(received(), texts{"a lost lost"});
}

TEST_F(EngineExtend, GivesAFixedLeaseMoreOfALongerGrantWithoutAMessage) {
  start_connected();
  queued("gives up");
  caller& a = ask("a", "L", {.fixed = true, .lease = 1s});
  cancel(*callers[0], cancel_type::partial);
  take_sent();
  push(1, 100);
  received();
  EXPECT_EQ(a.deadline(), now + 1s - 12ms);
  extend(a, 2s);
  EXPECT_EQ(received(), texts{"a extended ok"});
  EXPECT_EQ(a.deadline(), now + 2s - 22ms);
  EXPECT_TRUE(sent_now().empty());
  extend(a, 10s);
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  renewed({1});
  EXPECT_EQ(received(), texts{"a extended ok"});
  EXPECT_EQ(a.deadline(), now + 10s - 102ms);
}

TEST_F(EngineExtend, RenewsPastMaxHold) {
  settings.keep_alive = 0s;
  start_connected();
  caller& a = holding("a", "L", {.max_hold = 1s});
  advance(2s);
  extend(a, 60s);
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  renewed({1});
  EXPECT_EQ(received(), texts{"a extended ok"});
  advance(50s);
  EXPECT_TRUE(sent().empty()) << "the watchdog stays stopped";
}

TEST_F(EngineExtend, LeavesMaxHoldToTheWatchdogAsItWas) {
  settings.keep_alive = 0s;
  start_connected();
  caller& a = holding("a", "L", {.lease = 3s, .max_hold = 60s});
  auto const renew_until = [&](time_point end) {
    while (now < end && received().empty()) {
      advance(100ms);
      if (sent() == texts{"renew L 1"}) renewed({1});
    }
  };
  renew_until(begin + 59s);
  extend(a, 6s);  // the watchdog has a command time-out for this, which is longer than what is left of max_hold
  renew_until(begin + 60s);
  advance(5s);
  EXPECT_EQ(sent(), texts{}) << "it was asked for one renewal, not for a longer max_hold";
}

TEST_F(EngineExtend, WaitsForARenewalThatWasWrittenAfterIt) {
  start_connected();
  caller& a = holding("a");
  advance(10s);
  EXPECT_EQ(sent(), texts{"renew L 1"});
  extend(a, 60s);
  EXPECT_TRUE(sent_now().empty()) << "one at a time";
  renewed({1});
  EXPECT_TRUE(received().empty()) << "for 30 s only";
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  renewed({1});
  EXPECT_EQ(received(), texts{"a extended ok"});
}

TEST_F(EngineExtend, SaysThatThereIsNoAnswer) {
  start_connected();
  caller& a = holding("a", "L", {.fixed = true});
  time_point const deadline = a.deadline();
  disconnect();
  extend(a, 60s);
  advance(settings.command_timeout);
  EXPECT_EQ(received(), texts{"a extended unreachable"});
  EXPECT_EQ(a.deadline(), deadline);
  connect();
  settle_connection();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove"})) << "a fixed lease is not renewed later";
}

TEST_F(EngineExtend, SaysThatTheHoldWasLost) {
  start_connected();
  caller& a = holding("a");
  extend(a, 60s);
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  renewed({0});
  EXPECT_EQ(received(), (texts{"a lost lost", "a not extended ok"}));
  extend(a, 60s);
  EXPECT_EQ(received(), texts{"a not extended ok"});
}

TEST_F(EngineExtend, EndsWithTheHold) {
  start_connected();
  caller& a = holding("a");
  extend(a, 60s);
  release(a);
  EXPECT_EQ(received(), texts{"a not extended not_held"});
  EXPECT_EQ(sent_now(), texts{"release L 1"});
  released();
  EXPECT_EQ(received(), texts{"a released ok"});
  expect_clean();
}

TEST_F(EngineExtend, GoesOnOverANewConnection) {
  start_connected();
  caller& a = holding("a");
  extend(a, 60s);
  EXPECT_EQ(sent_now(), texts{"renew L 1"});
  disconnect();
  advance(100ms);
  connect();
  settle_connection();
  EXPECT_EQ(sent(), (texts{"kill here:1", "subscribe", "prove", "renew L 1"}));
  renewed({1});
  EXPECT_EQ(received(), texts{"a extended ok"});
}

}  // namespace
}  // namespace conch::engine
