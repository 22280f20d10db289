// This process had no time for its holds, because a handler took long or the machine was busy: what goes first then, and what is lost.
#include "unit/engine_fixture.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

namespace conch::engine {
namespace {

class EngineStall : public engine_test {
 protected:
  void SetUp() override { settings.keep_alive = 0s; }

  /// Granted without delay: "NAME0", "NAME1" ...
  void hold_many(std::string const& name, int count, milliseconds lease) {
    for (int i = 0; i < count; ++i) {
      ask(name, name + std::to_string(i), {.lease = lease});
      grant(100);
    }
    heard();
    take_sent();
  }

  /// Answers each request when it is so old, as a server that grants everything.
  void serve_late(duration after, duration how_long) {
    for (time_point const until = now + how_long; now < until; now += 20ms) {
      cohort->tick(now);
      while (answers.size() < unanswered.size()) answers.push_back(now + after);
      for (; !answers.empty() && answers.front() <= now; answers.pop_front()) {
        std::string const what = unanswered.front();
        if (what.starts_with("renew")) renewed(std::vector<int>(static_cast<std::size_t>(std::count(what.begin(), what.end(), ' ')) / 2, 1));
        else if (what.starts_with("release")) released();
        else grant(100);
      }
    }
  }

  std::deque<time_point> answers;  // of what is unanswered

  /// How many locks whose names begin so are in the renewals that were sent.
  static std::size_t renewals_of(texts const& all, std::string_view name) {
    std::size_t found = 0;
    for (std::string const& one : all) {
      for (auto at = one.find(name); one.starts_with("renew") && at != std::string::npos; at = one.find(name, at + 1)) ++found;
    }
    return found;
  }

  static std::size_t count(texts const& of, std::string_view what) {
    return static_cast<std::size_t>(std::count_if(of.begin(), of.end(), [&](std::string const& one) { return one.starts_with(what); }));
  }
};

TEST_F(EngineStall, ALossThatIsFoundInTimeIsToldAtOnce) {  // P9: nothing has kept this process from reading
  start_connected();
  caller& a = holding("a", "L", {.lease = 1s});
  time_point const deadline = a.deadline();
  // A quarter of the lease before its end.
  advance(deadline - now - 240ms);
  EXPECT_EQ(heard(), texts{"a lost lost"});
}

TEST_F(EngineStall, TheFirstHoldsAreRenewedBeforeAllLaterOnes) {
  start_connected();
  hold_many("first", 1'000, 1s);
  hold_many("later", 3'000, 900ms);
  sleep(400ms);
  auto const all = sent();
  EXPECT_EQ(renewals_of(all, "first"), 1'000u);
  EXPECT_EQ(renewals_of(all, "later"), 0u) << "they are due since longer, and wait for the next turn";
  cohort->tick(now += 1us);
  EXPECT_GE(renewals_of(sent(), "later"), 900u);
}

TEST_F(EngineStall, HoldsThatAreOverKeepNoOtherFromBeingRenewed) {  // else these are over, too, when their turn comes
  start_connected();
  hold_many("first", 1'000, 30s);
  hold_many("over", 8'000, 1s);
  now += 1s;
  hold_many("due", 500, 1s);
  now += 400ms;
  cohort->tick(now);
  EXPECT_EQ(renewals_of(sent(), "due"), 500u);
  while (stats.losses < 8'000) cohort->tick(now += 1us);
  auto const told = heard();
  EXPECT_EQ(count(told, "over lost"), 8'000u);
  EXPECT_EQ(count(told, "due lost"), 0u);
}

TEST_F(EngineStall, TheServerIsNotLeftForAnAnswerThatThisProcessHasNotRead) {
  start_connected();
  holding("a", "L", {.lease = 1s});
  advance(350ms);
  sleep(420ms);
  EXPECT_TRUE(dropped().empty());
  renewed({1});
  advance(100ms);
  EXPECT_TRUE(dropped().empty());
}

TEST_F(EngineStall, WhatWaitsUntilHoldsCanBeRenewedInTimeEndsWithAReason) {  // P4, P11
  settings.offline_timeout = 2s;
  start_connected();
  hold_many("kept", 1'200, 10s);
  advance(3'400ms);
  serve_late(2'900ms, 3s);  // late, and once only
  for (int i = 0; i < 400; ++i) ask("waits", "waits" + std::to_string(i), {.fixed = true, .lease = 10s});
  serve_late(0s, 1'900ms);
  EXPECT_EQ(count(heard(), "waits failed"), 0u) << "so long it may take";
  serve_late(0s, 2s);
  auto const told = heard();
  EXPECT_GE(count(told, "waits failed timed_out"), 300u);
  EXPECT_EQ(count(told, "waits failed"), count(told, "waits failed timed_out"));
  EXPECT_EQ(count(told, "kept"), 0u) << "no hold is lost";
  EXPECT_EQ(stats.waiting, 0u);
}

TEST_F(EngineStall, ABusyThreadCanRenewWithoutATick) {
  start_connected();
  holding("a", "L", {.lease = 1s});
  ask("b", "M", {.wait = 100ms});
  take_sent();
  now += 400ms;
  cohort->renew_what_is_due(now);
  EXPECT_EQ(sent(), texts{"renew L 1"});
  EXPECT_TRUE(heard().empty()) << "other timers have their turn later";
  cohort->renew_what_is_due(now);
  EXPECT_TRUE(sent().empty());
}

TEST_F(EngineStall, NothingIsLostWhileNothingCanBeRead) {  // the thread asks for many locks in a row
  start_connected();
  caller& a = holding("a", "L", {.lease = 1s});
  for (int i = 0; i < 100; ++i) {
    now += 9ms;
    if (timers.next_urgent() <= now) cohort->renew_what_is_due(now);
  }
  EXPECT_EQ(sent(), texts{"renew L 1"}) << "the first is not answered yet";
  EXPECT_TRUE(heard().empty());
  renewed({1});
  advance(50ms);
  EXPECT_TRUE(heard().empty());
  EXPECT_GT(a.deadline(), now);
}

}  // namespace
}  // namespace conch::engine
