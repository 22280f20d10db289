// What the cohort reports to config::observer: each acquire and each hold from its beginning to its one end.
#include "engine_fixture.hpp"

#include <map>
#include <random>

namespace conch::engine {
namespace {

std::string in_words(observation const& o) {
  using kind = observation::kind;
  auto const took = [&] {
    return " after " + std::to_string(std::chrono::duration_cast<milliseconds>(o.took).count()) + " ms";
  };
  auto const why = [&] { return o.why ? " " + to_text(o.why) : std::string{}; };
  char const* const paths[]{" answered", " pushed", " handed off"};
  char const* const reasons[]{" reconnected", " safety check",     " server busy",     " push doubted",
                              " grant late",  " replicas missing", " votes given back"};
  switch (o.what) {
    case kind::waiting: return "waiting";
    case kind::queued: return "queued";
    case kind::retried: return std::string{"retried"} + reasons[static_cast<int>(o.again)];
    case kind::granted: return std::string{"granted"} + paths[static_cast<int>(o.path)] + took();
    case kind::not_granted: return "not granted" + why() + took();
    case kind::endangered: return "endangered before " + std::to_string(whole_ms(o.took).count()) + " ms";
    case kind::safe_again: return "safe again";
    case kind::released: return "released" + took();
    case kind::lost: return "lost" + why() + took();
    case kind::detached: return "detached" + took();
  }
  return "?";
}

class EngineObserved : public engine_test {
 protected:
  EngineObserved() {
    settings.observer = std::make_shared<observer>();
    settings.keep_alive = duration::zero();
    start_connected();
  }

  void on_observed(acquisition& a, observation const& o) override {
    EXPECT_EQ(o.at, now);
    EXPECT_EQ(o.name, "L");
    seen.push_back(static_cast<caller&>(a).label + ' ' + in_words(o));
  }
  texts told() { return std::exchange(seen, {}); }

