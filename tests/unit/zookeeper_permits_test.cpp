// Locks with several owners in ZooKeeper, step by step: readers and writers, permits, and several places of one client
// at one lock.
#include "zookeeper_fixture.hpp"

#include <algorithm>

namespace conch::zookeeper {
namespace {

using engine::permit;
using engine::permit_kind;
using event = notice::event;

permit const reads{.kind = permit_kind::shared, .limit = engine::most_permits, .weight = 1};
permit const writes{.kind = permit_kind::shared, .limit = engine::most_permits, .weight = engine::most_permits};

permit permits(std::uint32_t weight, std::uint32_t limit) {
  return {.kind = permit_kind::semaphore, .limit = limit, .weight = weight};
}

class ZookeeperPermits : public zookeeper_test {
 protected:
  /// A place with its node, whose list is not answered yet.
  void ask(engine::place& p, std::string const& mine, bool wait = true) {
    line->ask(p, wait, 12s, now);
    made("/conch/" + mine, ++zxid);
  }
  /// Two places at one lock, both behind a writer of another client. The list of the second one is not answered yet.
  void two_readers_behind_a_writer() {
    ask(at("one", "a", reads), "a/me~r.2-0000000002");
    listed({"x~w.1-0000000001", "me~r.2-0000000002"});
    ok();  // its watch
    ask(at("two", "a", reads), "a/me~r.3-0000000003");
  }
  void all_three_listed() { listed({"x~w.1-0000000001", "me~r.2-0000000002", "me~r.3-0000000003"}); }
};

TEST_F(ZookeeperPermits, AskWithTheirTermsInTheNameOfTheNode) {
  be_open();
  line->ask(at("reader", "a", reads), true, 12s, now);
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me~r.2-", "list /conch/a"}));
  line->ask(at("writer", "a", writes), true, 12s, now);
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me~w.3-", "list /conch/a"}));
  line->ask(at("permit", "b", permits(3, 10)), true, 12s, now);
  EXPECT_EQ(take_sent(), (texts{"create line /conch/b/me~s3of10.4-", "list /conch/b"}));
}

TEST_F(ZookeeperPermits, ReadersShareAndAWriterWaitsForAll) {
  be_open();
  ask(at("reader", "a", reads), "a/me~r.2-0000000002");
  listed({"x~r.1-0000000001", "me~r.2-0000000002"});
  EXPECT_EQ(take_told(), texts{"granted reader"});
  take_sent();
  ask(at("writer", "a", writes), "a/me~w.3-0000000003");
  listed({"x~r.1-0000000001", "me~r.2-0000000002", "me~w.3-0000000003"});
  EXPECT_EQ(take_told(), texts{"queued writer"});
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me~w.3-", "list /conch/a", "watch /conch/a/me~r.2-0000000002",
                                "watch /conch/a/x~r.1-0000000001"}))
      << "the node of the reader of this client is none that nobody knows";
  ok();
  ok();
  happened(event::deleted, "/conch/a/x~r.1-0000000001");
  EXPECT_EQ(take_told(), texts{});
  line->release(at("reader"), std::nullopt, nullptr, now);
  happened(event::deleted, "/conch/a/me~r.2-0000000002");
  EXPECT_EQ(take_told(), texts{"pushed writer"});
  ok();
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me~r.2-0000000002"}) << "no list";
}

TEST_F(ZookeeperPermits, AReaderDoesNotPassAWriterThatWaits) {
  be_open();
  ask(at("reader", "a", reads), "a/me~r.2-0000000003");
  listed({"x~r.1-0000000001", "y~w.1-0000000002", "me~r.2-0000000003"});
  EXPECT_EQ(take_told(), texts{"queued reader"});
  happened(event::deleted, "/conch/a/x~r.1-0000000001");
  EXPECT_EQ(take_told(), texts{});
  happened(event::deleted, "/conch/a/y~w.1-0000000002");
  EXPECT_EQ(take_told(), texts{"pushed reader"});
}

