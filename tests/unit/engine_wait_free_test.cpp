#include "unit/engine_fixture.hpp"

#include <deque>

// Watchers: they wait until a lock is free, and take nothing.
namespace conch::engine {
namespace {

class EngineWaitFree : public engine_test, public admin_events {
 protected:
  struct watcher : admin_request {
    std::string label;
  };

  void SetUp() override {
    settings.keep_alive = 0s;
    start_connected();
  }

  watcher& wait_free(std::string label, duration wait = duration::max()) {
    watcher& i = *watchers.emplace_back(std::make_unique<watcher>());
    i.label = std::move(label);
    i.what = admin_request::kind::wait_free;
    i.name = "L";
    i.wait = wait;
    remote->administer(i, *this, now);
    return i;
  }

  void on_admin_answered(admin_request& i, admin_result const&, error_code why) override {
    events.push_back(static_cast<watcher&>(i).label + ' ' + to_text(why));
  }

  void answer_free() { answer({1, 0, server_us()}); }
  void answer_held(std::int64_t left_ms) { answer({0, left_ms, server_us()}); }

  std::deque<std::unique_ptr<watcher>> watchers;  // outlive the server's list
};

TEST_F(EngineWaitFree, OfAFreeLockEndsWithTheAnswer) {
  wait_free("a");
  EXPECT_EQ(sent(), texts{"watch L 1"});
  answer_free();
  EXPECT_EQ(received(), texts{"a ok"});
  advance(2min);
  EXPECT_EQ(sent(), texts{}) << "the server has forgotten it";
}

TEST_F(EngineWaitFree, EndsWithThePushAndNotBefore) {
  wait_free("a");
  wait_free("b");
  EXPECT_EQ(sent(), (texts{"watch L 1", "watch L 2"}));
  answer_held(30'000);
  answer_held(30'000);
  remote->receiver().pushed(protocol::end_of_hold{"M", 1, false}, now);
  remote->receiver().pushed(protocol::end_of_hold{"L", 3, false}, now);
  EXPECT_EQ(received(), texts{}) << "of another lock, or of nobody";
  remote->receiver().pushed(protocol::end_of_hold{"L", 2, false}, now);
  EXPECT_EQ(received(), texts{"b ok"});
  remote->receiver().pushed(protocol::end_of_hold{"L", 1, false}, now);
  EXPECT_EQ(received(), texts{"a ok"});
  remote->receiver().pushed(protocol::end_of_hold{"L", 1, false}, now);
  EXPECT_EQ(received(), texts{});
  EXPECT_EQ(sent(), texts{});
}

// P4: a lease that ends tells nobody.
TEST_F(EngineWaitFree, P4AsksAgainWhenTheLeasesOfNowShouldHaveEnded) {
  wait_free("a");
  sent();
  answer_held(9'000);
  advance(9s - 1ms);
  EXPECT_EQ(sent(), texts{});
  advance(settings.claim + 1ms);
  EXPECT_EQ(sent(), texts{"watch L 1"}) << "in the time of a claim behind it, and under the same id";
  answer_held(600);
  advance(600ms + 201ms);
  EXPECT_EQ(sent(), texts{"watch L 1"}) << "of a short lease in a third of it";
  answer_free();
  EXPECT_EQ(received(), texts{"a ok"});
}

TEST_F(EngineWaitFree, IsRepeatedOnANewConnection) {
  wait_free("a");
  sent();
  answer_held(30'000);
  disconnect();
  connect();
  settle_connection();
  EXPECT_EQ(sent().back(), "watch L 1");
  answer_free();
  EXPECT_EQ(received(), texts{"a ok"});
}

TEST_F(EngineWaitFree, EndsWhenTheServerIsAwayForTooLong) {
  wait_free("a");
  sent();
  answer_held(30'000);
  advance(20s);
  disconnect();
  advance(settings.offline_timeout - 1ms);
  EXPECT_EQ(received(), texts{});
  advance(2ms);
  EXPECT_EQ(received(), texts{"a unreachable"});
}

TEST_F(EngineWaitFree, EndsWhenItsTimeIsOverAndIsTakenBack) {
  wait_free("a", 2s);
  sent();
  answer_held(30'000);
  advance(2s - 1ms);
  EXPECT_EQ(received(), texts{});
  advance(2ms);
  EXPECT_EQ(received(), texts{"a timed_out"});
  EXPECT_EQ(sent(), texts{"unwatch L 1"});
}

TEST_F(EngineWaitFree, OfOneQuestionIsOneCompleteAttempt) {
  wait_free("a", 0s);
  advance(1s);
  EXPECT_EQ(received(), texts{}) << "it is not too late before it is answered";
  sent();
  answer_held(30'000);
  EXPECT_EQ(received(), texts{"a timed_out"});
  advance(1ms);
  EXPECT_EQ(sent(), texts{"unwatch L 1"});
  answer({1});
  wait_free("b", 0s);
  answer_free();
  EXPECT_EQ(received(), texts{"b ok"});
}

TEST_F(EngineWaitFree, ThatIsCancelledIsTakenBack) {
  watcher& a = wait_free("a");
  sent();
  answer_held(30'000);
  remote->withdraw(a);
  advance(1ms);
  EXPECT_EQ(sent(), texts{"unwatch L 1"});
  answer({1});
  watcher& b = wait_free("b");
  sent();
  remote->withdraw(b);
  advance(1ms);
  EXPECT_EQ(sent(), texts{"unwatch L 2"}) << "it was written";
  answer_held(30'000);
  answer({1});
  watcher& c = wait_free("c");
  sent();
  answer_held(30'000);
  disconnect();
  remote->withdraw(c);
  connect();
  settle_connection();
  for (std::string const& one : sent()) EXPECT_EQ(one.find("watch"), std::string::npos) << one;
  EXPECT_EQ(received(), texts{});
}

TEST_F(EngineWaitFree, WhoeverIsToldThatThereAreMoreGoesOnForThem) {
  watcher& a = wait_free("a");
  sent();
  answer_held(30'000);
  remote->receiver().pushed(protocol::end_of_hold{"L", 1, true}, now);
  EXPECT_EQ(received(), texts{"a ok"});
  EXPECT_EQ(sent(), texts{"watch L 0"});
  answer_free();
  remote->withdraw(a);
  remote->receiver().pushed(protocol::end_of_hold{"L", 1, true}, now);
  EXPECT_EQ(sent(), texts{"watch L 0"}) << "also where nobody waits any more";
}

TEST_F(EngineWaitFree, EndsWithWhatTheServerSays) {
  wait_free("a");
  answer(fault::wrong_type, "WRONGTYPE");
  EXPECT_EQ(received(), texts{"a wrong_type"});
  wait_free("b");
  answer({7});
  EXPECT_EQ(received(), texts{"b protocol"});
  wait_free("c");
  sent();
  answer(fault::no_script, "NOSCRIPT");
  EXPECT_EQ(sent(), texts{"source watch L 3"});
  answer(fault::try_later, "LOADING");
  advance(100ms);
  EXPECT_EQ(sent(), texts{"watch L 3"});
  answer_free();
  EXPECT_EQ(received(), texts{"c ok"});
}

TEST_F(EngineWaitFree, AStandstillOfTheServerIsNotTakenForTheEndOfTheConnection) {
  wait_free("a", 25s);
  sent();
  answer_held(200'000);
  advance(25s);
  EXPECT_EQ(received(), texts{"a timed_out"});
  EXPECT_EQ(sent(), texts{"unwatch L 1"});
  advance(settings.command_timeout - 1ms);
  EXPECT_TRUE(remote->connected()) << "its time counts from the writing";
}

}  // namespace
}  // namespace conch::engine
