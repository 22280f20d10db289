// A script does a bounded amount of work. A client that is told that there is more to do asks again at once.
#include "engine_fixture.hpp"

namespace conch::engine {
namespace {

class EngineUnfinished : public engine_test, public admin_events {
 protected:
  void SetUp() override { start_connected(); }

  void on_admin_answered(admin_request&, admin_result const& result, error_code why) override {
    std::string text = "order " + to_text(why);
    if (!why) text += ' ' + std::to_string(result.count);
    events.push_back(text);
  }
};

constexpr std::int64_t more = unfinished_flag;

permit permits(std::uint32_t weight = 1) { return {.kind = permit_kind::semaphore, .limit = 3, .weight = weight}; }

TEST_F(EngineUnfinished, AReleaseIsToldAtOnceAndRepeatedUntilThereIsNoMore) {
  caller& a = holding("a");
  release(a);
  EXPECT_EQ(sent(), texts{"release L 1"});
  answer({1, more, 1, server_us()});
  EXPECT_EQ(received(), texts{"a released ok"});
  EXPECT_EQ(sent(), texts{"release L 1"});
  EXPECT_FALSE(remote->settled()) << "a close waits for it";
  answer({0, more, 1, server_us()});
  EXPECT_EQ(sent(), texts{"release L 1"});
  answer({0, 0, 0, server_us()});
  EXPECT_EQ(sent(), texts{});
  EXPECT_EQ(received(), texts{});
  expect_clean();
}

TEST_F(EngineUnfinished, ARepeatedReleaseLooksAfterTheNextOwner) {
  caller& a = holding("a");
  release(a);
  answer({1, more, 1, server_us()});
  take_sent();
  answer({0, passed_on_flag, 1, server_us()});
  EXPECT_EQ(sent(), texts{});
  advance(settings.claim + settings.claim / 10);
  EXPECT_EQ(sent(), texts{"release L 1"}) << "a kick";
}

TEST_F(EngineUnfinished, SurvivesTheConnection) {
  caller& a = holding("a");
  release(a);
  answer({1, more, 1, server_us()});
  disconnect();
  take_sent();
  connect();
  settle_connection();
  EXPECT_EQ(sent().back(), "release L 1");
  removed();
  EXPECT_EQ(received(), texts{"a released ok"});
  expect_clean();
}

TEST_F(EngineUnfinished, ARequeueStandsInLineWhileTheReleaseGoesOn) {
  holding("a");
  ask("b", "L", {.fixed = true});
  release(*callers.front());
  EXPECT_EQ(sent(), texts{"release L 1 again 2"});
  answer({1, more, 1, server_us(), 0, 3000, 78});
  EXPECT_EQ(received(), texts{"a released ok"});
  EXPECT_EQ(sent(), texts{"release L 1"});
  push(2, 101);
  EXPECT_EQ(received().size(), 1u);
}

TEST_F(EngineUnfinished, AnAcquireAsksAgainWithItsTicket) {
  ask("a");
  take_sent();
  answer({4, 0, server_us(), 77});
  auto const again = take_sent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].text, "acquire L 1");
  EXPECT_EQ(again[0].ticket, 77);
  EXPECT_EQ(received(), texts{});
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
}

TEST_F(EngineUnfinished, ATryIsNotBusyBeforeItIsKnown) {  // P11
  ask("a", "L", {.once = true});
  EXPECT_EQ(sent(), texts{"try L 1"});
  answer({4, 0, server_us(), 0});
  EXPECT_EQ(received(), texts{});
  EXPECT_EQ(sent(), texts{"try L 1"});
  grant(100);
  EXPECT_EQ(received(), texts{granted("a", 100)});
}

TEST_F(EngineUnfinished, WhoGivesUpMeanwhileLeaves) {
  caller& a = ask("a");
  take_sent();
  cancel(a, cancel_type::terminal);
  EXPECT_EQ(sent(), texts{"release L 1"});
  answer({4, 0, server_us(), 77});
  EXPECT_EQ(sent(), texts{}) << "the release goes on";
  answer({0, more, 1, server_us()});
  EXPECT_EQ(sent(), texts{"release L 1"});
  removed();
  received();
  expect_clean();
}

TEST_F(EngineUnfinished, ALeaveGoesOnAsACleanUp) {
  caller& a = queued("a");
  cancel(a, cancel_type::total);
  EXPECT_EQ(sent(), texts{"leave L 1"});
  answer({0, more, 1, server_us()});
  EXPECT_EQ(sent(), texts{"release L 1"});
  EXPECT_EQ(received(), texts{"a failed cancelled"});
  removed();
  expect_clean();
}

TEST_F(EngineUnfinished, WhoIsGrantedAPermitSeesToTheOthers) {
  wanted w;
  w.permit = permits();
  caller& a = ask("a", "L", w);
  take_sent();
  answer({1, 100, server_us(), 0, more});
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_EQ(sent(), texts{"release L 2 permit 1 of 3"}) << "of an id that was never used";
  removed();
  EXPECT_EQ(a.phase, acquisition_phase::holding);
}

TEST_F(EngineUnfinished, AnOrderGoesOnWhereItIsTold) {
  admin_request i;
  i.what = admin_request::kind::force;
  i.name = "L";
  remote->administer(i, *this, now);
  EXPECT_EQ(sent(), texts{"force L"});
  answer({100, server_us(), more, 's', 5000, 900, 17});
  EXPECT_EQ(received(), texts{});
  EXPECT_EQ(i.last, 900);
  EXPECT_EQ(i.from_us, 17);
  EXPECT_EQ(sent(), texts{"force L"});
  disconnect();  // it means the owners at that time: it may be repeated
  connect();
  settle_connection();
  EXPECT_EQ(sent().back(), "force L");
  EXPECT_EQ(i.last, 900);
  EXPECT_EQ(i.from_us, 0) << "from the first on: it may be another server";
  answer({30, 44, 4, 's', 5000});
  EXPECT_EQ(received(), texts{"order ok 130"});
  EXPECT_EQ(sent(), texts{"release L 1 permit 1 of 5000"}) << "what is left to pass on";
}

TEST_F(EngineUnfinished, AnOrderWithTheFenceOfNobodyGoesOnToo) {
  admin_request i;
  i.what = admin_request::kind::force;
  i.name = "L";
  i.fence = 0;
  remote->administer(i, *this, now);
  answer({0, server_us(), more, 's', 5000, 0, 17});
  EXPECT_EQ(i.last, 0) << "and not none: the next script would begin from the first owner again";
  EXPECT_EQ(i.from_us, 17);
}

}  // namespace
}  // namespace conch::engine