TEST_F(ZookeeperPermits, OfASemaphoreAsManyAsTheLimitAllows) {
  be_open();
  for (int i = 0; i < 3; ++i) {
    std::string const n = std::to_string(i + 2);
    ask(at("p" + n, "a", permits(1, 2)), "a/me~s1of2." + n + "-000000000" + n);
    std::vector<std::string> const all{"me~s1of2.2-0000000002", "me~s1of2.3-0000000003", "me~s1of2.4-0000000004"};
    listed({all.begin(), all.begin() + i + 1});
  }
  EXPECT_EQ(take_told(), (texts{"granted p2", "granted p3", "queued p4"}));
  ok();
  ok();
  take_sent();
  line->release(at("p3"), std::nullopt, nullptr, now);
  happened(event::deleted, "/conch/a/me~s1of2.3-0000000003");
  ok();
  EXPECT_EQ(take_told(), (texts{"pushed p4", "settled p3"}));
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me~s1of2.3-0000000003"});
}

TEST_F(ZookeeperPermits, SeveralPlacesThatWaitForOneNodeWatchItOnce) {
  be_open();
  two_readers_behind_a_writer();
  take_sent();
  all_three_listed();
  EXPECT_EQ(take_sent(), texts{"watch /conch/a/me~r.2-0000000002"}) << "the writer is watched already";
  take_told();
  happened(event::changed, "/conch/a/x~w.1-0000000001");
  EXPECT_EQ(take_sent(), texts{"watch /conch/a/x~w.1-0000000001"}) << "once";
  happened(event::deleted, "/conch/a/x~w.1-0000000001");
  EXPECT_EQ(take_told(), (texts{"pushed one", "pushed two"}));
}

TEST_F(ZookeeperPermits, APlaceThatLeavesTakesNoWatchFromItsSibling) {
  be_open();
  two_readers_behind_a_writer();
  all_three_listed();
  take_told();
  line->give_up(at("one"), nullptr, now);
  happened(event::deleted, "/conch/a/x~w.1-0000000001");
  EXPECT_EQ(take_told(), texts{"pushed two"});
}

TEST_F(ZookeeperPermits, ANodeThatIsGoneBeforeItIsWatchedIsGoneForAllThatWaitForIt) {
  be_open();
  line->ask(at("one", "a", reads), true, 12s, now);
  line->ask(at("two", "a", reads), true, 12s, now);
  made("/conch/a/me~r.2-0000000002", ++zxid);
  listed({"x~w.1-0000000001", "me~r.2-0000000002"});
  made("/conch/a/me~r.3-0000000003", ++zxid);
  all_three_listed();
  take_told();
  line->give_up(at("one"), nullptr, now);
  error(status::no_node);  // to the read that was sent for the first of them
  EXPECT_EQ(take_told(), texts{"pushed two"});
}

TEST_F(ZookeeperPermits, ANodeWhoseCreationIsUnderWayIsNoStray) {
  be_open();
  line->ask(at("one", "a", reads), true, 12s, now);
  line->ask(at("two", "a", reads), true, 12s, now);
  made("/conch/a/me~r.2-0000000002", ++zxid);
  take_sent();
  listed({"me~r.2-0000000002", "me~r.3-0000000003"});  // the second one is not answered yet
  EXPECT_EQ(take_sent(), texts{});
  EXPECT_EQ(take_told(), texts{"granted one"});
}

TEST_F(ZookeeperPermits, ANodeThatIsToBeRemovedIsNoStray) {
  be_open();
  ask(at("one", "a", reads), "a/me~r.2-0000000002");
  listed({"me~r.2-0000000002"});
  line->ask(at("two", "a", reads), true, 12s, now);
  line->release(at("one"), std::nullopt, nullptr, now);
  take_sent();
  made("/conch/a/me~r.3-0000000003", ++zxid);
  listed({"me~r.2-0000000002", "me~r.3-0000000003"});
  EXPECT_EQ(take_sent(), texts{}) << "its removal is under way";
  ok();
  EXPECT_EQ(take_told(), (texts{"granted one", "granted two", "settled one"}));
}

