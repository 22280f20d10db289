#include "unit/engine_fixture.hpp"

// Holders that are asked to let go, and the askers.
namespace conch::engine {
namespace {

class EngineRequests : public engine_test, public admin_events {
 protected:
  void on_requested(acquisition& a) override { events.push_back(static_cast<caller&>(a).label + " is asked for it"); }
  void on_admin_answered(admin_request&, admin_result const& result, error_code why) override {
    events.push_back("asked " + std::to_string(result.count) + ' ' + to_text(why));
  }

  caller& listening(std::string label) {
    caller& a = holding(std::move(label));
    cohort->watch_requests(a, now);
    EXPECT_EQ(sent(), texts{"requested L 100"});
    return a;
  }
  void ask_for_it(grant_id id) { remote->receiver().pushed(protocol::request_to_let_go{"L", id}, now); }
};

TEST_F(EngineRequests, ThatCameBeforeAreHeardOfAtOnce) {
  start_connected();
  listening("a");
  answer({1});
  EXPECT_EQ(received(), texts{"a is asked for it"});
}

TEST_F(EngineRequests, AreToldByAPushOnce) {
  start_connected();
  caller& a = listening("a");
  answer({0});
  EXPECT_EQ(received(), texts{});
  ask_for_it(1);
  EXPECT_EQ(received(), texts{"a is asked for it"});
  ask_for_it(1);
  EXPECT_EQ(received(), texts{}) << "this grant was asked for already";
  cohort->watch_requests(a, now);
  EXPECT_EQ(received(), texts{"a is asked for it"}) << "a later listener is told, too";
  EXPECT_EQ(sent(), texts{});
}

TEST_F(EngineRequests, OfAnotherGrantOrLockAreNotHeard) {
  start_connected();
  listening("a");
  answer({0});
  ask_for_it(2);
  remote->receiver().pushed(protocol::request_to_let_go{"M", 1}, now);
  EXPECT_EQ(received(), texts{});
}

TEST_F(EngineRequests, ThatCameWhileThereWasNoConnectionAreHeardOfOnTheNext) {
  start_connected();
  listening("a");
  answer({0});
  disconnect();
  connect();
  settle_connection();
  auto const commands = sent();
  EXPECT_EQ(commands.back(), "requested L 100");
  renewed({1});
  answer({1});
  EXPECT_EQ(received(), texts{"a is asked for it"});
  disconnect();
  connect();
  settle_connection();
  EXPECT_EQ(sent().back(), "renew L 1") << "it is known";
}

TEST_F(EngineRequests, AreListenedForWithoutAConnection) {
  start_connected();
  caller& a = holding("a");
  disconnect();
  cohort->watch_requests(a, now);
  connect();
  settle_connection();
  EXPECT_EQ(sent().back(), "requested L 100");
}

TEST_F(EngineRequests, AnAnswerAfterTheReleaseTellsNobody) {
  start_connected();
  caller& a = listening("a");
  release(a);
  answer({1});
  released();
  EXPECT_EQ(received(), texts{"a released ok"});
  expect_clean();
}

TEST_F(EngineRequests, AServerThatRefusesTheQuestionStillPushes) {
  start_connected();
  listening("a");
  answer(fault::access_denied, "NOPERM hexists");
  EXPECT_EQ(received(), texts{});
  ask_for_it(1);
  EXPECT_EQ(received(), texts{"a is asked for it"});
}

TEST_F(EngineRequests, TheLockGoesToTheServersLineAndNotToANeighbour) {
  start_connected();
  caller& a = holding("a");
  ask("b");
  ask_for_it(1);
  received();
  release(a);
  EXPECT_EQ(sent(), texts{"release L 1 again 2"});
  released_and_queued(30'000);
  EXPECT_EQ(received(), texts{"a released ok"});
  push(2, 101);
  EXPECT_EQ(received(), texts{granted("b", 101)});
  ask("c");
  release(*callers[1]);
  EXPECT_EQ(received().back(), granted("c", 101, 1)) << "nobody has asked for this grant";
}

TEST_F(EngineRequests, AreSentAgainAfterAReconnect) {
  start_connected();
  admin_request i;
  i.what = admin_request::kind::request;
  i.name = "L";
  i.fence = 30;
  remote->administer(i, *this, now);
  EXPECT_EQ(sent(), texts{"request L from 30"});
  disconnect();
  connect();
  settle_connection();
  EXPECT_EQ(sent().back(), "request L from 30");
  answer({2, server_us()});
  EXPECT_EQ(received(), texts{"asked 2 ok"});
}

}  // namespace
}  // namespace conch::engine
