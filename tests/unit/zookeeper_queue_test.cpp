#include "zookeeper_fixture.hpp"

#include <cstdint>
#include <limits>

namespace conch::zookeeper {
namespace {

using event = notice::event;

class ZookeeperQueue : public zookeeper_test {};

// ---- asking

TEST_F(ZookeeperQueue, AsksInOneRoundTripAndTheFirstNodeHasTheLock) {
  be_open();
  line->ask(at("a"), true, 12s, now);
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me.2-", "list /conch/a"}));
  made("/conch/a/me.2-0000000004", 9);
  EXPECT_EQ(take_told(), texts{});
  listed({"me.2-0000000004", "other.1-0000000007"});
  EXPECT_EQ(take_told(), texts{"granted a"});
  EXPECT_EQ(at("a").fence, root_made_ms * 1000 - protocol::fence_epoch_us + 9);
}

/// Their sum, or one of them times a thousand, overflows 64 bits, and the rest may look like a usable fence.
TEST_F(ZookeeperQueue, TimesThatNoClockHasMakeNoFence) {
  constexpr auto last = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t wraps = std::int64_t{1} << 61;  // times 1000: nothing, in 64 bits
  struct {
    std::int64_t created_ms, transaction;
  } const all[] = {{root_made_ms + wraps, 9}, {root_made_ms - wraps, 9}, {last, 9}, {-last - 1, 9},
                   {root_made_ms, last},      {root_made_ms, -last - 1}};
  for (auto const& [created_ms, transaction] : all) {
    make();
    line->ask(at("a"), true, 12s, now);
    connected();
    line->receiver().greeted({12'000, 7, "secret"}, now);
    answer({++zxid, status::ok, data{{}, {.created = 1, .created_ms = created_ms}}});
    ok();
    ok();
    answer({++zxid, status::ok, created{"/conch/a/me.1-0000000000", {.created = transaction}}});
    take_told();
    listed({"me.1-0000000000"});
    texts const seen = take_told();
    ASSERT_FALSE(seen.empty());
    EXPECT_TRUE(seen[0].starts_with("failed a: the server does not speak the expected protocol: the fence "))
        << seen[0] << created_ms;
    take_sent();
  }
}

TEST_F(ZookeeperQueue, MakesTheFolderOfALockThatIsNew) {
  be_open();
  line->ask(at("a"), true, 12s, now);
  take_sent();
  error(status::no_node);
  EXPECT_EQ(take_sent(), (texts{"create container /conch/a", "create line /conch/a/me.2-", "list /conch/a"}));
  error(status::no_node);  // the first list
  ok();                    // the folder
  made("/conch/a/me.2-0000000000", 9);
  listed({"me.2-0000000000"});
  EXPECT_EQ(take_told(), texts{"granted a"});
}

TEST_F(ZookeeperQueue, TheNameOfALockIsOneNodeWhateverItsBytes) {
  be_open();
  line->ask(at("../a/b%\x01\xff"), true, 12s, now);
  EXPECT_EQ(take_sent().front(), "create line /conch/%2E.%2Fa%2Fb%25%01%FF/me.2-");
}

TEST_F(ZookeeperQueue, ATryThatFindsTheLockTakenLeavesNothing) {
  be_open();
  line->ask(at("a"), false, 12s, now);
  take_sent();
  made("/conch/a/me.2-0000000004", 9);
  listed({"me.2-0000000004", "other.1-0000000003"});
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me.2-0000000004"});
  EXPECT_EQ(take_told(), texts{}) << "a try that comes after this one must not find its node";
  ok();
  EXPECT_EQ(take_told(), (texts{"busy a", "settled a"}));
}

TEST_F(ZookeeperQueue, ALeaseLongerThanTheSessionIsRefused) {
  be_open();
  line->ask(at("a"), true, 13s, now);
  EXPECT_EQ(reason, errc::invalid_config);
  EXPECT_NE(reason.message().find("longer than the session of 12000 ms"), std::string::npos) << reason.message();
  EXPECT_EQ(take_sent(), texts{});
}

TEST_F(ZookeeperQueue, AFenceThatCannotBeIsAnError) {
  be_open();
  line->ask(at("a"), true, 12s, now);
  made("/conch/a/me.2-0000000004", std::int64_t{1} << 51);
  listed({"me.2-0000000004"});
  EXPECT_EQ(reason, errc::protocol);
}

TEST_F(ZookeeperQueue, WithoutRightsItSaysWhichOnes) {
  be_open();
  line->ask(at("a"), true, 12s, now);
  error(status::no_auth);
  error(status::no_auth);
  EXPECT_EQ(reason, errc::access_denied);
  EXPECT_NE(reason.message().find("/conch/a"), std::string::npos) << reason.message();
}

// ---- waiting

TEST_F(ZookeeperQueue, TheEndOfTheOnlyOneAheadIsTheGrantWithoutAnotherList) {
  be_open();
  stand("a", {"other.1-0000000003"}, "me.2-0000000004");
  EXPECT_EQ(take_told(), texts{"queued a"});
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me.2-", "list /conch/a", "watch /conch/a/other.1-0000000003"}));
  ok();
  happened(event::deleted, "/conch/a/other.1-0000000003");
  EXPECT_EQ(take_told(), texts{"pushed a"});
  EXPECT_EQ(take_sent(), texts{});
}

TEST_F(ZookeeperQueue, TheDeathOfOneInMidQueueIsNoGrant) {
  be_open();
  stand("a", {"x.1-0000000001", "y.1-0000000002", "z.1-0000000003"}, "me.2-0000000004");
  take_sent();
  take_told();
  ok();
  ok();
  happened(event::deleted, "/conch/a/z.1-0000000003");
  EXPECT_EQ(take_told(), texts{});
  EXPECT_EQ(take_sent(), texts{"list /conch/a"});
  listed({"me.2-0000000004", "x.1-0000000001", "y.1-0000000002"});
  EXPECT_EQ(take_told(), texts{"queued a"});
  EXPECT_EQ(take_sent(), texts{"watch /conch/a/x.1-0000000001"}) << "y is watched already";
}

TEST_F(ZookeeperQueue, LooksWhenItStandsSecondSoThatItsTurnTakesNoList) {
  be_open();
  stand("a", {"x.1-0000000001", "y.1-0000000002", "z.1-0000000003"}, "me.2-0000000004");
  ok();
  ok();
  take_sent();
  happened(event::deleted, "/conch/a/y.1-0000000002");
  EXPECT_EQ(take_sent(), texts{"list /conch/a"});
  listed({"z.1-0000000003", "me.2-0000000004"});
  EXPECT_EQ(take_sent(), texts{});
  take_told();
  happened(event::deleted, "/conch/a/z.1-0000000003");
  EXPECT_EQ(take_told(), texts{"pushed a"});
}

TEST_F(ZookeeperQueue, WithTwoAheadTheEndOfTheFirstNeedsNoList) {
  be_open();
  stand("a", {"x.1-0000000001", "y.1-0000000002"}, "me.2-0000000004");
  ok();
  ok();
  take_sent();
  take_told();
  happened(event::deleted, "/conch/a/x.1-0000000001");
  EXPECT_EQ(take_sent(), texts{});
  happened(event::deleted, "/conch/a/y.1-0000000002");
  EXPECT_EQ(take_told(), texts{"pushed a"});
  EXPECT_EQ(take_sent(), texts{});
}

TEST_F(ZookeeperQueue, OneThatIsGoneBeforeItIsWatchedIsGone) {
  be_open();
  stand("a", {"x.1-0000000003"}, "me.2-0000000004");
  take_told();
  error(status::no_node);
  EXPECT_EQ(take_told(), texts{"pushed a"});
}

TEST_F(ZookeeperQueue, AWriteToTheOneAheadUsesTheWatchUpSoItWatchesAgain) {
  be_open();
  stand("a", {"x.1-0000000003"}, "me.2-0000000004");
  ok();
  take_sent();
  take_told();
  happened(event::changed, "/conch/a/x.1-0000000003");
  EXPECT_EQ(take_told(), texts{});
  EXPECT_EQ(take_sent(), texts{"watch /conch/a/x.1-0000000003"});
}

TEST_F(ZookeeperQueue, TheGreatestNumberIsNoPlace) {
  be_open();
  stand("a", {"x.1-2147483646", "y.1-2147483647"}, "me.2-2147483647");
  EXPECT_EQ(take_told(), texts{}) << "not before its node is gone";
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me.2-", "list /conch/a", "remove /conch/a/me.2-2147483647"}));
  ok();
  texts const words = take_told();
  ASSERT_EQ(words.size(), 2u) << "it has failed, and is settled";
  EXPECT_TRUE(words[0].starts_with("failed a: ")) << words[0];
  EXPECT_NE(words[0].find("used up"), std::string::npos) << words[0];
  EXPECT_EQ(reason, errc::server_refused);
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperQueue, WaitsBehindTheLastPlaceAndForNobodyWithoutOne) {
  be_open();
  stand("a", {"y.1-2147483647", "x.1-2147483645", "z.1--2147483648"}, "me.2-2147483646");
  EXPECT_EQ(take_told(), texts{"queued a"});
  happened(event::deleted, "/conch/a/x.1-2147483645");
  EXPECT_EQ(take_told(), texts{"pushed a"});
}

TEST_F(ZookeeperQueue, RemovesANodeOfItsOwnThatNobodyKnows) {
  be_open();
  stand("a", {"me.1-0000000003"}, "me.2-0000000004");
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me.2-", "list /conch/a", "remove /conch/a/me.1-0000000003",
                                "watch /conch/a/me.1-0000000003"}));
  EXPECT_EQ(take_told(), texts{"queued a"}) << "it is ahead until it is gone";
  ok();
  ok();
  happened(event::deleted, "/conch/a/me.1-0000000003");
  EXPECT_EQ(take_told(), texts{"pushed a"});
}

TEST_F(ZookeeperQueue, LooksAtNothingThatIsNoPlaceInLine) {
  be_open();
  stand("a", {"README", "x.y-1", "other-lock-0000000001"}, "me.2-0000000004");
  EXPECT_EQ(take_told(), texts{"granted a"});
}

TEST_F(ZookeeperQueue, AsksAgainIfSomebodyElseHasRemovedItsNode) {
  be_open();
  stand("a", {"x.1-0000000001", "y.1-0000000002", "z.1-0000000003"}, "me.2-0000000004");
  take_told();
  ok();
  ok();
  happened(event::deleted, "/conch/a/z.1-0000000003");
  take_sent();
  listed({"x.1-0000000001", "y.1-0000000002"});
  EXPECT_EQ(take_told(), texts{"again a"});
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me.3-", "list /conch/a"}));
}

// ---- leaving

TEST_F(ZookeeperQueue, LeavesTheLineByRemovingItsNode) {
  be_open();
  stand("a", {"x.1-0000000003"}, "me.2-0000000004");
  ok();
  take_sent();
  take_told();
  line->leave_unless_granted(at("a"), now);
  EXPECT_EQ(take_sent(), texts{"list /conch/a"});
  listed({"x.1-0000000003", "me.2-0000000004"});
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me.2-0000000004"});
  happened(event::deleted, "/conch/a/x.1-0000000003");
  EXPECT_EQ(take_told(), texts{}) << "it is on its way out";
  ok();
  EXPECT_EQ(take_told(), (texts{"left a", "settled a"}));
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperQueue, TakesAGrantThatIsUnderWayWhenItLeaves) {
  be_open();
  stand("a", {"x.1-0000000003"}, "me.2-0000000004");
  ok();
  take_told();
  line->leave_unless_granted(at("a"), now);
  happened(event::deleted, "/conch/a/x.1-0000000003");
  listed({"me.2-0000000004"});
  EXPECT_EQ(take_told(), texts{"granted a"});
}

TEST_F(ZookeeperQueue, AGrantThatComesWithTheAnswerCountsAlthoughItLeaves) {
  be_open();
  line->ask(at("a"), true, 12s, now);
  line->leave_unless_granted(at("a"), now);
  made("/conch/a/me.2-0000000004", 9);
  listed({"me.2-0000000004"});
  EXPECT_EQ(take_told(), texts{"granted a"});
}

TEST_F(ZookeeperQueue, LeavesWithTheAnswerIfItIsNotGranted) {
  be_open();
  line->ask(at("a"), true, 12s, now);
  line->leave_unless_granted(at("a"), now);
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me.2-", "list /conch/a", "list /conch/a"}));
  made("/conch/a/me.2-0000000004", 9);
  listed({"x.1-0000000003", "me.2-0000000004"});
  EXPECT_EQ(take_sent(), texts{}) << "what stood there before it was to leave says little";
  listed({"x.1-0000000003", "me.2-0000000004"});
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me.2-0000000004"});
  ok();
  EXPECT_EQ(take_told(), (texts{"left a", "settled a"}));
}

/// The lock is free by the time it is to leave, and the answer that is under way is older.
TEST_F(ZookeeperQueue, TakesAGrantThatTheAnswerUnderWayDoesNotKnowWhenItLeaves) {
  be_open();
  line->ask(at("a"), true, 12s, now);
  line->leave_unless_granted(at("a"), now);
  made("/conch/a/me.2-0000000004", 9);
  listed({"x.1-0000000003", "me.2-0000000004"});
  EXPECT_EQ(take_told(), texts{});
  listed({"me.2-0000000004"});
  EXPECT_EQ(take_told(), texts{"granted a"});
}

/// The same in line, where a death in the middle of the line has made it look.
TEST_F(ZookeeperQueue, TakesAGrantThatTheListUnderWayDoesNotKnowWhenItLeaves) {
  be_open();
  stand("a", {"x.1-0000000001", "y.1-0000000002", "z.1-0000000003"}, "me.2-0000000004");
  ok();
  ok();
  happened(event::deleted, "/conch/a/z.1-0000000003");
  take_sent();
  take_told();
  line->leave_unless_granted(at("a"), now);
  EXPECT_EQ(take_sent(), texts{"list /conch/a"});
  listed({"x.1-0000000001", "me.2-0000000004"});
  EXPECT_EQ(take_sent(), texts{});
  listed({"me.2-0000000004"});
  EXPECT_EQ(take_told(), texts{"granted a"});
}

TEST_F(ZookeeperQueue, WhatHappensWhileItsNodeIsRemovedGrantsNothing) {
  be_open();
  stand("a", {"x.1-0000000001", "y.1-0000000002", "z.1-0000000003"}, "me.2-0000000004");
  ok();
  ok();
  happened(event::deleted, "/conch/a/z.1-0000000003");
  take_told();
  line->leave_unless_granted(at("a"), now);
  listed({"x.1-0000000001", "me.2-0000000004"});
  listed({"x.1-0000000001", "me.2-0000000004"});
  take_sent();
  happened(event::deleted, "/conch/a/x.1-0000000001");
  EXPECT_EQ(take_told(), texts{});
  ok();
  EXPECT_EQ(take_told(), (texts{"left a", "settled a"}));
}

TEST_F(ZookeeperQueue, GivesUpWhatIsNotAnsweredAsSoonAsItIs) {
  be_open();
  engine::receipt r;
  line->ask(at("a"), true, 12s, now);
  line->give_up(at("a"), &r, now);
  take_sent();
  made("/conch/a/me.2-0000000004", 9);
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me.2-0000000004"});
  listed({"me.2-0000000004"});
  EXPECT_EQ(take_told(), texts{});
  ok();
  EXPECT_EQ(take_told(), (texts{"released", "settled a"}));
}

TEST_F(ZookeeperQueue, WhatWasNeverSentIsGivenUpAtOnce) {
  make();
  engine::receipt r;
  line->ask(at("a"), true, 12s, now);
  line->give_up(at("a"), &r, now);
  EXPECT_EQ(take_told(), texts{"released not mine"});
  EXPECT_TRUE(line->settled());
}

// ---- holding and releasing

TEST_F(ZookeeperQueue, ReleasesByRemovingItsNode) {
  be_open();
  stand("a", {}, "me.2-0000000004");
  take_sent();
  take_told();
  engine::receipt r;
  line->release(at("a"), std::nullopt, &r, now);
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me.2-0000000004"});
  ok();
  EXPECT_EQ(take_told(), (texts{"released", "settled a"}));
}

TEST_F(ZookeeperQueue, SaysThatItWasNotItsOwnIfTheNodeIsGone) {
  be_open();
  stand("a", {}, "me.2-0000000004");
  take_told();
  engine::receipt r;
  line->release(at("a"), std::nullopt, &r, now);
  error(status::no_node);
  EXPECT_EQ(take_told(), (texts{"released not mine", "settled a"}));
}

TEST_F(ZookeeperQueue, ReleasesAndAsksAgainInOneRoundTrip) {
  be_open();
  stand("a", {}, "me.2-0000000004");
  take_sent();
  take_told();
  line->release(at("a"), std::chrono::milliseconds{12'000}, nullptr, now);
  EXPECT_EQ(take_sent(), (texts{"remove /conch/a/me.2-0000000004", "create line /conch/a/me.3-", "list /conch/a"}));
  ok();
  made("/conch/a/me.3-0000000006", 12);
  listed({"x.1-0000000005", "me.3-0000000006"});
  EXPECT_EQ(take_told(), texts{"queued a"});
}

TEST_F(ZookeeperQueue, AHoldLastsNoLongerThanTheLeaseThatWasAskedFor) {
  be_open();
  line->ask(at("a"), true, 2s, now);
  made("/conch/a/me.2-0000000004", 9);
  listed({"me.2-0000000004"});
  EXPECT_EQ(at("a").deadline, now + line->validity(2s));
  EXPECT_TRUE(at("a").confirmed);
  at("a").renewable = true;
  now += 500ms;
  engine::place* const one = &at("a");
  line->renew({&one, 1}, now);
  EXPECT_EQ(at("a").deadline, now + line->validity(2s));
  take_sent();
  line->renew({&one, 1}, now += 500ms);
  EXPECT_EQ(take_sent(), texts{}) << "the heartbeat is for all holds";
}

TEST_F(ZookeeperQueue, AHoldThatIsRenewedIsToldIfSomebodyRemovesItsNode) {
  be_open();
  line->ask(at("a"), true, 2s, now);
  made("/conch/a/me.2-0000000004", 9);
  listed({"me.2-0000000004"});
  at("a").renewable = true;
  engine::place* const one = &at("a");
  take_sent();
  now += 500ms;
  line->renew({&one, 1}, now);
  now += 500ms;
  line->renew({&one, 1}, now);
  EXPECT_EQ(take_sent(), texts{"watch /conch/a/me.2-0000000004"}) << "once";
  ok();
  take_told();
  happened(event::changed, "/conch/a/me.2-0000000004");
  EXPECT_EQ(take_told(), texts{});
  EXPECT_EQ(take_sent(), texts{"watch /conch/a/me.2-0000000004"});
  ok();
  happened(event::deleted, "/conch/a/me.2-0000000004");
  EXPECT_EQ(take_told(), (texts{"lost a", "settled a"}));
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperQueue, AHoldWhoseNodeIsGoneAlreadyIsTold) {
  be_open();
  line->ask(at("a"), true, 2s, now);
  made("/conch/a/me.2-0000000004", 9);
  listed({"me.2-0000000004"});
  at("a").renewable = true;
  engine::place* const one = &at("a");
  line->renew({&one, 1}, now);
  take_told();
  error(status::no_node);
  EXPECT_EQ(take_told(), (texts{"lost a", "settled a"}));
}

TEST_F(ZookeeperQueue, TheEndOfItsOwnNodeAfterItsReleaseIsNoLoss) {
  be_open();
  line->ask(at("a"), true, 2s, now);
  made("/conch/a/me.2-0000000004", 9);
  listed({"me.2-0000000004"});
  at("a").renewable = true;
  engine::place* const one = &at("a");
  line->renew({&one, 1}, now);
  ok();
  take_told();
  line->release(at("a"), std::nullopt, nullptr, now);
  happened(event::deleted, "/conch/a/me.2-0000000004");
  ok();
  EXPECT_EQ(take_told(), texts{"settled a"});
}

TEST_F(ZookeeperQueue, AGrantWaitsForAProofWhenTheDeadlineIsNear) {
  be_open();
  stand("a", {"x.1-0000000003"}, "me.2-0000000004");
  take_told();
  advance(1s);  // nothing is answered: the pings and the write for the deadline are under way
  now += 11s;   // and this process is paused
  happened(event::deleted, "/conch/a/x.1-0000000003");
  EXPECT_EQ(take_told(), texts{});
}

// ---- connections and sessions

TEST_F(ZookeeperQueue, ATurnThatWasNotProvedBeforeTheConnectionEndedIsLookedForOnTheNext) {
  be_open();
  stand("a", {"x.1-0000000003"}, "me.2-0000000004");
  advance(1s);
  now += 11s;
  happened(event::deleted, "/conch/a/x.1-0000000003");
  lose_connection();
  advance(1us);
  take_told();
  take_sent();
  open(7, false);  // an operator has removed its node meanwhile
  EXPECT_EQ(take_told(), texts{}) << "nothing is granted that the servers have not shown";
  EXPECT_EQ(take_sent().back(), "list /conch/a");
}

TEST_F(ZookeeperQueue, AfterAReconnectItLooksWhereItStands) {
  be_open();
  stand("a", {"x.1-0000000003"}, "me.2-0000000004");
  ok();
  take_told();
  lose_connection();
  advance(1us);
  take_sent();
  open(7, false);
  EXPECT_EQ(take_sent(), (texts{"greet 7 seen " + std::to_string(zxid) + " for 12000", "get /conch", "list /conch/a"}));
  listed({"x.1-0000000003", "me.2-0000000004"});
  EXPECT_EQ(take_sent(), texts{"watch /conch/a/x.1-0000000003"});
}

TEST_F(ZookeeperQueue, LooksForTheNodeWhoseAnswerWasLost) {
  be_open();
  line->ask(at("a"), true, 12s, now);
  lose_connection();
  advance(1us);
  take_sent();
  open(7, false);
  take_told();
  texts const asked = take_sent();
  ASSERT_GE(asked.size(), 2u);
  EXPECT_EQ((texts{asked.end() - 2, asked.end()}), (texts{"sync /conch/a", "list /conch/a"}))
      << "this server may be behind";
  ok();  // sync
  listed({"me.2-0000000004", "x.1-0000000003"});
  EXPECT_EQ(take_sent(), (texts{"get /conch/a/me.2-0000000004", "list /conch/a"}));
  answer({++zxid, status::ok, data{{}, {.created = 9, .owner = 7}}});
  listed({"me.2-0000000004", "x.1-0000000003"});
  EXPECT_EQ(take_told(), texts{"queued a"});
  happened(event::deleted, "/conch/a/x.1-0000000003");
  EXPECT_EQ(take_told(), texts{"pushed a"});
  EXPECT_EQ(at("a").fence, root_made_ms * 1000 - protocol::fence_epoch_us + 9);
}

TEST_F(ZookeeperQueue, ANodeOfAnotherSessionIsNotItsOwn) {
  be_open();
  line->ask(at("a"), true, 12s, now);
  lose_connection();
  advance(1us);
  open(7, false);
  ok();
  listed({"me.2-0000000004"});
  take_told();
  take_sent();
  answer({++zxid, status::ok, data{{}, {.created = 9, .owner = 6}}});
  EXPECT_EQ(take_told(), texts{"again a"});
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me.3-", "list /conch/a"}));
}

TEST_F(ZookeeperQueue, AsksAnewIfTheLostCreationWasNotCarriedOut) {
  be_open();
  line->ask(at("a"), true, 12s, now);
  lose_connection();
  advance(1us);
  open(7, false);
  ok();
  take_sent();
  error(status::no_node);
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me.3-", "list /conch/a"}));
}

TEST_F(ZookeeperQueue, RemovesTheNodeOfACreationThatWasGivenUpAndWhoseAnswerWasLost) {
  be_open();
  line->ask(at("a"), true, 12s, now);
  line->give_up(at("a"), nullptr, now);
  lose_connection();
  advance(1us);
  take_sent();
  open(7, false);
  texts const asked = take_sent();
  EXPECT_EQ(asked.back(), "list /conch/a");
  ok();
  listed({"me.2-0000000004"});
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me.2-0000000004"});
  EXPECT_FALSE(line->settled());
  ok();
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperQueue, RepeatsAReleaseOnTheNextConnectionAndItWasItsOwn) {
  be_open();
  stand("a", {}, "me.2-0000000004");
  take_told();
  engine::receipt r;
  line->release(at("a"), std::nullopt, &r, now);
  lose_connection();
  advance(1us);
  take_sent();
  open(7, false);
  EXPECT_EQ(take_sent().back(), "remove /conch/a/me.2-0000000004");
  error(status::no_node);  // the first one was carried out
  EXPECT_EQ(take_told(), (texts{"released", "settled a"}));
}

TEST_F(ZookeeperQueue, ACleanupOnANewConnectionIsNoRequestOfWhatThePlaceAsksForNow) {
  be_open();
  stand("a", {}, "me.2-0000000004");
  line->release(at("a"), std::chrono::milliseconds{12'000}, nullptr, now);
  lose_connection();
  advance(1us);
  take_sent();
  open(7, false);
  texts const asked = take_sent();
  ASSERT_GE(asked.size(), 3u);
  EXPECT_EQ((texts{asked.end() - 3, asked.end()}),
            (texts{"remove /conch/a/me.2-0000000004", "sync /conch/a", "list /conch/a"}));
}

TEST_F(ZookeeperQueue, TheEndOfTheSessionIsTheEndOfItsCleanups) {
  be_open();
  stand("a", {}, "me.2-0000000004");
  engine::receipt r;
  line->release(at("a"), std::nullopt, &r, now);
  lose_connection();
  advance(1us);
  take_told();
  connected();
  line->receiver().greeted({0, 0, ""}, now);
  EXPECT_EQ(take_told(), (texts{"released", "settled a"}));
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperQueue, InANewSessionItAsksAnew) {
  be_open();
  stand("a", {"x.1-0000000003"}, "me.2-0000000004");
  lose_session();
  advance(1ms);
  take_sent();
  take_told();
  open(8);
  EXPECT_EQ(take_sent().back(), "list /conch/a");
  made("/conch/a/me.3-0000000009", 20);
  listed({"me.2-0000000004", "me.3-0000000009"});
  EXPECT_EQ(take_told(), texts{"queued a"}) << "the node of the session before is a stranger's";
}

TEST_F(ZookeeperQueue, WaitsForAServerAndSaysWhyItHasGivenUp) {
  settings.connect_timeout = 1min;
  make();
  line->ask(at("a"), true, 12s, now);
  fail(fault::try_later, "connection refused");
  advance(11s);
  EXPECT_EQ(reason, errc::unreachable);
  EXPECT_NE(reason.message().find("connection refused"), std::string::npos) << reason.message();
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperQueue, ALeaveWithoutAConnectionEndsInTime) {
  be_open();
  stand("a", {"x.1-0000000003"}, "me.2-0000000004");
  lose_connection();
  take_told();
  line->leave_unless_granted(at("a"), now);
  advance(3s);
  EXPECT_EQ(take_told(), texts{"left a"});
  EXPECT_FALSE(line->settled()) << "a clean-up goes on with it";
}

// ---- the delay after a loss

class ZookeeperDelay : public zookeeper_test {
 protected:
  ZookeeperDelay() { settings.lock_delay = 4s; }

  /// The lock "a" is held, in a session of that length.
  void hold_in_a_session_of(std::int32_t ms) {
    make();
    line->ask(at("a"), true, 12s, now);
    connected();
    EXPECT_EQ(take_sent().back(), "greet 0 seen 0 for 16000");
    line->receiver().greeted({ms, 7, "secret"}, now);
    if (ms < 16'000) return;
    root();
    ok();
    ok();
    made("/conch/a/me.1-0000000000", 2);
    listed({"me.1-0000000000"});
    EXPECT_EQ(take_told(), texts{"granted a"});
    take_sent();
  }
};

TEST_F(ZookeeperDelay, TheSessionLastsForItAndTheDeadlineDoesNotCountIt) {
  hold_in_a_session_of(16'000);
  EXPECT_EQ(at("a").deadline, now + protocol::good_for(12s));
}

TEST_F(ZookeeperDelay, AShorterSessionIsRefusedWithTheSettingsToChange) {
  hold_in_a_session_of(15'000);
  texts const all = take_told();
  ASSERT_FALSE(all.empty());
  for (char const* const words : {"after 15000 ms", "need 16000 ms", "maxSessionTimeout", "lock_delay"})
    EXPECT_NE(all[0].find(words), std::string::npos) << all[0];
}

TEST_F(ZookeeperDelay, ALostNodeStaysUntilTheDelayHasPassedAndNoReleaseWaitsForIt) {
  hold_in_a_session_of(16'000);
  time_point const deadline = at("a").deadline;
  line->detach(at("a"), now);
  EXPECT_EQ(take_sent(), texts{});
  EXPECT_TRUE(line->settled());
  texts removed;
  auto const live = [&](time_point until) {
    while (now < until) {
      advance(std::min<duration>(until - now, 500ms));
      for (std::string const& one : take_sent()) {
        if (one.starts_with("remove")) removed.push_back(one);
        one == "ping" ? answer_ping() : ok();
      }
    }
  };
  live(deadline + 4s);
  EXPECT_EQ(removed, texts{});
  live(deadline + 4s + 100ms);
  EXPECT_EQ(removed, texts{"remove /conch/a/me.1-0000000000"});
  EXPECT_TRUE(line->connected());
}

TEST_F(ZookeeperDelay, TheEndOfTheClientLeavesTheSessionToItselfAfterALoss) {
  hold_in_a_session_of(16'000);
  line->detach(at("a"), now);
  line->closed();
  EXPECT_EQ(take_sent(), texts{});
}

TEST_F(ZookeeperDelay, TheEndOfTheClientEndsTheSessionWithoutALoss) {
  hold_in_a_session_of(16'000);
  line->release(at("a"), std::nullopt, nullptr, now);
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me.1-0000000000"});
  ok();
  line->closed();
  EXPECT_EQ(take_sent(), texts{"close"});
}

}  // namespace
}  // namespace conch::zookeeper
