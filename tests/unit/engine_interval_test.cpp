// acquire_options::at_least: nobody is granted the lock before that time since its grant has passed.
#include "engine_fixture.hpp"

namespace conch::engine {
namespace {

class EngineInterval : public engine_test {
 protected:
  caller& holding_for(std::string label, milliseconds at_least, wanted w = {}) {
    w.at_least = at_least;
    caller& a = ask(std::move(label), "L", w);
    take_sent();
    grant(100);
    received();
    return a;
  }
  /// What is left of the interval, counted from the answer, with the drift of both clocks.
  static std::string release_in(std::string const& id, duration interval, duration passed) {
    auto const left = std::chrono::ceil<milliseconds>(interval + drift_of(interval) - passed);
    return "release L " + id + " in " + std::to_string(left.count());
  }
};

TEST_F(EngineInterval, TheServerIsAskedToKeepAGrantForIt) {
  start_connected();
  caller& a = ask("a", "L", {.at_least = 5min});
  auto const asked = take_sent();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].lease, 5min);
  EXPECT_EQ(asked[0].claim, 3s);
  EXPECT_EQ(asked[0].retention, settings.fence_retention + 5min);
  grant(100);
  EXPECT_EQ(a.deadline(), now + good_for(30s)) << "the holder believes in its lease";
  advance(11s);
  auto const renewal = take_sent();
  ASSERT_EQ(renewal.size(), 1u);
  EXPECT_EQ(renewal[0].leases, (std::vector<milliseconds>{30s})) << "which the server does not make shorter";
}

TEST_F(EngineInterval, OneThatIsShorterThanTheLeaseChangesNoAcquire) {
  start_connected();
  ask("a", "L", {.at_least = 10s});
  EXPECT_EQ(take_sent().at(0).lease, 30s);
}

TEST_F(EngineInterval, AReleaseWithinItLeavesTheRestAndSucceedsAtOnce) {
  start_connected();
  caller& a = holding_for("a", 10s);
  advance(4s);
  release(a);
  EXPECT_EQ(sent(), texts{release_in("1", 10s, 4s)});
  released();
  EXPECT_EQ(received(), texts{"a released ok"});
  expect_clean();
}

TEST_F(EngineInterval, AReleaseAfterItFreesTheLock) {
  start_connected();
  caller& a = holding_for("a", 5s);
  advance(5s + drift_of(5s));
  release(a);
  EXPECT_EQ(sent(), texts{"release L 1"});
}

TEST_F(EngineInterval, AnUnansweredReleaseIsRepeatedWithWhatIsLeftThen) {
  start_connected();
  caller& a = holding_for("a", 10s);
  release(a);
  EXPECT_EQ(sent(), texts{release_in("1", 10s, 0s)});
  disconnect();
  now += 3s;
  connect();
  settle_connection();
  EXPECT_EQ(sent().back(), release_in("1", 10s, 3s));
  disconnect();
  now += 8s;
  connect();
  settle_connection();
  EXPECT_EQ(sent().back(), "release L 1");
}

TEST_F(EngineInterval, AWaiterOfTheSameClientAsksTheServer) {
  start_connected();
  caller& a = holding_for("a", 10s);
  ask("b");
  release(a);
  EXPECT_EQ(sent(), (texts{release_in("1", 10s, 0s), "acquire L 2"}));
  released();
  queue(10'000);
  EXPECT_EQ(received(), texts{"a released ok"});
}

TEST_F(EngineInterval, AWaiterWithOneIsGrantedByTheServer) {
  start_connected();
  caller& a = holding("a");
  ask("b", "L", {.at_least = 5min});
  release(a);
  auto const all = take_sent();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].text, "release L 1 again 2");
  EXPECT_EQ(all[0].lease, 5min);
}

TEST_F(EngineInterval, ATryOfTheSameClientFindsItBusy) {
  start_connected();
  caller& a = holding_for("a", 10s);
  release(a);
  released();
  ask("b", "L", {.once = true});
  EXPECT_EQ(sent().back(), "try L 2");
  tell_busy();
  EXPECT_EQ(received(), (texts{"a released ok", "b busy"}));
}

/// The request under way asked for no interval, and its caller has gone.
TEST_F(EngineInterval, AGrantThatIsKeptForTooShortIsAskedForAnew) {
  start_connected();
  caller& a = ask("a");
  ask("b", "L", {.at_least = 5min});
  take_sent();
  cancel(a, cancel_type::total);
  EXPECT_EQ(received(), texts{"a failed cancelled"});
  grant(100);
  EXPECT_EQ(received(), texts{});
  auto const all = take_sent();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].text, "release L 1");
  EXPECT_EQ(all[1].text, "acquire L 2");
  EXPECT_EQ(all[1].lease, 5min);
}

TEST_F(EngineInterval, AfterALossItHolds) {
  start_connected();
  holding_for("a", 5min, {.fixed = true});
  advance(30s);
  EXPECT_EQ(received(), texts{"a lost lost"});
  EXPECT_EQ(sent(), texts{release_in("1", 5min, good_for(30s))});
}

TEST_F(EngineInterval, APushIsConfirmedBeforeItIsDelivered) {
  start_connected();
  ask("a", "L", {.at_least = 5min});
  queue(10'000);
  take_sent();
  push(1, 100);
  EXPECT_EQ(received(), texts{});
  auto const asked = take_sent();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].text, "acquire L 1");
  EXPECT_EQ(asked[0].lease, 5min);
  grant(100);
  EXPECT_EQ(received(), texts{"a granted 409600"});
}

TEST_F(EngineInterval, TheEndOfTheClientDoesNotEndIt) {
  start_connected();
  holding_for("a", 10s);
  cohort->close(now);
  cohort->give_back_everything(now);
  EXPECT_EQ(received(), texts{"a lost closed"});
  EXPECT_EQ(sent(), texts{release_in("1", 10s, 0s)});
}

TEST_F(EngineInterval, IsOfAMutexOnly) {
  start_connected();
  ask("a", "L", {.at_least = 10s, .permit = {.kind = permit_kind::semaphore, .limit = 2, .weight = 1}});
  EXPECT_EQ(received(), texts{"a failed not_supported"});
  EXPECT_EQ(sent(), texts{});
}

}  // namespace
}  // namespace conch::engine
