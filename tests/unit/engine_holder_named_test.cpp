// The error of a wait that times out names the holder: when the cohort asks for it, and where it says so.
#include "unit/engine_fixture.hpp"

namespace conch::engine {
namespace {

class EngineHolderNamed : public engine_test, public holder_source {
 public:
  EngineHolderNamed() {
    start_connected();
    cohort->name_holders_by(*this);
  }

  void ask(std::string_view lock, time_point at) override { asked.emplace_back(lock, at - begin); }
  std::string holder_of(std::string_view lock, time_point) const override {
    return lock == "L" ? "billing@pod-7:4711" : "";
  }

  /// In line behind another client, with this long to wait.
  void waits_for(duration d, std::string lock = "L") {
    wanted w;
    w.wait = d;
    engine_test::ask("a", std::move(lock), w);
    take_sent();
    queue(20'000);
  }

  std::vector<std::pair<std::string, duration>> asked;
};

TEST_F(EngineHolderNamed, ALittleBeforeTheWaitEnds) {
  waits_for(2s);
  advance(1799ms);
  EXPECT_TRUE(asked.empty());
  advance(1ms);
  EXPECT_EQ(asked, (decltype(asked){{"L", 1800ms}}));
  advance(199ms);
  EXPECT_EQ(sent(), texts{}) << "the wait goes on until its end";
  advance(1ms);
  EXPECT_EQ(sent(), texts{"leave L 1"});
  answer({0});
  EXPECT_EQ(received(), texts{"a failed timed_out"});
  EXPECT_EQ(last_failure.message(), "timed out after 2 s waiting for lock \"L\" (held by billing@pod-7:4711)");
  EXPECT_EQ(asked.size(), 1u);
}

TEST_F(EngineHolderNamed, NotForAShortWait) {
  waits_for(999ms);
  advance(999ms);
  EXPECT_EQ(sent(), texts{"leave L 1"});
  EXPECT_TRUE(asked.empty());
}

TEST_F(EngineHolderNamed, NotIfTheLockIsGrantedBefore) {
  waits_for(2s);
  advance(1s);
  push(1, 100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
  advance(2s);
  EXPECT_TRUE(asked.empty());
}

TEST_F(EngineHolderNamed, OfALockThatNobodyIsKnownToHaveNothingIsSaid) {
  waits_for(1s, "M");
  advance(1s);
  take_sent();
  answer({0});
  received();
  EXPECT_EQ(last_failure.message(), "timed out after 1 s waiting for lock \"M\"");
}

TEST_F(EngineHolderNamed, ACancelledWaitNamesNobody) {
  waits_for(2s);
  advance(1900ms);
  cancel(*callers[0], cancel_type::total);
  take_sent();
  answer({0});
  EXPECT_EQ(received(), texts{"a failed cancelled"});
}

}  // namespace
}  // namespace conch::engine
