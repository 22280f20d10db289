// acquire_options::at_least in ZooKeeper: the node that keeps the lock, and those who wait for its end.
#include "zookeeper_fixture.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace conch::zookeeper {
namespace {

using event = notice::event;

std::string const my_node = "/conch/a/me~i9000.2-0000000004", my_keep = "/conch/a/me~k9000c5.2-0000000004";
std::string const their_keep = "other~k9000c1.7-0000000003";

class ZookeeperInterval : public zookeeper_test {
 protected:
  void SetUp() override { be_open(); }

  void ask() {
    at("a").at_least = 9s;
    line->ask(at("a"), true, 12s, now);
    made(my_node, ++zxid);
  }
  void hold() {
    ask();
    listed({"me~i9000.2-0000000004"});
    made(my_keep, ++zxid);
    ASSERT_EQ(take_told(), texts{"granted a"});
    at("a").kept_until = now + 9s;  // as the cohort does
    take_sent();
  }
  /// What a watch of the node that keeps the lock is answered with.
  void exists_for(std::int64_t ms) {
    ok();  // it was written to
    answer({++zxid, status::ok, data{{}, {.created = 3, .created_ms = 50'000, .modified_ms = 50'000 + ms}}});
  }
  /// With a server that answers whatever keeps the session alive.
  texts live(duration d) {
    texts seen;
    for (time_point const until = now + d; now < until;) {
      advance(std::min<duration>(until - now, 100ms));
      for (std::string const& one : take_sent()) {
        if (one == "ping") answer_ping();
        else if (one.find("/.clients/") != std::string::npos) ok();
        else seen.push_back(one);
      }
    }
    return seen;
  }
};

TEST_F(ZookeeperInterval, IsInTheNameAndItsNodeIsThereBeforeTheGrant) {
  ask();
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me~i9000.2-", "list /conch/a"}));
  listed({"me~i9000.2-0000000004"});
  EXPECT_EQ(take_told(), texts{});
  EXPECT_EQ(take_sent(), texts{"create persistent " + my_keep});
  made(my_keep, ++zxid);
  EXPECT_EQ(take_told(), texts{"granted a"});
}

TEST_F(ZookeeperInterval, AMutexWithoutOneCostsNothingMore) {
  line->ask(at("a"), true, 12s, now);
  made("/conch/a/me.2-0000000004", ++zxid);
  listed({"me.2-0000000004"});
  EXPECT_EQ(take_told(), texts{"granted a"});
  line->release(at("a"), std::nullopt, nullptr, now);
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me.2-", "list /conch/a", "remove /conch/a/me.2-0000000004"}));
}

TEST_F(ZookeeperInterval, AnEarlyReleaseLeavesItsNodeWhichItsClientRemovesAtTheEnd) {
  hold();
  line->release(at("a"), std::nullopt, nullptr, now);
  EXPECT_EQ(take_sent(), texts{"remove " + my_node});
  ok();
  EXPECT_TRUE(line->settled());
  EXPECT_EQ(live(8900ms), texts{});
  EXPECT_EQ(live(200ms), texts{"remove " + my_keep});
  EXPECT_EQ(take_told(), texts{}) << "it is referred to until that is answered";
  error(status::no_node);
  EXPECT_EQ(take_told(), texts{"settled a"});
}

TEST_F(ZookeeperInterval, AReleaseAfterItRemovesItsNodeFirst) {
  hold();
  EXPECT_EQ(live(9100ms), texts{});
  line->release(at("a"), std::nullopt, nullptr, now);
  EXPECT_EQ(take_sent(), (texts{"remove " + my_keep, "remove " + my_node}));
}

TEST_F(ZookeeperInterval, OutlivesTheSession) {
  hold();
  lose_session();
  EXPECT_EQ(take_told(), texts{"lost a"});
  advance(1ms);
  open(8);
  take_sent();
  EXPECT_EQ(live(8900ms), texts{});
  EXPECT_EQ(live(200ms), texts{"remove " + my_keep});
}

TEST_F(ZookeeperInterval, WhatEndsWithoutAConnectionIsRemovedOnTheNext) {
  hold();
  line->release(at("a"), std::nullopt, nullptr, now);
  ok();
  live(8900ms);
  lose_connection();
  advance(200ms);
  take_sent();
  open(7, false);
  texts const all = take_sent();
  EXPECT_EQ(std::count(all.begin(), all.end(), "remove " + my_keep), 1);
}

TEST_F(ZookeeperInterval, AnEndThatTheServerCannotDoIsAskedForAgain) {
  hold();
  live(9100ms);
  line->release(at("a"), std::nullopt, nullptr, now);
  take_sent();
  error(status::throttled);
  ok();
  EXPECT_EQ(live(3s), texts{"remove " + my_keep});
}

TEST_F(ZookeeperInterval, OneThatIsGivenUpBeforeTheGrantKeepsNothing) {
  ask();
  listed({"me~i9000.2-0000000004"});
  take_sent();
  line->give_up(at("a"), nullptr, now);
  EXPECT_EQ(take_sent(), (texts{"remove " + my_keep, "remove " + my_node}));
}

/// It may have been made, and is older than the grant will be.
TEST_F(ZookeeperInterval, ANodeWhoseCreationWasNotAnsweredIsMadeAnew) {
  ask();
  listed({"me~i9000.2-0000000004"});
  lose_connection();
  advance(1ms);
  open(7, false);
  take_sent();
  listed({"me~i9000.2-0000000004", "me~k9000c5.2-0000000004"});
  EXPECT_EQ(take_sent(), (texts{"remove " + my_keep, "create persistent " + my_keep}));
  ok();
  EXPECT_EQ(take_told(), texts{});
  made(my_keep, ++zxid);
  EXPECT_EQ(take_told(), texts{"granted a"});
}

TEST_F(ZookeeperInterval, ARefusalToMakeItsNodeIsTold) {
  ask();
  listed({"me~i9000.2-0000000004"});
  take_sent();
  error(status::quota_exceeded);
  EXPECT_EQ(reason, errc::server_refused);
  EXPECT_NE(reason.message().find(my_keep), std::string::npos) << reason.message();
  EXPECT_EQ(take_sent(), (texts{"remove " + my_keep, "remove " + my_node}));
}

// ---- those who wait for its end

TEST_F(ZookeeperInterval, TheEndOfOneAheadIsNoGrantWithoutAList) {
  stand("a", {"other~i9000.7-0000000003"}, "me.2-0000000004");
  ok();
  take_sent();
  take_told();
  happened(event::deleted, "/conch/a/other~i9000.7-0000000003");
  EXPECT_EQ(take_told(), texts{});
  EXPECT_EQ(take_sent(), texts{"list /conch/a"});
  listed({"me.2-0000000004"});
  EXPECT_EQ(take_told(), texts{"granted a"}) << "it was never granted";
}

TEST_F(ZookeeperInterval, AWaiterMeasuresWhatIsLeftByTheLeadersClockAndRemovesTheNode) {
  stand("a", {their_keep}, "me.2-0000000004");
  EXPECT_EQ(take_told(), texts{"queued a"});
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me.2-", "list /conch/a", "set /conch/a/" + their_keep,
                                "watch /conch/a/" + their_keep}));
  exists_for(5'000);
  EXPECT_EQ(live(3999ms), texts{});
  EXPECT_EQ(live(100ms), (texts{"remove /conch/a/" + their_keep, "list /conch/a"}));
  ok();
  listed({"me.2-0000000004"});
  EXPECT_EQ(take_told(), texts{"granted a"});
}

