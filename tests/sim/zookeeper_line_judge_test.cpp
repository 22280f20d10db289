// The judge of a line in ZooKeeper, with each of its rules broken once by hand: one that does not notice would be worth
// nothing.
#include "sim/judges/zookeeper_line_judge.hpp"
#include "sim/judges/observer.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace conch::sim {
namespace {

using engine::permit_kind;

constexpr std::int64_t hand_offs = 4096;
constexpr nanos patience = 100 * millisecond, never = INT64_MAX / 4;

zookeeper_share some(std::uint32_t weight, std::uint32_t limit) { return {permit_kind::semaphore, weight, limit}; }
zookeeper_share reader() { return {permit_kind::shared, 1, engine::most_permits}; }
zookeeper_share writer() { return {permit_kind::shared, engine::most_permits, engine::most_permits}; }
zookeeper_share of_owner(std::string name) { return {permit_kind::reentrant, 1, 1, std::move(name)}; }

// A folder, and what its clients believe. The node of the transaction 7 is "n7".
class ZookeeperLineJudge : public testing::Test {
 protected:
  struct broken {
    int promise = 0;
    std::string words = {};
  };
  template <class F>
  static broken of(F const& what) {
    try {
      what();
    } catch (violation const& v) {
      return {v.promise, v.what()};
    }
    return {};
  }
  static std::string node(std::int64_t created) { return "n" + std::to_string(created); }

  void stands(std::string client, std::int64_t created, zookeeper_share share, std::int64_t session = 1) {
    judge.made(
        {node(created), std::move(client), static_cast<std::uint64_t>(created), std::move(share), session, created},
        now);
  }
  void goes(std::int64_t created) { judge.gone(node(created), false, now); }
  zookeeper_line_hold hold(std::string client, std::int64_t created, zookeeper_share share) const {
    return {std::move(client), std::move(share), node(created), (birth + created) * hand_offs, asked_at};
  }
  broken granted(zookeeper_line_hold const& h) {
    broken const found = of([&] { judge.granted(h, believed, earlier, 0, patience, now); });
    if (found.promise == 0) believed.push_back(h);
    return found;
  }
  int grant(std::string client, std::int64_t created, zookeeper_share share) {
    return granted(hold(std::move(client), created, std::move(share))).promise;
  }
  /// It was granted, its node is gone, and it does not know.
  void still_believes(std::string const& client, std::int64_t created, zookeeper_share const& share) {
    stands(client, created, share);
    EXPECT_EQ(grant(client, created, share), 0);
    goes(created);
  }

