// Locks with several owners: every acquire has its own place in the server's queue.
#include "unit/engine_fixture.hpp"

namespace conch::engine {
namespace {

permit permits(std::uint32_t weight = 1) { return {.kind = permit_kind::semaphore, .limit = 3, .weight = weight}; }

class EnginePermits : public engine_test {
 protected:
  void SetUp() override { start_connected(); }

  caller& ask_permit(std::string label, permit what = permits(), wanted w = {}) {
    w.permit = std::move(what);
    return ask(std::move(label), "L", w);
  }
  void push_permit(grant_id id, std::int64_t fence, std::uint32_t segment = 0,
                   permit_kind kind = permit_kind::semaphore) {
    remote->receiver().pushed(protocol::pushed_grant{"L", id, fence, server_us(), 3s, kind, segment}, now);
  }
};

TEST_F(EnginePermits, EachAcquireAsksForItself) {
  ask_permit("a");
  ask_permit("b", permits(2));
  auto const commands = take_sent();
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].text, "acquire L 1 permit 1 of 3");
  EXPECT_EQ(commands[1].text, "acquire L 2 permit 2 of 3");
  answer({1, 100, server_us(), 0});
  answer({0, 30'000, server_us(), 77});
  EXPECT_EQ(received(), texts{granted("a", 100)});
  push_permit(2, 101);
  EXPECT_EQ(received(), texts{granted("b", 101)});
}

TEST_F(EnginePermits, ATryAsksTheServerAlthoughThisProcessHoldsAPermit) {
  ask_permit("a");
  take_sent();
  answer({1, 100, server_us(), 0});
  received();
  ask_permit("b", permits(), {.once = true});
  EXPECT_EQ(sent(), texts{"try L 2 permit 1 of 3"});
  tell_busy();
  EXPECT_EQ(received(), texts{"b busy"});
}

TEST_F(EnginePermits, AReleaseNeverHandsOnInMemory) {
  caller& a = ask_permit("a");
  ask_permit("b");
  take_sent();
  answer({1, 100, server_us(), 0});
  answer({0, 30'000, server_us(), 77});
  received();
  release(a);
  EXPECT_EQ(sent(), texts{"release L 1 permit 1 of 3"});
  EXPECT_EQ(received(), texts{});
  push_permit(2, 101);
  released(true, true, false);
  EXPECT_EQ(received(), (texts{granted("b", 101), "a released ok"}));
}

TEST_F(EnginePermits, TheSegmentIsThatOfTheAnswerThePushOrTheLeave) {
  permit const segment{.kind = permit_kind::segments, .limit = 20, .weight = 1};
  caller& a = ask_permit("a", segment);
  caller& b = ask_permit("b", segment);
  caller& c = ask_permit("c", segment, {.wait = 100ms});
  take_sent();
  answer({1, 100, server_us(), 17});
  answer({0, 30'000, server_us(), 77});
  answer({0, 30'000, server_us(), 78});
  EXPECT_EQ(a.segment, 17u);
  push_permit(2, 101, 18, permit_kind::segments);
  EXPECT_EQ(b.segment, 18u);
  advance(100ms);
  EXPECT_EQ(sent(), texts{"leave L 3 permit 1 of 20"});
  answer({2, 102, 19, server_us()});
  EXPECT_EQ(c.segment, 19u);
}

TEST_F(EnginePermits, WhoAsksForAllThatIsFreeIsToldHowMuch) {
  permit const all{.kind = permit_kind::semaphore, .limit = 3, .all_free = true};
  caller& a = ask_permit("a", all, {.once = true});
  EXPECT_EQ(sent(), texts{"try L 1 permit 0 of 3"});
  answer({1, 100, server_us(), 7});
  EXPECT_EQ(received(), texts{granted("a", 100)});
  EXPECT_EQ(a.permit.weight, 7u) << "of a limit that somebody has set";
  EXPECT_EQ(a.segment, 0u);
  ask_permit("b", all, {.once = true});
  take_sent();
  tell_busy();
  EXPECT_EQ(received(), texts{"b busy"});
  ask_permit("c", all, {.once = true});
  take_sent();
  answer({1, 101, server_us(), 0});
  EXPECT_TRUE(received().at(0).starts_with("c failed")) << "a server that does not say how much: of an older version";
}

TEST_F(EnginePermits, PermitsAndMutexesAreRenewedByScriptsOfTheirOwn) {
  ask_permit("a");
  answer({1, 100, server_us(), 0});
  advance(1ms);  // earliest deadline first
  ask_permit("b");
  answer({1, 101, server_us(), 0});
  holding("c", "M");
  take_sent();
  advance(10s);
  EXPECT_EQ(sent(), (texts{"renew M 3", "renew permits L 1 L 2"}));
  renewed({1});
  renewed({1, 0});
  EXPECT_EQ(received(), texts{"b lost lost"});
}

// P4: what it passed on was another permit, and the next waiter for that may be dead.
TEST_F(EnginePermits, AGrantDoesNotEndTheLookAfterAPermitThatWasPassedOn) {
  ask_permit("a");
  take_sent();
  answer({0, 30'000, server_us(), 77, 1});  // queued, and it passed on another permit, which has waiters
  advance(1s);
  push_permit(1, 101);
  EXPECT_EQ(received(), texts{granted("a", 101)});
  advance(1100ms);
  take_sent();  // a renewal, as of every claim
  renewed({1});
  advance(1100ms);
  EXPECT_EQ(sent(), texts{"release L 2 permit 1 of 3"})
      << "when the claim of that one is over, under an id that was never used";
  answer({0, 0, 0, server_us()});
  EXPECT_EQ(received(), texts{});
}

// P4: two permits were passed on at different times, and each new owner may be dead.
TEST_F(EnginePermits, EachPermitThatWasPassedOnIsLookedAfterAtTheEndOfItsOwnClaim) {
  caller& a = ask_permit("a");
  take_sent();
  answer({0, 1000, server_us(), 77, 1});  // in line, and it passed on one permit
  advance(1200ms);
  EXPECT_EQ(sent(), texts{"acquire L 1 permit 1 of 3"});
  answer({0, 1900, server_us(), 77, 1});  // still in line, and it passed on another one
  advance(500ms);
  cancel(a, cancel_type::terminal);
  EXPECT_EQ(sent(), texts{"release L 1 permit 1 of 3"});
  answer({0, 0, 0, server_us()});
  received();
  advance(1500ms);
  EXPECT_EQ(sent(), texts{"release L 1 permit 1 of 3"}) << "a claim after the first";
  answer({0, 0, 0, server_us()});
  advance(1200ms);
  EXPECT_EQ(sent(), texts{"release L 1 permit 1 of 3"}) << "a claim after the second";
  answer({0, 0, 0, server_us()});
  advance(10s);
  EXPECT_EQ(sent(), texts{});
}

TEST_F(EnginePermits, AGrantThatNobodyWantsGoesBackAsWhatItWas) {
  push_permit(9, 100);
  EXPECT_EQ(sent(), texts{"release L 9 permit 1 of 0"});
  released();
  expect_clean();
}

TEST_F(EnginePermits, P6ACancelledPermitLeavesTheOthersAlone) {
  caller& a = ask_permit("a");
  ask_permit("b");
  take_sent();
  answer({0, 30'000, server_us(), 77});
  answer({0, 30'000, server_us(), 78});
  cancel(a, cancel_type::terminal);
  EXPECT_EQ(received(), texts{"a failed cancelled"});
  EXPECT_EQ(sent(), texts{"release L 1 permit 1 of 3"});
  removed();
  push_permit(2, 101);
  EXPECT_EQ(received(), texts{granted("b", 101)});
}

TEST_F(EnginePermits, AReconnectAsksForAllThatStandInLineWithTheirTickets) {
  ask_permit("a");
  ask_permit("b", permits(2));
  answer({0, 30'000, server_us(), 77});
  answer({0, 30'000, server_us(), 78});
  take_sent();
  disconnect();
  connect();
  settle_connection();
  auto const again = take_sent();
  ASSERT_GE(again.size(), 2u);
  EXPECT_EQ(again[again.size() - 2].text, "acquire L 1 permit 1 of 3");
  EXPECT_EQ(again[again.size() - 2].ticket, 77);
  EXPECT_EQ(again.back().text, "acquire L 2 permit 2 of 3");
  EXPECT_EQ(again.back().ticket, 78);
}

TEST_F(EnginePermits, WhatNobodyCouldEverBeGivenIsRefusedWithoutAMessage) {
  ask_permit("a", permits(1'000'001));
  ask_permit("b", permits(0));
  EXPECT_EQ(received(), (texts{"a failed invalid_config", "b failed invalid_config"}));
  EXPECT_EQ(sent(), texts{});
  expect_clean();
}

TEST_F(EnginePermits, MoreThanTheLimitIsForTheServerToDecide) {
  ask_permit("a", permits(4));
  EXPECT_EQ(received(), texts{});
  EXPECT_EQ(sent(), texts{"acquire L 1 permit 4 of 3"});
}

TEST_F(EnginePermits, ABackendWithoutSuchLocksSaysSo) {
  struct quorum_like final : backend {
    void ask(place&, bool, milliseconds, time_point) override {}
    void leave_unless_granted(place&, time_point) override {}
    void give_up(place&, receipt*, time_point) override {}
    void release(place&, std::optional<milliseconds>, receipt*, time_point) override {}
    void renew(std::span<place* const>, time_point) override {}
    time_point late_after(receipt const&) const override { return time_point::min(); }
    std::unique_ptr<engine::place> make_place(std::string_view name, permit const& p) override {
      return std::make_unique<engine::place>(name, p);
    }
    bool connected() const noexcept override { return true; }
    error_code too_late(place const&, time_point) const override { return make_error_code(errc::timed_out); }
    duration answers_within(place const&) const noexcept override { return 100ms; }
    capabilities offers() const noexcept override { return {.where = "few://", .instead = "ask another server"}; }
    duration validity(milliseconds lease) const noexcept override { return lease; }
    void report(statistics&) const override {}
    bool settled() const noexcept override { return true; }
    std::uint64_t progress() const noexcept override { return 0; }
    void prepare_close(time_point) override {}
  } other;
  cohort->use(other);
  ask_permit("a");
  EXPECT_EQ(received(), texts{"a failed not_supported"});
  struct : admin_request, admin_events {
    void on_admin_answered(admin_request&, admin_result const&, error_code why) override { told = why; }
    error_code told;
  } order;
  cohort->administer(order, order, now);
  EXPECT_EQ(order.told, errc::not_supported);
  EXPECT_NE(order.told.message().find("ask another server"), std::string::npos) << order.told.message();
  cohort->use(*remote);
}

TEST(NotOffered, TheErrorNamesTheFeatureTheServerAndAWayOut) {
  capabilities const of{.where = "few://", .instead = "ask another server"};
  auto const words = [&](auto const& what) { return not_offered(of, what).message(); };
  auto const of_kind = [](permit_kind k, bool all_free = false) {
    return permit{.kind = k, .limit = 3, .weight = 1, .all_free = all_free};
  };
  struct row {
    std::string said, feature;
  };
  auto const of_order = [](order::kind k) {
    order o;
    o.what = k;
    return o;
  };
  order part = of_order(order::kind::downgrade), if_unset = of_order(order::kind::set_limit), change = if_unset;
  part.permit = of_kind(permit_kind::semaphore);
  if_unset.if_unset = true;
  change.by = 1;
  std::vector<row> const rows{
      {words(of_kind(permit_kind::semaphore)), "semaphore over"},
      {words(of_kind(permit_kind::semaphore, true)), "semaphore::async_drain"},
      {words(of_kind(permit_kind::shared)), "shared_mutex and reentrant_shared_mutex"},
      {words(of_kind(permit_kind::segments)), "striped_mutex"},
      {words(of_kind(permit_kind::reentrant)), "reentrant_mutex"},
      {words(of_order(order::kind::inspect)), "async_inspect"},
      {words(of_order(order::kind::force)), "async_force_release"},
      {words(of_order(order::kind::request)), "async_request_release"},
      {words(of_order(order::kind::wait_free)), "async_wait_free"},
      {words(of_order(order::kind::set_limit)), "semaphore::async_set_permits over"},
      {words(if_unset), "semaphore::async_set_permits_if_unset"},
      {words(change), "semaphore::async_add_permits"},
      {words(of_order(order::kind::downgrade)), "shared_mutex::async_downgrade"},
      {words(part), "semaphore::async_release of a part"},
  };
  for (row const& r : rows) {
    EXPECT_NE(r.said.find(r.feature), std::string::npos) << r.said;
    EXPECT_NE(r.said.find(" over few://: ask another server"), std::string::npos) << r.said;
  }
}

}  // namespace
}  // namespace conch::engine