TEST_F(ZookeeperPermits, ANameOfAnotherKindIsAnErrorThatNamesBoth) {
  be_open();
  line->ask(at("a"), true, 12s, now);
  made("/conch/a/me.2-0000000002", ++zxid);
  take_sent();
  listed({"x~s1of2.1-0000000001", "me.2-0000000002"});
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me.2-0000000002"});
  EXPECT_EQ(take_told(), texts{}) << "not before its node is gone";
  ok();
  EXPECT_EQ(reason, errc::wrong_type);
  EXPECT_NE(reason.message().find("that of a semaphore, and a mutex was asked for"), std::string::npos)
      << reason.message();
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperPermits, ARemovalThatWasNotAnsweredIsWaitedForAtTheNextServer) {
  be_open();
  line->ask(at("a"), true, 12s, now);
  made("/conch/a/me.2-0000000002", ++zxid);
  listed({"x~s1of2.1-0000000001", "me.2-0000000002"});
  lose_connection();
  advance(1us);
  open(7, false);
  texts const asked = take_sent();
  ASSERT_GE(asked.size(), 2u);
  EXPECT_EQ((texts{asked.end() - 2, asked.end()}), (texts{"sync /conch/a", "list /conch/a"}))
      << "it may still show the node";
}

TEST_F(ZookeeperPermits, OneOfAnotherKindThatIsOnItsWayOutHarmsNobody) {
  be_open();
  ask(at("p", "a", permits(1, 2)), "a/me~s1of2.2-0000000003");
  listed({"x~s1of2.1-0000000001", "y.1-0000000002", "me~s1of2.2-0000000003"});
  EXPECT_EQ(take_told(), texts{"queued p"});
  happened(event::deleted, "/conch/a/y.1-0000000002");
  EXPECT_EQ(take_told(), texts{"pushed p"});
}

TEST_F(ZookeeperPermits, AfterAReconnectEachIsWatchedAgainOnce) {
  be_open();
  two_readers_behind_a_writer();
  all_three_listed();
  lose_connection();
  advance(1us);
  open(7, false);
  take_sent();
  take_told();
  all_three_listed();
  all_three_listed();
  EXPECT_EQ(take_sent(), (texts{"watch /conch/a/x~w.1-0000000001", "watch /conch/a/me~r.2-0000000002"}));
  happened(event::deleted, "/conch/a/x~w.1-0000000001");
  EXPECT_EQ(take_told(), (texts{"queued one", "queued two", "pushed one", "pushed two"}));
}

TEST_F(ZookeeperPermits, AHoldWhoseNodeSomebodyRemovesIsLostAndItsSiblingHasItsTurn) {
  be_open();
  line->ask(at("one", "a", writes), true, 2s, now);
  made("/conch/a/me~w.2-0000000002", ++zxid);
  listed({"me~w.2-0000000002"});
  ask(at("two", "a", writes), "a/me~w.3-0000000003");
  listed({"me~w.2-0000000002", "me~w.3-0000000003"});
  ok();
  at("one").renewable = true;
  engine::place* const one = &at("one");
  take_sent();
  take_told();
  now += 500ms;
  line->renew({&one, 1}, now);
  EXPECT_EQ(take_sent(), texts{}) << "its sibling watches it already";
  happened(event::deleted, "/conch/a/me~w.2-0000000002");
  texts const told_now = take_told();
  EXPECT_NE(std::find(told_now.begin(), told_now.end(), "lost one"), told_now.end());
  EXPECT_NE(std::find(told_now.begin(), told_now.end(), "pushed two"), told_now.end());
}

// ---- several places of one owner

permit of_owner(std::string owner) {
  return {.kind = permit_kind::reentrant, .limit = engine::most_permits, .weight = 1, .detail = std::move(owner)};
}

class ZookeeperOwner : public ZookeeperPermits {
 protected:
  engine::place& mine(std::string const& label) { return at(label, "a", of_owner("0a")); }
  /// "one" in line behind another owner.
  void stand_in_line() {
    ask(mine("one"), "a/me~e0a.2-0000000002");
    listed({"x~e0b.1-0000000001", "me~e0a.2-0000000002"});
    ok();
    take_sent();
    take_told();
  }
  void next_turn() { advance(1us); }
};

