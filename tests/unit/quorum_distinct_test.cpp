// Which members of a quorum are one server, and what becomes of their votes?

#include "quorum/distinct.hpp"
#include "unit/quorum_fixture.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace conch::quorum::test {
namespace {

std::string const run_a(40, 'a'), run_1 = "a1" + run_a, run_2 = "a2" + run_a;

struct pair_of_identities {
  char const* name;
  identity a, b;
  bool same;
};

pair_of_identities const identities[] = {
    {"two names of one address", {run_1, "127.0.0.1:6379"}, {run_1, "127.0.0.1:6379"}, true},
    {"two addresses, or a proxy, and one run", {run_1, "127.0.0.1:6379"}, {run_1, "10.0.0.1:7000"}, true},
    {"a socket and a port, and one run", {run_1, "/run/redis.sock"}, {run_1, "127.0.0.1:6379"}, true},
    {"two servers", {run_1, "10.0.0.1:6379"}, {run_2, "10.0.0.2:6379"}, false},
    {"two servers behind one address, told apart by the name in the TLS handshake",
     {run_1, "10.0.0.1:443"},
     {run_2, "10.0.0.1:443"},
     false},
    {"no run is told, one address", {"", "10.0.0.1:6379"}, {"", "10.0.0.1:6379"}, true},
    {"no run is told, two addresses", {"", "10.0.0.1:6379"}, {"", "10.0.0.2:6379"}, false},
    {"one user may not ask for the run, one address", {run_1, "10.0.0.1:6379"}, {"", "10.0.0.1:6379"}, true},
    {"one user may not ask for the run, two addresses", {run_1, "10.0.0.1:6379"}, {"", "10.0.0.2:6379"}, false},
    {"a run of one digit is none",
     {std::string(40, '0'), "10.0.0.1:6379"},
     {std::string(40, '0'), "10.0.0.2:6379"},
     false},
    {"a short run is none", {"1", "10.0.0.1:6379"}, {"1", "10.0.0.2:6379"}, false},
    {"nothing is known", {}, {}, false},
};

TEST(QuorumDistinct, TheRunDecidesAndWithoutOneTheAddress) {
  for (auto const& [name, a, b, same] : identities) {
    EXPECT_EQ(is_same_server(a, b), same) << name;
    EXPECT_EQ(is_same_server(b, a), same) << name << ", the other way round";
  }
}

TEST(QuorumDistinct, TheMemberThatIsConnectedAlreadyHasTheVote) {
  distinct_servers all;
  EXPECT_FALSE(all.are_one(0, 1)) << "nobody knows them yet";
  all.met(1, {run_1, "a"});
  EXPECT_FALSE(all.any());
  all.met(0, {run_1, "b"});
  EXPECT_TRUE(all.any() && all.are_one(0, 1) && all.are_one(1, 0));
  EXPECT_FALSE(all.spoken_for_by(1));
  EXPECT_EQ(all.spoken_for_by(0), 1u) << "a server that pretends to be another one does not take its vote";
  all.gone(1);
  EXPECT_FALSE(all.spoken_for_by(0)) << "it is the only way to that server now";
  EXPECT_TRUE(all.are_one(0, 1)) << "the votes that the other one has had are still there";
}

TEST(QuorumDistinct, AfterARestartTheyAreStillOne) {
  distinct_servers all;
  all.met(0, {run_1, "a"});
  all.met(1, {run_1, "b"});
  all.gone(0);
  all.gone(1);
  all.met(1, {run_2, "b"});
  EXPECT_TRUE(all.are_one(0, 1)) << "the other one has not been met in the new run yet";
  all.met(0, {run_2, "a"});
  EXPECT_TRUE(all.are_one(0, 1));
  EXPECT_EQ(all.spoken_for_by(0), 1u);
}

TEST(QuorumDistinct, AfterARestartTheyAreStillOneWhileTheEndOfAConnectionIsNotNoticed) {
  distinct_servers all;
  all.met(0, {run_1, "a"});
  all.met(1, {run_1, "a"});
  all.gone(0);
  all.met(0, {run_2, "a"});
  EXPECT_TRUE(all.are_one(0, 1)) << "the connection of the other one is of the run before, and not known to have ended";
  EXPECT_EQ(all.spoken_for_by(0), 1u);
  all.gone(1);
  EXPECT_FALSE(all.spoken_for_by(0));
  all.met(1, {run_2, "a"});
  EXPECT_EQ(all.spoken_for_by(1), 0u);
}

TEST(QuorumDistinct, OneAddressOfTwoServersIsKnownForTwoOnceBothHaveConnectedAgain) {
  distinct_servers all;
  all.met(0, {run_1, "a"});
  all.met(1, {run_1, "a"});
  all.gone(0);
  all.met(0, {run_2, "a"});
  all.gone(1);
  all.met(1, {run_1, "a"});
  EXPECT_FALSE(all.any());
}

TEST(QuorumDistinct, ANameThatMovesToAServerOfItsOwnGetsItsVoteBack) {
  distinct_servers all;
  all.met(0, {run_1, "a"});
  all.met(1, {run_1, "a"});
  all.gone(1);
  all.met(1, {run_2, "b"});
  EXPECT_FALSE(all.any());
  EXPECT_FALSE(all.spoken_for_by(1));
  all.gone(1);
  all.met(1, {run_1, "a"});
  EXPECT_EQ(all.spoken_for_by(1), 0u) << "and back again";
}

TEST(QuorumDistinct, OfSeveralOneSpeaksForAll) {
  distinct_servers all;
  for (std::size_t i : {2u, 0u, 1u}) all.met(i, {run_1, "a"});
  EXPECT_FALSE(all.spoken_for_by(2));
  EXPECT_EQ(all.spoken_for_by(0), 2u);
  EXPECT_EQ(all.spoken_for_by(1), 2u);
  all.gone(2);
  EXPECT_FALSE(all.spoken_for_by(0));
  EXPECT_EQ(all.spoken_for_by(1), 0u);
}

// ---------------------------------------------------------------------------------------------------- of locks

/// Members that are met again, each at the server of that number. What they have asked is forgotten with their old
/// connection.
class QuorumDoubles : public ::testing::Test {
 protected:
  void meet(world& w, std::vector<int> const& server_of) {
    for (std::size_t i = 0; i < server_of.size(); ++i) {
      w.servers[i]->receiver().disconnected("cut", w.now);
      w.wires[i]->unanswered.clear();
    }
    for (std::size_t i = 0; i < server_of.size(); ++i) meet_one(w, i, server_of[i]);
  }
  void meet_one(world& w, std::size_t i, int server) {
    protocol::session s{1, "here", w.server_us(i), w.now, std::to_string(server) + run_a, 100h};
    s.server_address = "10.0.0." + std::to_string(i);
    w.servers[i]->receiver().connected_as(s, w.now);
    while (!w.wires[i]->unanswered.empty() && w.wires[i]->unanswered.front().what == "other")
      w.answer(i, {1, 0, w.server_us(i)});
    w.wires[i]->all.clear();
  }
};

TEST_F(QuorumDoubles, ATwinIsNotAskedAndTheOthersDecide) {
  world w{3};
  meet(w, {1, 1, 2});
  w.ask();
  EXPECT_EQ(w.wires[1]->count("acquire"), 0u);
  w.yes(0);
  EXPECT_TRUE(w.events.empty()) << "one server of three";
  w.yes(2);
  EXPECT_EQ(w.events, std::vector<std::string>{"granted"});
}

TEST_F(QuorumDoubles, WithoutAMajorityOfServersWaitersAndTriesEndWithTheReason) {
  for (bool const once : {true, false}) {
    world w{3};
    meet(w, {1, 1, 1});
    w.ask(once);
    if (w.events.empty()) w.yes(0);
    ASSERT_EQ(w.events, std::vector<std::string>{"failed"}) << once;
    EXPECT_EQ(w.why, errc::unreachable);
    EXPECT_NE(w.why.message().find("server 1 is the same server as server 0"), std::string::npos) << w.why.message();
    EXPECT_NE(w.why.message().find("server 2 is the same server as server 0"), std::string::npos) << w.why.message();
  }
}

TEST_F(QuorumDoubles, ATwinAndAServerThatIsAwayAreBothNamed) {
  world w{3};
  meet(w, {1, 1, 2});
  w.servers[2]->receiver().disconnected("cut", w.now);
  w.servers[2]->receiver().connect_failed(protocol::fault::try_later, "server 2: connection refused", w.now);
  w.ask(true);
  w.yes(0);
  w.advance(w.settings.offline_timeout + 1s);
  ASSERT_EQ(w.events, std::vector<std::string>{"failed"});
  EXPECT_NE(w.why.message().find("connection refused"), std::string::npos) << w.why.message();
  EXPECT_NE(w.why.message().find("server 1 is the same server as server 0"), std::string::npos) << w.why.message();
}

TEST_F(QuorumDoubles, TheLogSaysItOnceUntilItIsNoLongerTrue) {
  world w{3};
  meet(w, {1, 1, 2});
  EXPECT_EQ(w.notes_with("is the same server as"), 1u);
  w.servers[1]->receiver().disconnected("cut", w.now);
  meet_one(w, 1, 1);
  EXPECT_EQ(w.notes_with("is the same server as"), 1u);
  for (int const server : {3, 1}) {
    w.servers[1]->receiver().disconnected("cut", w.now);
    meet_one(w, 1, server);
  }
  EXPECT_EQ(w.notes_with("is the same server as"), 2u);
}

TEST_F(QuorumDoubles, AnotherNameTakesOverTheVoteOfOneThatIsCutOff) {
  world w{3};
  meet(w, {1, 1, 2});
  w.servers[0]->receiver().disconnected("cut", w.now);
  w.ask();
  EXPECT_EQ(w.wires[1]->count("acquire"), 1u);
  w.yes(1);
  w.yes(2);
  EXPECT_EQ(w.events, std::vector<std::string>{"granted"});
}

TEST_F(QuorumDoubles, ANameThatMovesToAServerOfItsOwnIsAskedByThoseWhoWaitAlready) {
  world w{3};
  meet(w, {1, 1, 2});
  w.ask();
  w.in_line(0, 5, 7, true);
  w.in_line(2, 5, 7, true);
  w.servers[1]->receiver().disconnected("cut", w.now);
  meet_one(w, 1, 3);
  w.advance(1ms);
  auto const& asked = w.wires[1]->unanswered;
  EXPECT_TRUE(std::any_of(asked.begin(), asked.end(), [](auto const& one) { return one.what == "acquire"; }));
}

/// Its place is asked for again by the connection that shows which server it is.
TEST_F(QuorumDoubles, WhoProvesToBeATwinLeavesTheLineThere) {
  world w{3};
  meet(w, {1, 2, 3});
  w.ask();
  w.in_line(1, 5, 7, true);
  w.servers[1]->receiver().disconnected("cut", w.now);
  w.wires[1]->unanswered.clear();
  meet_one(w, 1, 1);
  auto const& asked = w.wires[1]->unanswered;
  EXPECT_TRUE(std::any_of(asked.begin(), asked.end(), [](auto const& one) { return one.what == "release"; }));
}

/// The votes of two names of one server, which were given before they proved to be one.
TEST_F(QuorumDoubles, TwoVotesOfOneServerDoNotWin) {
  world w{3};
  meet(w, {1, 2, 3});
  w.servers[2]->receiver().disconnected("cut", w.now);
  w.ask();
  w.yes(0);
  w.servers[1]->receiver().disconnected("cut", w.now);
  w.wires[1]->unanswered.clear();
  meet_one(w, 1, 2);
  w.servers[0]->receiver().disconnected("cut", w.now);
  meet_one(w, 0, 2);
  ASSERT_TRUE(w.events.empty());
  while (!w.wires[1]->unanswered.empty()) w.yes(1);
  EXPECT_TRUE(w.events.empty()) << "two votes in hand, of one server";
}

TEST_F(QuorumDoubles, AHoldOfTwoVotesThatProveToBeOneIsLost) {
  world w{3};
  meet(w, {1, 2, 3});
  w.ask();
  w.yes(0);
  w.yes(1);
  ASSERT_EQ(w.events, std::vector<std::string>{"granted"});
  w.busy(2);
  w.servers[1]->receiver().disconnected("cut", w.now);
  w.wires[1]->unanswered.clear();
  meet_one(w, 1, 1);
  EXPECT_EQ(w.events, (std::vector<std::string>{"granted", "lost"}));
}

/// Every way to be fewer servers than members: a majority of members must be won at different servers, so any two
/// grants share a server.
TEST_F(QuorumDoubles, P1NoGrantRestsOnFewerServersThanAMajorityNeeds) {
  for (std::size_t const n : {3u, 4u, 5u}) {
    std::size_t ways = 1;
    for (std::size_t i = 0; i < n; ++i) ways *= n;
    for (std::size_t way = 0; way < ways; ++way) {
      std::vector<int> of;
      for (std::size_t i = 0, rest = way; i < n; ++i, rest /= n) of.push_back(static_cast<int>(rest % n) + 1);
      world w{n};
      meet(w, of);
      w.ask();
      std::set<int> given;
      for (std::size_t i = 0; i < n; ++i) {
        if (w.wires[i]->count("acquire") == 0 || !w.events.empty()) continue;
        EXPECT_TRUE(given.insert(of[i]).second) << "a server is asked twice";
        w.yes(i);
      }
      bool const enough = std::set<int>(of.begin(), of.end()).size() >= majority_of(n);
      ASSERT_EQ(w.events, std::vector<std::string>{enough ? "granted" : "failed"}) << n << " members, way " << way;
      ASSERT_TRUE(!enough || given.size() >= majority_of(n)) << n << " members, way " << way;
    }
  }
}

}  // namespace
}  // namespace conch::quorum::test