TEST_F(ZookeeperInterval, OneThatIsOverIsRemovedAtOnceAndAClockThatWentBackCostsOneInterval) {
  stand("a", {their_keep}, "me.2-0000000004");
  take_sent();
  exists_for(20'000);
  EXPECT_EQ(live(10ms), (texts{"remove /conch/a/" + their_keep, "list /conch/a"}));
  ok();
  listed({their_keep, "me.2-0000000004"});
  take_sent();
  exists_for(-50'000);
  EXPECT_EQ(live(8999ms), texts{});
  EXPECT_EQ(live(200ms), (texts{"remove /conch/a/" + their_keep, "list /conch/a"}));
}

TEST_F(ZookeeperInterval, TimesThatNoServerHasDoNotOverflow) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  stand("a", {their_keep}, "me.2-0000000004");
  take_sent();
  ok();
  answer({++zxid, status::ok, data{{}, {.created = 3, .created_ms = least, .modified_ms = most}}});
  EXPECT_EQ(live(10ms), (texts{"remove /conch/a/" + their_keep, "list /conch/a"}));
}

TEST_F(ZookeeperInterval, AWaiterIsTheNextOnceItsClientHasRemovedTheNode) {
  stand("a", {their_keep}, "me.2-0000000004");
  exists_for(1'000);
  take_sent();
  take_told();
  happened(event::deleted, "/conch/a/" + their_keep);
  EXPECT_EQ(take_sent(), texts{"list /conch/a"});
  listed({"me.2-0000000004"});
  EXPECT_EQ(take_told(), texts{"granted a"});
}

TEST_F(ZookeeperInterval, ATryFindsTheLockBusy) {
  line->ask(at("a"), false, 12s, now);
  made("/conch/a/me.2-0000000004", ++zxid);
  listed({their_keep, "me.2-0000000004"});
  ok();
  EXPECT_EQ(take_told(), (texts{"busy a", "settled a"}));
}

TEST_F(ZookeeperInterval, TheClientItselfWaitsForTheEndOfItsOwn) {
  hold();
  line->release(at("a"), std::nullopt, nullptr, now);
  ok();
  at("a").at_least = 0ms;
  line->ask(at("a"), true, 12s, now);
  made("/conch/a/me.3-0000000005", ++zxid);
  take_sent();
  listed({"me~k9000c5.2-0000000004", "me.3-0000000005"});
  EXPECT_EQ(take_sent(), (texts{"set " + my_keep, "watch " + my_keep})) << "it is not a stray";
  EXPECT_EQ(take_told(), texts{"queued a"});
}

TEST_F(ZookeeperInterval, ANodeThatCannotBeRemovedIsTriedAgainAndRefusalsAreTold) {
  stand("a", {their_keep}, "me.2-0000000004");
  exists_for(9'000);
  take_told();
  live(10ms);
  error(status::throttled);
  listed({their_keep, "me.2-0000000004"});
  take_sent();
  exists_for(9'001);
  EXPECT_EQ(live(10ms), (texts{"remove /conch/a/" + their_keep, "list /conch/a"}));
  error(status::no_auth);
  EXPECT_EQ(reason, errc::access_denied);
}

/// The wait for the end of the interval is over: its timer is for what the server could not do.
TEST_F(ZookeeperInterval, ATurnThatComesEarlyIsNotForgottenWhenTheServerCannotMakeItsNode) {
  at("a").at_least = 9s;
  line->ask(at("a"), true, 12s, now);
  made(my_node, ++zxid);
  listed({their_keep, "me~i9000.2-0000000004"});
  exists_for(1'000);
  happened(event::deleted, "/conch/a/" + their_keep);
  listed({"me~i9000.2-0000000004"});
  take_sent();
  error(status::throttled);
  EXPECT_EQ(live(3s), (texts{"remove " + my_keep, "create persistent " + my_keep}));
}

TEST_F(ZookeeperInterval, AnotherNodeIsNotRemovedAtTheEndOfTheFirst) {
  std::string const another = "another~k9000c1.8-0000000003";
  stand("a", {their_keep}, "me.2-0000000004");
  exists_for(8'000);
  happened(event::deleted, "/conch/a/" + their_keep);
  listed({another, "me.2-0000000004"});
  take_sent();
  EXPECT_EQ(live(2s), texts{}) << "it is not known how long that has been there";
}

TEST_F(ZookeeperInterval, AfterAReconnectTheRestIsMeasuredAgain) {
  stand("a", {their_keep}, "me.2-0000000004");
  exists_for(1'000);
  take_sent();
  lose_connection();
  advance(1ms);
  open(7, false);
  listed({their_keep, "me.2-0000000004"});
  texts const all = take_sent();
  EXPECT_EQ(std::count(all.begin(), all.end(), "set /conch/a/" + their_keep), 1);
  exists_for(9'000);
  texts const then = live(10ms);
  EXPECT_EQ(then, (texts{"remove /conch/a/" + their_keep, "list /conch/a"}));
}

}  // namespace
}  // namespace conch::zookeeper