TEST_F(ZookeeperOwner, HasOneNodeHoweverManyOfItAsk) {
  be_open();
  line->ask(mine("one"), true, 12s, now);
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me~e0a.2-", "list /conch/a"}));
  line->ask(mine("two"), true, 12s, now);
  next_turn();
  EXPECT_EQ(take_sent(), texts{});
  made("/conch/a/me~e0a.2-0000000002", 9);
  listed({"me~e0a.2-0000000002"});
  EXPECT_EQ(take_told(), (texts{"granted one", "granted two"}));
  EXPECT_EQ(mine("two").fence, mine("one").fence);
  line->release(mine("one"), std::nullopt, nullptr, now);
  EXPECT_EQ(take_sent(), texts{}) << "the other has the node";
  EXPECT_EQ(take_told(), texts{"settled one"});
  engine::receipt r;
  line->release(mine("two"), std::nullopt, &r, now);
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me~e0a.2-0000000002"});
  ok();
  EXPECT_EQ(take_told(), (texts{"released", "settled two"}));
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperOwner, OfAnotherOwnerIsANodeOfItsOwn) {
  be_open();
  line->ask(mine("one"), true, 12s, now);
  line->ask(at("other", "a", of_owner("0b")), true, 12s, now);
  EXPECT_EQ(take_sent(), (texts{"create line /conch/a/me~e0a.2-", "list /conch/a", "create line /conch/a/me~e0b.3-",
                                "list /conch/a"}));
}

TEST_F(ZookeeperOwner, WhoAsksWhileItHoldsHasItInTheNextTurn) {
  be_open();
  ask(mine("one"), "a/me~e0a.2-0000000002");
  listed({"me~e0a.2-0000000002"});
  take_sent();
  take_told();
  line->ask(mine("two"), false, 12s, now);
  EXPECT_EQ(take_told(), texts{}) << "not within the call";
  next_turn();
  EXPECT_EQ(take_told(), texts{"granted two"});
  EXPECT_EQ(take_sent(), texts{});
}

TEST_F(ZookeeperOwner, TheOneThatStaysTakesThePlaceInLineOver) {
  be_open();
  stand_in_line();
  line->ask(mine("two"), true, 12s, now);
  next_turn();
  EXPECT_EQ(take_told(), texts{"queued two"});
  line->leave_unless_granted(mine("one"), now);
  EXPECT_EQ(take_told(), (texts{"left one", "settled one"}));
  EXPECT_EQ(take_sent(), texts{});
  happened(event::deleted, "/conch/a/x~e0b.1-0000000001");
  EXPECT_EQ(take_told(), texts{"pushed two"});
}

TEST_F(ZookeeperOwner, TakesOverWhatIsUnderWay) {
  be_open();
  line->ask(mine("one"), true, 12s, now);
  line->ask(mine("two"), true, 12s, now);
  line->give_up(mine("one"), nullptr, now);
  take_told();
  take_sent();
  made("/conch/a/me~e0a.2-0000000002", 9);
  listed({"me~e0a.2-0000000002"});
  EXPECT_EQ(take_told(), (texts{"granted two"}));
  EXPECT_EQ(take_sent(), texts{});
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperOwner, ARiderThatLeavesTakesNothingWithIt) {
  be_open();
  stand_in_line();
  line->ask(mine("two"), true, 12s, now);
  next_turn();
  take_told();
  line->give_up(mine("two"), nullptr, now);
  EXPECT_EQ(take_sent(), texts{});
  happened(event::deleted, "/conch/a/x~e0b.1-0000000001");
  EXPECT_EQ(take_told(), texts{"pushed one"});
}

TEST_F(ZookeeperOwner, ATryOfAnOwnerThatWaitsIsBusy) {
  be_open();
  stand_in_line();
  line->ask(mine("two"), false, 12s, now);
  next_turn();
  EXPECT_EQ(take_told(), texts{"busy two"});
  EXPECT_EQ(take_sent(), texts{});
}