  zookeeper_line_judge judge{"lock"};
  std::vector<zookeeper_line_hold> believed, earlier;
  nanos now = 0, asked_at = 0;
  std::int64_t birth = 5000;
};

// ---------------------------------------------------------------------------------------------- what is as it should
// be

TEST_F(ZookeeperLineJudge, LetsASemaphoreBeGivenOutUpToItsLimit) {
  stands("a", 1, some(2, 3));
  stands("b", 2, some(1, 3));
  EXPECT_EQ(grant("a", 1, some(2, 3)), 0);
  EXPECT_EQ(grant("b", 2, some(1, 3)), 0);
}

TEST_F(ZookeeperLineJudge, LetsReadersStandTogetherAndAWriterAlone) {
  stands("a", 1, reader());
  stands("b", 2, reader());
  stands("c", 3, writer());
  stands("a", 4, reader());
  EXPECT_EQ(grant("b", 2, reader()), 0);
  EXPECT_EQ(grant("a", 1, reader()), 0);
  goes(1);
  goes(2);
  believed.clear();
  EXPECT_EQ(grant("c", 3, writer()), 0);
  goes(3);
  believed.clear();
  EXPECT_EQ(grant("a", 4, reader()), 0);
}

TEST_F(ZookeeperLineJudge, LetsMoreThanTheLimitBeAllOfIt) {
  stands("a", 1, some(7, 3));
  EXPECT_EQ(grant("a", 1, some(7, 3)), 0);
}

TEST_F(ZookeeperLineJudge, LetsAnOwnerHaveItsNodeTwice) {
  stands("a", 1, of_owner("x"));
  EXPECT_EQ(grant("a", 1, of_owner("x")), 0);
  EXPECT_EQ(grant("a", 1, of_owner("x")), 0);
}

TEST_F(ZookeeperLineJudge, LetsALocalHandOffHaveTheNodeOfTheOneBefore) {
  stands("a", 1, {});
  zookeeper_line_hold h = hold("a", 1, {});
  EXPECT_EQ(granted(h).promise, 0);
  believed.clear();
  ++h.token;
  EXPECT_EQ(granted(h).promise, 0);
}

TEST_F(ZookeeperLineJudge, LetsAnAcquireBeRefusedThatStandsBehindAnotherKind) {
  stands("a", 1, some(1, 1));
  stands("b", 2, {});
  EXPECT_EQ(of([&] { judge.told_of_another_kind(hold("b", 2, {}), 0); }).promise, 0);
  goes(1);
  asked_at = 5;
  EXPECT_EQ(of([&] { judge.told_of_another_kind(hold("b", 2, {}), 10); }).promise, 0);
}

TEST_F(ZookeeperLineJudge, LetsAnOwnerBeRefusedThatAnotherClientHas) {
  stands("a", 1, of_owner("x"));
  stands("b", 2, of_owner("x"));
  EXPECT_EQ(of([&] { judge.told_of_another_client(hold("b", 2, of_owner("x")), 0); }).promise, 0);
}

TEST_F(ZookeeperLineJudge, ReadsTheNamesOfNodes) {
  EXPECT_EQ(read_line_node("c0ffee.17-0000000042").share, zookeeper_share{});
  EXPECT_EQ(read_line_node("c0ffee~s3of10.17--2147483648").share, some(3, 10));
  EXPECT_EQ(read_line_node("c0ffee~r.17-0000000042").share, reader());
  EXPECT_EQ(read_line_node("c0ffee~w.17-0000000042").share, writer());
  EXPECT_EQ(read_line_node("c0ffee~e6162.17-0000000042").share, of_owner("6162"));
  EXPECT_EQ(read_line_node("c0ffee~e6162.17-0000000042").client, "c0ffee");
  EXPECT_EQ(read_line_node("c0ffee~e6162.17-0000000042").number, 17u);
  EXPECT_TRUE(read_line_node("c0ffee.17-2147483646").has_place);
  EXPECT_FALSE(read_line_node("c0ffee.17-2147483647").has_place);
  EXPECT_FALSE(read_line_node("c0ffee.17--2147483648").has_place);
}

TEST_F(ZookeeperLineJudge, LetsAnAcquireBeRefusedWhoseNodeHasNoPlace) {
  judge.made(read_line_node("b.2-2147483647"), 0);
  EXPECT_EQ(of([&] { judge.told_of_no_place(hold("b", 2, {}), 0); }).promise, 0);
}

// --------------------------------------------------------------------------------------------- each rule, broken by
// hand

TEST_F(ZookeeperLineJudge, NoticesNamesThatSayNothing) {
  for (char const* name :
       {"c0ffee", "c0ffee.x-1", "c0ffee.17", "c0ffee~.17-1", "c0ffee~s3.17-1", "c0ffee~q.17-1", "c0ffee~sof10.17-1"})
    EXPECT_EQ(of([&] { read_line_node(name); }).promise, 10) << name;
}

TEST_F(ZookeeperLineJudge, NoticesMoreThanTheLimitInWhatIsBelieved) {
  stands("a", 1, some(2, 3));
  stands("b", 2, some(1, 3));
  EXPECT_EQ(grant("a", 1, some(2, 3)), 0);
  EXPECT_EQ(grant("b", 2, some(1, 3)), 0);
  goes(1);  // the former holder still believes in it
  stands("c", 3, some(1, 3));
  EXPECT_EQ(grant("c", 3, some(1, 3)), 1);
}

TEST_F(ZookeeperLineJudge, NoticesMoreThanTheLeastLimitThatIsBelieved) {
  still_believes("a", 1, some(2, 9));
  stands("b", 2, some(1, 2));
  EXPECT_EQ(grant("b", 2, some(1, 2)), 1);
}

TEST_F(ZookeeperLineJudge, NoticesAWriterBesideAReader) {
  still_believes("a", 1, reader());
  stands("b", 2, writer());
  EXPECT_EQ(grant("b", 2, writer()), 1);
}

TEST_F(ZookeeperLineJudge, NoticesAReaderBesideAWriter) {
  still_believes("a", 1, writer());
  stands("b", 2, reader());
  EXPECT_EQ(grant("b", 2, reader()), 1);
}

TEST_F(ZookeeperLineJudge, NoticesTwoOwners) {
  still_believes("a", 1, of_owner("x"));
  stands("a", 2, of_owner("y"));
  EXPECT_EQ(grant("a", 2, of_owner("y")), 1);
}

TEST_F(ZookeeperLineJudge, NoticesAnOwnerInTwoClients) {
  still_believes("a", 1, of_owner("x"));
  stands("b", 2, of_owner("x"));
  EXPECT_EQ(grant("b", 2, of_owner("x")), 1);
}

TEST_F(ZookeeperLineJudge, NoticesAnOwnerWithTwoNodes) {
  still_believes("a", 1, of_owner("x"));
  stands("a", 2, of_owner("x"));
  EXPECT_EQ(grant("a", 2, of_owner("x")), 1);
}

TEST_F(ZookeeperLineJudge, NoticesTwoKindsAtOnce) {
  still_believes("a", 1, some(1, 3));
  stands("b", 2, reader());
  EXPECT_EQ(grant("b", 2, reader()), 1);
}

TEST_F(ZookeeperLineJudge, NoticesAGrantBehindAnotherKind) {
  stands("a", 1, reader());
  stands("b", 2, some(1, 3));
  EXPECT_EQ(grant("b", 2, some(1, 3)), 1);
}

TEST_F(ZookeeperLineJudge, NoticesTwoHoldsOfOneNodeThatAreOfNoOwner) {
  stands("a", 1, some(1, 3));
  EXPECT_EQ(grant("a", 1, some(1, 3)), 0);
  EXPECT_EQ(grant("a", 1, some(1, 3)), 1);
}

TEST_F(ZookeeperLineJudge, NoticesAGrantWithoutANode) {
  EXPECT_EQ(grant("a", 1, some(1, 3)), 1);
  stands("a", 2, some(1, 3), 77);
  judge.session_over(77, now);
  EXPECT_EQ(grant("a", 2, some(1, 3)), 1);
}

TEST_F(ZookeeperLineJudge, NoticesAGrantWithoutAPlace) {
  judge.made(read_line_node("a.1-2147483647"), now);
  zookeeper_line_hold h = hold("a", 1, {});
  h.node = "a.1-2147483647";
  EXPECT_EQ(granted(h).promise, 1);
}

TEST_F(ZookeeperLineJudge, NoticesTheNodeOfAnother) {
  stands("a", 1, reader());
  EXPECT_EQ(grant("b", 1, reader()), 7);
}

TEST_F(ZookeeperLineJudge, NoticesANodeThatSaysSomethingElse) {
  stands("a", 1, some(1, 3));
  EXPECT_EQ(grant("a", 1, some(2, 3)), 7);
}

TEST_F(ZookeeperLineJudge, NoticesWhoeverIsGrantedItBehindOneThatWaits) {
  stands("a", 1, some(2, 3));
  stands("b", 2, some(2, 3));
  stands("c", 3, some(1, 3));  // it would fit beside a, and b has asked before it
  EXPECT_EQ(grant("a", 1, some(2, 3)), 0);
  EXPECT_EQ(grant("c", 3, some(1, 3)), 5);
}

TEST_F(ZookeeperLineJudge, NoticesAReaderThatOvertakesAWriter) {
  stands("a", 1, reader());
  stands("b", 2, writer());
  stands("c", 3, reader());
  EXPECT_EQ(grant("a", 1, reader()), 0);
  EXPECT_EQ(grant("c", 3, reader()), 5);
}

TEST_F(ZookeeperLineJudge, NoticesALimitOfAnotherThatIsOverlooked) {
  stands("a", 1, some(1, 1));
  stands("b", 2, some(1, 9));
  EXPECT_EQ(grant("b", 2, some(1, 9)), 5);
}

TEST_F(ZookeeperLineJudge, NoticesWhoeverOvertakesAnotherOfItsClient) {
  stands("a", 1, some(1, 3));
  stands("a", 2, some(1, 3));
  earlier = {hold("a", 2, some(1, 3))};
  EXPECT_EQ(grant("a", 1, some(1, 3)), 5);
  earlier = {hold("a", 9, some(1, 3))};  // which stands nowhere
  EXPECT_EQ(grant("a", 1, some(1, 3)), 5);
  earlier = {hold("a", 1, some(1, 3))};
  EXPECT_EQ(grant("a", 2, some(1, 3)), 0);
}

TEST_F(ZookeeperLineJudge, NoticesATokenOfAnotherNode) {
  stands("a", 1, reader());
  stands("b", 2, reader());
  EXPECT_EQ(grant("a", 1, reader()), 0);
  zookeeper_line_hold h = hold("b", 2, reader());
  h.token = hold("a", 1, reader()).token;
  EXPECT_EQ(granted(h).promise, 2);
}

TEST_F(ZookeeperLineJudge, NoticesAWritersTokenThatIsLessThanTheOneOfAReaderBefore) {
  stands("a", 9, reader());
  EXPECT_EQ(grant("a", 9, reader()), 0);
  believed.clear();
  goes(9);
  stands("b", 8, writer());
  EXPECT_EQ(grant("b", 8, writer()), 2);
}

TEST_F(ZookeeperLineJudge, NoticesAReadersTokenThatIsLessThanTheOneOfTheWriterBefore) {
  stands("a", 9, writer());
  EXPECT_EQ(grant("a", 9, writer()), 0);
  believed.clear();
  goes(9);
  stands("b", 8, reader());
  EXPECT_EQ(grant("b", 8, reader()), 2);
}

TEST_F(ZookeeperLineJudge, LetsANewEnsembleCountAnewWithALaterBirth) {
  stands("a", 7, {});
  EXPECT_EQ(grant("a", 7, {}), 0);
  believed.clear();
  judge.built_anew(now);
  birth += 10;
  stands("b", 1, {}, 2);
  EXPECT_EQ(grant("b", 1, {}), 0);
}

TEST_F(ZookeeperLineJudge, NoticesTheBirthOfTheEnsembleBefore) {
  stands("a", 7, {});
  EXPECT_EQ(grant("a", 7, {}), 0);
  believed.clear();
  judge.built_anew(now);
  stands("b", 1, {}, 2);
  EXPECT_EQ(grant("b", 1, {}), 2);
}

TEST_F(ZookeeperLineJudge, NoticesAHoldOfTheEnsembleBefore) {
  stands("a", 7, {});
  judge.built_anew(now);
  EXPECT_EQ(grant("a", 7, {}), 1);
}

TEST_F(ZookeeperLineJudge, DoesNotMindTheOrderOfTokensOfReaders) {
  stands("a", 1, reader());
  stands("b", 2, reader());
  EXPECT_EQ(grant("b", 2, reader()), 0);
  EXPECT_EQ(grant("a", 1, reader()), 0);
}

TEST_F(ZookeeperLineJudge, NoticesALocalHandOffWithTheSameToken) {
  stands("a", 1, {});
  EXPECT_EQ(grant("a", 1, {}), 0);
  believed.clear();
  EXPECT_EQ(grant("a", 1, {}), 2);
}

TEST_F(ZookeeperLineJudge, NoticesAGrantThatComesLate) {
  stands("a", 1, reader());
  now = patience + 1;
  EXPECT_EQ(grant("a", 1, reader()), 4);
}

TEST_F(ZookeeperLineJudge, NoticesAWaiterThatCouldHaveIt) {
  stands("a", 1, writer());
  stands("b", 2, reader());
  now = never / 2;
  auto const waits = [&] { return of([&] { judge.waits(hold("b", 2, reader()), 0, patience, now); }).promise; };
  EXPECT_EQ(waits(), 0);  // behind a writer, for any time
  goes(1);
  now += patience;
  EXPECT_EQ(waits(), 0);
  ++now;
  EXPECT_EQ(waits(), 4);
  asked_at = now;  // a second one of its owner, which has asked only now
  EXPECT_EQ(waits(), 0);
}

TEST_F(ZookeeperLineJudge, NoticesAWaiterThatIsNotToldOfAnotherKind) {
  stands("a", 1, writer());
  stands("b", 2, {});
  now = patience + 1;
  EXPECT_EQ(of([&] { judge.waits(hold("b", 2, {}), 0, patience, now); }).promise, 4);
}

TEST_F(ZookeeperLineJudge, NoticesAWaiterThatIsNotToldOfItsOwnerElsewhere) {
  stands("a", 1, of_owner("x"));
  stands("b", 2, of_owner("x"));
  now = patience + 1;
  EXPECT_EQ(of([&] { judge.waits(hold("b", 2, of_owner("x")), 0, patience, now); }).promise, 4);
}

TEST_F(ZookeeperLineJudge, NoticesAKindThatWasMadeUp) {
  stands("a", 1, {});
  stands("b", 2, {});
  EXPECT_EQ(of([&] { judge.told_of_another_kind(hold("b", 2, {}), never); }).promise, 11);
}

TEST_F(ZookeeperLineJudge, NoticesAKindThatWasGoneForLong) {
  stands("a", 1, some(1, 1));
  goes(1);
  asked_at = 20;
  stands("b", 2, {});
  EXPECT_EQ(of([&] { judge.told_of_another_kind(hold("b", 2, {}), 10); }).promise, 11);
}

TEST_F(ZookeeperLineJudge, NoticesAnOwnerElsewhereThatWasMadeUp) {
  stands("a", 1, of_owner("y"));
  stands("b", 2, of_owner("x"));
  EXPECT_EQ(of([&] { judge.told_of_another_client(hold("b", 2, of_owner("x")), never); }).promise, 11);
}

TEST_F(ZookeeperLineJudge, NoticesAWantOfPlaceThatWasMadeUp) {
  judge.made(read_line_node("a.1-2147483647"), now);
  stands("b", 2, {});
  EXPECT_EQ(of([&] { judge.told_of_no_place(hold("b", 2, {}), never); }).promise, 11);
}

TEST_F(ZookeeperLineJudge, NoticesANodeThatIsRemovedAndWanted) {
  stands("a", 1, reader());
  EXPECT_EQ(of([&] { judge.gone(node(1), true, now); }).promise, 4);
}

// ------------------------------------------------------------------------------------------------- minimum intervals

class ZookeeperLineJudgeOfIntervals : public ZookeeperLineJudge {
 protected:
  static constexpr std::int64_t interval = 100;

