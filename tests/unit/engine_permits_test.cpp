// Locks with several owners: every acquire stands in the server's line by itself.
#include "unit/engine_fixture.hpp"

namespace conch::engine {
namespace {

permit part(std::uint32_t weight = 1) { return {.kind = permit_kind::semaphore, .limit = 3, .weight = weight}; }

class EnginePermits : public engine_test {
 protected:
  void SetUp() override { start_connected(); }

  caller& ask_part(std::string label, permit what = part(), wanted w = {}) {
    w.permit = std::move(what);
    return ask(std::move(label), "L", w);
  }
  void push_part(grant_id id, std::int64_t fence, std::uint32_t segment = 0, permit_kind kind = permit_kind::semaphore) {
    remote->granted({"L", id, fence, server_us(), 3s, kind, segment}, now);
  }
};

TEST_F(EnginePermits, EachAcquireAsksForItself) {
  ask_part("a");
  ask_part("b", part(2));
  auto const commands = take_sent();
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].text, "acquire L 1 part 1 of 3");
  EXPECT_EQ(commands[1].text, "acquire L 2 part 2 of 3");
  answer({1, 100, server_us(), 0});
  answer({0, 30'000, server_us(), 77});
  EXPECT_EQ(heard(), texts{granted("a", 100)});
  push_part(2, 101);
  EXPECT_EQ(heard(), texts{granted("b", 101)});
}

TEST_F(EnginePermits, ATryAsksTheServerAlthoughThisProcessHoldsAPart) {
  ask_part("a");
  take_sent();
  answer({1, 100, server_us(), 0});
  heard();
  ask_part("b", part(), {.once = true});
  EXPECT_EQ(sent(), texts{"try L 2 part 1 of 3"});
  tell_busy();
  EXPECT_EQ(heard(), texts{"b busy"});
}

TEST_F(EnginePermits, AReleaseNeverHandsOnInMemory) {
  caller& a = ask_part("a");
  ask_part("b");
  take_sent();
  answer({1, 100, server_us(), 0});
  answer({0, 30'000, server_us(), 77});
  heard();
  release(a);
  EXPECT_EQ(sent(), texts{"release L 1 part 1 of 3"});
  EXPECT_EQ(heard(), texts{});
  push_part(2, 101);
  released(true, true, false);
  EXPECT_EQ(heard(), (texts{granted("b", 101), "a released ok"}));
}

TEST_F(EnginePermits, TheSegmentIsThatOfTheAnswerThePushOrTheLeave) {
  permit const segment{.kind = permit_kind::segments, .limit = 20, .weight = 1};
  caller& a = ask_part("a", segment);
  caller& b = ask_part("b", segment);
  caller& c = ask_part("c", segment, {.wait = 100ms});
  take_sent();
  answer({1, 100, server_us(), 17});
  answer({0, 30'000, server_us(), 77});
  answer({0, 30'000, server_us(), 78});
  EXPECT_EQ(a.segment, 17u);
  push_part(2, 101, 18, permit_kind::segments);
  EXPECT_EQ(b.segment, 18u);
  advance(100ms);
  EXPECT_EQ(sent(), texts{"leave L 3 part 1 of 20"});
  answer({2, 102, 19, server_us()});
  EXPECT_EQ(c.segment, 19u);
}

TEST_F(EnginePermits, PartsAndMutexesAreRenewedByScriptsOfTheirOwn) {
  ask_part("a");
  answer({1, 100, server_us(), 0});
  advance(1ms);  // earliest deadline first
  ask_part("b");
  answer({1, 101, server_us(), 0});
  holding("c", "M");
  take_sent();
  advance(10s);
  EXPECT_EQ(sent(), (texts{"renew M 3", "renew parts L 1 L 2"}));
  renewed({1});
  renewed({1, 0});
  EXPECT_EQ(heard(), texts{"b lost lost"});
}

// P4: what it passed on was another part, and whoever was next for that may be dead.
TEST_F(EnginePermits, AGrantDoesNotEndTheLookAfterAPartThatWasPassedOn) {
  ask_part("a");
  take_sent();
  answer({0, 30'000, server_us(), 77, 1});  // in line, and it passed on another part, for which somebody waits
  advance(1s);
  push_part(1, 101);
  EXPECT_EQ(heard(), texts{granted("a", 101)});
  advance(1100ms);
  take_sent();  // a renewal, as of every claim
  renewed({1});
  advance(1100ms);
  EXPECT_EQ(sent(), texts{"release L 2 part 1 of 3"}) << "when the claim of that one is over, under an id that was never used";
  answer({0, 0, 0, server_us()});
  EXPECT_EQ(heard(), texts{});
}

TEST_F(EnginePermits, AGrantThatNobodyWantsGoesBackAsWhatItWas) {
  push_part(9, 100);
  EXPECT_EQ(sent(), texts{"release L 9 part 1 of 0"});
  released();
  expect_clean();
}

TEST_F(EnginePermits, P6ACancelledPartLeavesTheOthersAlone) {
  caller& a = ask_part("a");
  ask_part("b");
  take_sent();
  answer({0, 30'000, server_us(), 77});
  answer({0, 30'000, server_us(), 78});
  cancel(a, cancel_type::terminal);
  EXPECT_EQ(heard(), texts{"a failed cancelled"});
  EXPECT_EQ(sent(), texts{"release L 1 part 1 of 3"});
  removed();
  push_part(2, 101);
  EXPECT_EQ(heard(), texts{granted("b", 101)});
}

TEST_F(EnginePermits, AReconnectAsksForAllThatStandInLineWithTheirTickets) {
  ask_part("a");
  ask_part("b", part(2));
  answer({0, 30'000, server_us(), 77});
  answer({0, 30'000, server_us(), 78});
  take_sent();
  disconnect();
  connect();
  settle_connection();
  auto const again = take_sent();
  ASSERT_GE(again.size(), 2u);
  EXPECT_EQ(again[again.size() - 2].text, "acquire L 1 part 1 of 3");
  EXPECT_EQ(again[again.size() - 2].ticket, 77);
  EXPECT_EQ(again.back().text, "acquire L 2 part 2 of 3");
  EXPECT_EQ(again.back().ticket, 78);
}

TEST_F(EnginePermits, WhatNobodyCouldEverBeGivenIsRefusedWithoutAMessage) {
  ask_part("a", part(1'000'001));
  ask_part("b", part(0));
  EXPECT_EQ(heard(), (texts{"a failed invalid_config", "b failed invalid_config"}));
  EXPECT_EQ(sent(), texts{});
  expect_clean();
}

TEST_F(EnginePermits, MoreThanTheLimitIsForTheServerToDecide) {
  ask_part("a", part(4));
  EXPECT_EQ(heard(), texts{});
  EXPECT_EQ(sent(), texts{"acquire L 1 part 4 of 3"});
}

TEST_F(EnginePermits, ABackendWithoutSuchLocksSaysSo) {
  struct quorum_like final : backend {
    void ask(place&, bool, milliseconds, time_point) override {}
    void leave_unless_granted(place&, time_point) override {}
    void give_up(place&, receipt*, time_point) override {}
    void release(place&, std::optional<milliseconds>, receipt*, time_point) override {}
    void renew(std::span<place* const>, time_point) override {}
    void forget(receipt&) noexcept override {}
    time_point late_after(receipt const&) const override { return time_point::min(); }
    void check(place&, time_point) override {}
    bool connected() const noexcept override { return true; }
    capabilities offers() const noexcept override { return {.instead = "ask another server"}; }
    duration validity(milliseconds lease) const noexcept override { return lease; }
    void report(statistics&) const override {}
    bool settled() const noexcept override { return true; }
    std::uint64_t progress() const noexcept override { return 0; }
    void prepare_close(time_point) override {}
  } other;
  cohort->use(other);
  ask_part("a");
  EXPECT_EQ(heard(), texts{"a failed not_supported"});
  struct : admin_request, admin_events {
    void on_admin_answered(admin_request&, admin_result const&, error_code why) override { told = why; }
    error_code told;
  } order;
  cohort->administer(order, order, now);
  EXPECT_EQ(order.told, errc::not_supported);
  EXPECT_NE(order.told.message().find("ask another server"), std::string::npos) << order.told.message();
  cohort->use(*remote);
}

}  // namespace
}  // namespace conch::engine