  texts seen;
};

TEST_F(EngineObserved, AnUncontendedHold) {
  caller& a = ask("a");
  EXPECT_EQ(told(), texts{"a waiting"});
  advance(2ms);
  grant(100);
  EXPECT_EQ(told(), texts{"a granted answered after 2 ms"});
  advance(30ms);
  release(a);
  EXPECT_EQ(told(), texts{"a released after 30 ms"});
  released();
  EXPECT_EQ(told(), texts{});
}

TEST_F(EngineObserved, AWaitInLineIsQueuedOnceAndPushed) {
  ask("a");
  queue(30'000);
  EXPECT_EQ(told(), (texts{"a waiting", "a queued"}));
  ask("b");  // shares the place
  EXPECT_EQ(told(), texts{"b waiting"});
  advance(5s);
  push(place_of("L").id, 100);
  EXPECT_EQ(told(), texts{"a granted pushed after 5000 ms"});
}

TEST_F(EngineObserved, AHandOffInsideTheClientIsOne) {
  caller& a = holding("a");
  ask("b");
  told();
  advance(1ms);
  release(a);
  EXPECT_EQ(told(), (texts{"a released after 1 ms", "b granted handed off after 1 ms"}));
}

TEST_F(EngineObserved, AReleaseThatAsksAgainIsQueuedAnew) {
  settings.local_slice = duration::zero();
  caller& a = queued("a");
  push(place_of("L").id, 100);
  ask("b");
  told();
  release(a);
  EXPECT_EQ(told(), texts{"a released after 0 ms"});
  released_and_queued(30'000);
  ask("c");
  told();
  EXPECT_EQ(sent().back().substr(0, 9), "release L");
  advance(1ms);
  push(place_of("L").id, 101);
  EXPECT_EQ(told(), texts{"b granted pushed after 1 ms"});
}

TEST_F(EngineObserved, ATimeOutACancellationAndAnError) {
  ask("late", "L", {.wait = 50ms});
  queue(30'000);
  advance(50ms);
  EXPECT_EQ(told(), (texts{"late waiting", "late queued"})) << "a grant that comes now is still taken";
  removed();
  EXPECT_EQ(told(), texts{"late not granted timed_out after 50 ms"});

  caller& cancelled_one = ask("cancelled");
  queue(30'000);
  cancel(cancelled_one, cancel_type::partial);
  EXPECT_EQ(told(), (texts{"cancelled waiting", "cancelled queued", "cancelled not granted cancelled after 0 ms"}));
  removed();
  EXPECT_EQ(told(), texts{}) << "its one end was told";
  EXPECT_EQ(received().back(), "cancelled failed cancelled");

  ask("refused");
  answer(fault::wrong_type, "WRONGTYPE");
  EXPECT_EQ(told(), (texts{"refused waiting", "refused not granted wrong_type after 0 ms"}));
}

TEST_F(EngineObserved, TriesThatAreBusyHereAndThere) {
  ask("there", "L", {.once = true});
  tell_busy();
  EXPECT_EQ(told(), (texts{"there waiting", "there not granted after 0 ms"}));
  caller& a = holding("a");
  told();
  ask("here", "L", {.once = true});
  EXPECT_EQ(told(), (texts{"here waiting", "here not granted after 0 ms"}));
  ask("no time", "L", {.wait = 0ms});
  EXPECT_EQ(told(), (texts{"no time waiting", "no time not granted timed_out after 0 ms"}));
  release(a);
}

TEST_F(EngineObserved, AClosedClientGrantsNothingAndTakesHoldsAway) {
  holding("a");
  told();
  cohort->close(now);
  ask("b");
  EXPECT_EQ(told(), (texts{"b waiting", "b not granted closed after 0 ms"}));
  cohort->give_back_everything(now);
  EXPECT_EQ(told(), texts{"a lost closed after 0 ms"});
}

TEST_F(EngineObserved, ALossIsToldOnceAndNoReleaseAfterIt) {
  caller& a = holding("a");
  told();
  disconnect();
  advance(31s);
  EXPECT_EQ(told(), (texts{"a endangered before 9754 ms", "a lost lost after 29198 ms"}))
      << "the stop margin before the deadline";
  release(a);
  EXPECT_EQ(told(), texts{});
}

TEST_F(EngineObserved, ALateRenewalIsToldAndItsSuccess) {
  holding("a");
  told();
  advance(20s);
  EXPECT_EQ(told(), texts{"a endangered before 9754 ms"});
  EXPECT_EQ(unanswered.front(), "renew L 1");
  renewed({1});
  EXPECT_EQ(told(), texts{"a safe again"});
}

TEST_F(EngineObserved, ADropIsARelease) {
  caller& a = holding("a");
  told();
  cohort->abandon(a, now);
  EXPECT_EQ(told(), texts{"a released after 0 ms"});
}

TEST_F(EngineObserved, ADetachEndsTheHoldHere) {
  caller& a = holding("a");
  told();
  advance(7ms);
  detach(a);
  EXPECT_EQ(told(), texts{"a detached after 7 ms"});
  advance(1ms);
  renewed({1});
  EXPECT_TRUE(received().back().starts_with("a detached"));
  EXPECT_EQ(told(), texts{});
}

TEST_F(EngineObserved, WhatIsAskedAgainSaysWhy) {
  ask("a");
  queue(1'000);
  told();
  advance(3s);
  EXPECT_EQ(told(), texts{"a retried safety check"});
  queue(30'000);
  EXPECT_EQ(told(), texts{}) << "it is still in line";
  disconnect();
  connect();
  settle_connection();
  EXPECT_EQ(told(), texts{"a retried reconnected"});
  queue(30'000);
  settings.verify_pushes = true;
  push(place_of("L").id, 100);
  EXPECT_EQ(told(), texts{"a retried push doubted"});
  grant(100);
  EXPECT_TRUE(told().back().starts_with("a granted pushed"));
}

TEST_F(EngineObserved, AFirstConnectionIsNoRetry) {
  start();
  ask("a");
  connect();
  settle_connection();
  EXPECT_EQ(told(), texts{"a waiting"});
  answer(fault::try_later, "LOADING");
  advance(1s);
  EXPECT_EQ(told(), texts{"a retried server busy"});
}

TEST_F(EngineObserved, NobodyIsToldWhereNobodyLooksOn) {
  settings.observer = nullptr;
  start_connected();
  caller& a = holding("a");
  ask("b");
  release(a);
  EXPECT_EQ(told(), texts{});
}

// The same under random inputs: whatever happens, each acquire and each hold has exactly one end.
class EngineObservedAnyhow : public EngineObserved {
 protected:
  enum class at { waiting, held, over };

  void on_observed(acquisition& a, observation const& o) override {
    using kind = observation::kind;
    std::string const words = static_cast<caller&>(a).label + ' ' + in_words(o);
    auto const known = state.find(&a);
    if (o.what == kind::waiting) {
      EXPECT_EQ(known, state.end()) << words;
      state[&a] = at::waiting;
      return;
    }
    ASSERT_NE(known, state.end()) << words;
    bool const ends_a_hold = o.what == kind::released || o.what == kind::lost || o.what == kind::detached;
    bool const of_danger = o.what == kind::endangered || o.what == kind::safe_again;
    EXPECT_EQ(known->second, ends_a_hold || of_danger ? at::held : at::waiting) << words;
    if (of_danger) {
      bool const was_in_danger = std::exchange(in_danger[&a], o.what == kind::endangered);
      EXPECT_EQ(was_in_danger, o.what == kind::safe_again) << words;
    }
    if (o.what == kind::granted) known->second = at::held;
    if (ends_a_hold || o.what == kind::not_granted) known->second = at::over;
    EXPECT_GE(o.took, duration::zero()) << words;
  }

  std::map<acquisition const*, at> state;
  std::map<acquisition const*, bool> in_danger;
};

TEST_F(EngineObservedAnyhow, EachAcquireAndEachHoldHasOneEnd) {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::minstd_rand random{seed};
    auto const roll = [&](unsigned n) { return static_cast<unsigned>(random()) % n; };
    state.clear();
    in_danger.clear();
    start_connected();
    for (int step = 0; step < 60; ++step) {
      caller* const any = callers.empty() ? nullptr : callers[roll(static_cast<unsigned>(callers.size()))].get();
      switch (roll(12)) {
        case 0:
        case 1: ask("w"); break;
        case 2: ask("t", "L", {.once = true}); break;
        case 3: ask("b", "L", {.wait = milliseconds{roll(80)}}); break;
        case 4:
          if (any != nullptr) cancel(*any, static_cast<cancel_type>(roll(3)));
          break;
        case 5:
          if (any != nullptr && any->phase == acquisition_phase::holding) release(*any);
          break;
        case 6:
          if (any != nullptr && any->phase == acquisition_phase::holding)
            roll(2) == 0 ? detach(*any) : cohort->abandon(*any, now);
          break;
        case 7:
          if (cohort->find("L") != nullptr) push(place_of("L").id, 100 + step);
          break;
        case 8: advance(milliseconds{roll(3) == 0 ? roll(40'000) : roll(100)}); break;
        case 9:
          if (!unanswered.empty() && unanswered.front().find("acquire L") != std::string::npos)
            roll(2) == 0 ? grant(100 + step) : queue(30'000);
          break;
        case 10:
          if (roll(6) == 0) {
            disconnect();
            connect();
            settle_connection();
          }
          break;
        default:
          if (!unanswered.empty() &&
              (unanswered.front().starts_with("leave") || unanswered.front().starts_with("release"))) {
            unanswered.front().find(" again ") != std::string::npos ? released_and_queued(1'000) : released();
          }
          break;
      }
    }
    disconnect();
    cohort->close(now);
    cohort->give_back_everything(now);
    advance(60s);
    for (auto const& [who, where] : state) EXPECT_EQ(where, at::over);
    EXPECT_EQ(state.size(), callers.size());
  }
}

}  // namespace
}  // namespace conch::engine