  zookeeper_line_keep keep_of_a() const { return {"a", 1, interval, 1000}; }
  int grant_at(std::string client, std::int64_t created, std::int64_t at_least, std::int64_t clock_ms) {
    zookeeper_line_hold h = hold(std::move(client), created, {});
    h.at_least_ms = at_least;
    h.clock_ms = clock_ms;
    return granted(h).promise;
  }
  /// It was granted and has been given back.
  void had_it() {
    stands("a", 1, {});
    judge.kept(keep_of_a(), now);
    EXPECT_EQ(grant_at("a", 1, interval, 1010), 0);
    goes(1);
    believed.clear();
    stands("b", 2, {});
  }
};

TEST_F(ZookeeperLineJudgeOfIntervals, ReadsTheNamesOfNodes) {
  EXPECT_TRUE(keeps_a_lock("a~k1500c9.17-0000000042"));
  EXPECT_FALSE(keeps_a_lock("a~i1500.17-0000000042"));
  EXPECT_EQ(read_line_node("a~i1500.17-0000000042").share, zookeeper_share{});
  zookeeper_line_keep const k = read_line_keep("a~k1500c9.17-0000000042");
  EXPECT_EQ(k.client, "a");
  EXPECT_EQ(k.number, 17u);
  EXPECT_EQ(k.interval_ms, 1500);
}

TEST_F(ZookeeperLineJudgeOfIntervals, LetsTheNextHaveItWhenOneIsOver) {
  had_it();
  judge.kept_no_more(keep_of_a());
  EXPECT_EQ(grant_at("b", 2, 0, 1100), 0);
}

TEST_F(ZookeeperLineJudgeOfIntervals, NoticesAGrantThatIsTooEarly) {
  had_it();
  judge.kept_no_more(keep_of_a());
  EXPECT_EQ(grant_at("b", 2, 0, 1099), 14);
}

TEST_F(ZookeeperLineJudgeOfIntervals, NoticesALocalHandOffThatIsTooEarly) {
  stands("a", 1, {});
  judge.kept(keep_of_a(), now);
  EXPECT_EQ(grant_at("a", 1, interval, 1010), 0);
  believed.clear();
  zookeeper_line_hold next = hold("a", 1, {});
  ++next.token;
  next.clock_ms = 1099;
  EXPECT_EQ(granted(next).promise, 14);
}

TEST_F(ZookeeperLineJudgeOfIntervals, NoticesAGrantWhileTheNodeStands) {
  had_it();
  EXPECT_EQ(grant_at("b", 2, 0, 1100), 14);
}

TEST_F(ZookeeperLineJudgeOfIntervals, NoticesAGrantThatNothingKeeps) {
  stands("a", 1, {});
  EXPECT_EQ(grant_at("a", 1, interval, 1010), 14);
}

TEST_F(ZookeeperLineJudgeOfIntervals, NoticesOneThatKeepsItForTooShort) {
  stands("a", 1, {});
  judge.kept(keep_of_a(), now);
  EXPECT_EQ(grant_at("a", 1, interval + 1, 1010), 14);
}

TEST_F(ZookeeperLineJudgeOfIntervals, NoticesANodeThatStaysAndAWaiterThatIsForgottenAfterIt) {
  had_it();
  now = judge.kept_until() + patience;
  EXPECT_EQ(of([&] { judge.waits(hold("b", 2, {}), 0, patience, now); }).promise, 0);
  EXPECT_EQ(of([&] { judge.keeps_nothing("a", patience, now); }).promise, 0);
  ++now;
  EXPECT_EQ(of([&] { judge.waits(hold("b", 2, {}), 0, patience, now); }).promise, 4);
  EXPECT_EQ(of([&] { judge.keeps_nothing("a", patience, now); }).promise, 6);
  EXPECT_EQ(of([&] { judge.keeps_nothing("b", patience, now); }).promise, 0);
}

}  // namespace
}  // namespace conch::sim