TEST_F(ZookeeperOwner, ATryThatIsOverLeavesItsNodeToWhoWaits) {
  be_open();
  line->ask(mine("one"), false, 12s, now);
  line->ask(mine("two"), true, 12s, now);
  take_sent();
  made("/conch/a/me~e0a.2-0000000002", 9);
  listed({"x~e0b.1-0000000001", "me~e0a.2-0000000002"});
  EXPECT_EQ(take_told(), (texts{"busy one", "queued two", "settled one"}));
  EXPECT_EQ(take_sent(), texts{"watch /conch/a/x~e0b.1-0000000001"});
  ok();
  happened(event::deleted, "/conch/a/x~e0b.1-0000000001");
  EXPECT_EQ(take_told(), texts{"pushed two"});
}

TEST_F(ZookeeperOwner, AHoldWhoseNodeSomebodyRemovesIsLostForAllOfIt) {
  be_open();
  line->ask(mine("one"), true, 2s, now);
  line->ask(mine("two"), true, 2s, now);
  made("/conch/a/me~e0a.2-0000000002", 9);
  listed({"me~e0a.2-0000000002"});
  next_turn();
  mine("two").renewable = true;
  engine::place* const two = &mine("two");
  now += 500ms;
  line->renew({&two, 1}, now);
  take_told();
  happened(event::deleted, "/conch/a/me~e0a.2-0000000002");
  texts const all = take_told();
  EXPECT_NE(std::find(all.begin(), all.end(), "lost one"), all.end());
  EXPECT_NE(std::find(all.begin(), all.end(), "lost two"), all.end());
}

TEST_F(ZookeeperOwner, InANewSessionOneNodeIsAskedForAgain) {
  be_open();
  stand_in_line();
  line->ask(mine("two"), true, 12s, now);
  next_turn();
  lose_session();
  advance(1ms);
  take_sent();
  take_told();
  open(8);
  texts const asked = take_sent();
  EXPECT_EQ(std::count(asked.begin(), asked.end(), "list /conch/a"), 1);
  made("/conch/a/me~e0a.3-0000000009", 20);
  listed({"me~e0a.3-0000000009"});
  next_turn();
  EXPECT_EQ(take_told(), (texts{"granted one", "granted two"}));
}

TEST_F(ZookeeperOwner, OfAnotherClientIsRefused) {
  be_open();
  ask(mine("one"), "a/me~e0a.2-0000000002");
  line->ask(mine("two"), true, 12s, now);
  listed({"x~e0a.1-0000000001", "me~e0a.2-0000000002"});
  ok();
  EXPECT_EQ(reason, errc::not_supported);
  texts const all = take_told();
  for (std::string const one : {"failed one", "failed two"}) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](std::string const& t) { return t.starts_with(one); })) << one;
  }
  EXPECT_TRUE(line->settled());
}

TEST_F(ZookeeperOwner, WhoAskedWhileTheFirstWasLeavingHasWhatItIsGrantedAllTheSame) {
  be_open();
  stand_in_line();
  line->leave_unless_granted(mine("one"), now);
  line->ask(mine("two"), true, 12s, now);
  EXPECT_EQ(take_sent(), (texts{"list /conch/a", "create line /conch/a/me~e0a.3-", "list /conch/a"}));
  listed({"me~e0a.2-0000000002"});  // the one ahead is gone
  EXPECT_EQ(take_told(), (texts{"granted one", "granted two"}));
  made("/conch/a/me~e0a.3-0000000003", 9);
  EXPECT_EQ(take_sent(), texts{"remove /conch/a/me~e0a.3-0000000003"});
}

TEST_F(ZookeeperPermits, OffersAllButSegmentsAndAllThatIsFree) {
  make();
  engine::capabilities const offered = line->offers();
  for (permit const& p :
       {permit{}, reads, writes, permits(2, 3), permit{.kind = permit_kind::reentrant, .limit = 1, .weight = 1}}) {
    EXPECT_TRUE(offered.has(p)) << static_cast<char>(p.kind);
  }
  EXPECT_FALSE(offered.has({.kind = permit_kind::segments, .limit = 3, .weight = 1}));
  EXPECT_FALSE(offered.has({.kind = permit_kind::semaphore, .limit = 3, .all_free = true}));
  EXPECT_FALSE(offered.inspection);
  EXPECT_FALSE(offered.instead.empty());
}

}  // namespace
}  // namespace conch::zookeeper
