// The nodes of a Cluster: which of them is asked for the map, and what follows from what they say.

#include "resp/decoder.hpp"
#include "servers/redis/topology/cluster.hpp"
#include "servers/redis/topology/cluster_talk.hpp"
#include "support/messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace conch::redis {
namespace {

using namespace std::chrono_literals;
using protocol::fault;

std::vector<named_slots> thirds(std::string const& third = "c") {
  return {
      {0, 5460, "aaaaaaaa1", "a", 1}, {5461, 10922, "bbbbbbbb1", "b", 1}, {10923, 16383, third + "ccccccc1", third, 1}};
}

struct nodes {
  explicit nodes(std::string const& url = "redis-cluster://s0:1,s1:1", std::map<std::string, std::string> mapped = {})
      : address_map{std::move(mapped)},
        core{parse_cluster(url).seeds, {.refresh = 10s, .patience = 3s}, address_map, {5s, 30s}} {}

  /// In words, what is to be done.
  std::string todo() {
    auto const did = core.take();
    std::string text;
    auto const add = [&](std::string const& word) { text += (text.empty() ? "" : ", ") + word; };
    if (did.ask) add("ask");
    if (!did.leave.empty()) add("leave: " + did.leave);
    if (did.moved) add("moved");
    for (auto const n : did.follow) add("follow " + std::to_string(n));
    for (auto const n : did.renew) add("renew " + std::to_string(n));
    if (did.lost.what != fault::none) add("lost: " + did.lost.why);
    for (auto const& line : did.log) log.push_back(line.second);
    return text;
  }
  std::string asked() {
    address to;
    core.locate_asked(to, now);
    return to.host;
  }
  std::string told(std::vector<named_slots> const& all = thirds()) { return core.update(all, address{}, now), todo(); }
  std::string failed(std::string const& why, fault what = fault::try_later) { return core.failed(what, why), todo(); }
  std::string due(duration after = {}) { return now += after, core.due(now), todo(); }
  std::string says(std::size_t by, std::string const& words) { return core.put_off(words, by, now), todo(); }

  std::map<std::string, std::string> address_map;
  time_point now{1h};
  cluster core;
  std::vector<std::string> log;
};

TEST(ClusterTopology, AsksTheSeedsInTurnUntilOneKnows) {
  nodes n;
  EXPECT_EQ(n.asked(), "s0");
  EXPECT_EQ(n.failed("s0: refused"), "");
  EXPECT_EQ(n.asked(), "s1");
  EXPECT_EQ(n.failed("s1: refused"), "lost: s1: refused") << "all have failed once";
  EXPECT_EQ(n.asked(), "s0");
  EXPECT_EQ(n.told(), "moved");
  EXPECT_EQ(n.core.owner(0), 0u);
  EXPECT_EQ(n.core.digits(1), "bbbbbbbb");
  ASSERT_EQ(n.log.size(), 1u);
  EXPECT_TRUE(n.log[0].starts_with("a Cluster of 3 masters")) << n.log[0];
}

TEST(ClusterTopology, APasswordThatIsWrongIsToldAtOnce) {
  nodes n;
  EXPECT_EQ(n.failed("WRONGPASS", fault::access_denied), "lost: WRONGPASS");
}

TEST(ClusterTopology, AsksTheMastersToWhenTheSeedsAreGone) {
  nodes n;
  EXPECT_EQ(n.asked(), "s0");
  (void)n.told();
  std::vector<std::string> tried;
  for (int i = 0; i < 6; ++i) {
    n.now += 1ms;
    EXPECT_EQ(n.failed("gone"), "") << "the map that was known goes on to count";
    tried.push_back(n.asked());
  }
  EXPECT_EQ(tried, (std::vector<std::string>{"s1", "a", "b", "c", "s0", "s1"}));
}

TEST(ClusterTopology, ASeedThatSaysNothingCostsItsShareAndIsAskedLastNextTime) {
  nodes n{"redis-cluster://s0:1,s1:1"};
  address to;
  EXPECT_EQ(n.core.locate_asked(to, n.now).within, 2500ms);
  n.now += 2500ms;
  EXPECT_EQ(n.failed("s0: no connection"), "");
  EXPECT_EQ(n.core.locate_asked(to, n.now).within, 2500ms);
  EXPECT_EQ(to.host, "s1");
  (void)n.told();
  (void)n.failed("it has gone away");
  std::vector<std::string> tried;
  for (int i = 0; i < 5; ++i) {
    tried.push_back(n.asked());
    EXPECT_EQ(n.failed("refused"), "");
  }
  EXPECT_EQ(tried, (std::vector<std::string>{"a", "b", "c", "s1", "s0"}));
}

TEST(ClusterTopology, MovedChangesOneSlotAndAsksForTheMapOnce) {
  nodes n;
  (void)n.told();
  n.now += 5s;
  EXPECT_EQ(n.says(0, "MOVED 7 b:1"), "moved");
  EXPECT_EQ(n.core.owner(7), 1u);
  EXPECT_EQ(n.due(), "ask");
  EXPECT_EQ(n.says(0, "MOVED 8 b:1"), "moved");
  EXPECT_EQ(n.due(), "") << "one is under way";
  EXPECT_EQ(n.says(0, "ASK 9 b:1"), "");
  EXPECT_EQ(n.core.owner(9), 0u) << "ASK changes nothing";
}

TEST(ClusterTopology, AskNamesANodeThatMayHaveNoSlotsYet) {
  nodes n;
  (void)n.told();
  auto const known = n.core.meaning_of("ASK 7 b:1", 0);
  EXPECT_TRUE(known.moves);
  EXPECT_EQ(known.there, 1u);
  auto const fresh = n.core.meaning_of("ASK 7 d:1", 0);
  EXPECT_TRUE(fresh.moves);
  EXPECT_EQ(fresh.there, 3u);
  EXPECT_EQ(n.core.digits(3), "?");
  EXPECT_FALSE(n.core.some_slot(3));
  EXPECT_EQ(n.says(0, "MOVED 7 d:1"), "") << "without an id it can have no channel: the map tells it";
  auto all = thirds();
  all.push_back({7, 7, "dddddddd1", "d", 1});
  EXPECT_EQ(n.told(all), "moved, renew 3");
  EXPECT_EQ(n.core.owner(7), 3u);
  EXPECT_EQ(n.core.digits(3), "dddddddd");
  EXPECT_TRUE(n.core.meaning_of("TRYAGAIN Multiple keys", 0).is_divided);
  EXPECT_FALSE(n.core.meaning_of("CLUSTERDOWN", 0).is_divided);
}

TEST(ClusterTopology, ANodeThatChangesItsAddressIsFollowed) {
  nodes n;
  (void)n.told();
  auto all = thirds();
  all[1].host = "elsewhere";
  EXPECT_EQ(n.told(all), "follow 1");
  address to;
  n.core.locate(1, to);
  EXPECT_EQ(to.host, "elsewhere");
}

TEST(ClusterTopology, TheAddressMapCountsForWhatNodesSay) {
  nodes n{"redis-cluster://s0:1", {{"b:1", "outside:7"}}};
  (void)n.told();
  address to;
  n.core.locate(1, to);
  EXPECT_EQ(to.host + std::to_string(to.port), "outside7");
  EXPECT_EQ(n.says(0, "MOVED 7 b:1"), "moved");
  EXPECT_EQ(n.core.owner(7), 1u);
}

TEST(ClusterTopology, ALostMasterIsAskedAboutTenTimesASecondAndAtLastAtAnotherNode) {
  nodes n;
  EXPECT_EQ(n.asked(), "s0");
  (void)n.told();
  n.now += 5s;
  n.core.reached(0, false, n.now);
  EXPECT_EQ(n.due(), "ask");
  int asked = 1;
  for (; asked < 100; ++asked) {
    (void)n.told();
    std::string const next = n.due(100ms);
    if (next != "ask") {
      EXPECT_EQ(next, "leave: another node is asked");
      break;
    }
  }
  EXPECT_GE(asked, 10);
  EXPECT_LE(asked, 30);
  (void)n.failed("dropped");
  EXPECT_EQ(n.asked(), "s1");
}

TEST(ClusterTopology, WhoNeverHearsOfANodeThatOthersNameIsNotAskedForEver) {
  nodes n;
  (void)n.told();
  int asked = 0;
  std::string next = "ask";
  for (; asked < 100 && next == "ask"; ++asked) {
    (void)n.says(0, "MOVED 0 new:1");
    next = n.due(100ms);
    if (next == "ask") (void)n.told();
  }
  EXPECT_EQ(next, "leave: another node is asked");
  EXPECT_LE(asked, 30);
}

TEST(ClusterTopology, ASlotWithoutAnOwnerIsAskedAboutWhileSomebodyWaits) {
  nodes n;
  (void)n.told({{0, 5460, "aaaaaaaa1", "a", 1}});
  EXPECT_EQ(n.core.owner(6000), cluster::unknown_master);
  n.now += 5s;
  EXPECT_EQ(n.due(), "");
  n.core.wait_for_owner(true, n.now);
  EXPECT_EQ(n.due(), "ask");
  (void)n.told({{0, 5460, "aaaaaaaa1", "a", 1}});
  EXPECT_EQ(n.due(100ms), "ask");
  EXPECT_EQ(n.told(), "moved");
  n.core.wait_for_owner(false, n.now);
}

TEST(ClusterTopology, ANodeThatDoesNotAnswerIsLeft) {
  nodes n;
  (void)n.told();
  EXPECT_EQ(n.due(10s), "ask");
  EXPECT_EQ(n.due(3s), "leave: no answer to CLUSTER SLOTS");
}

// ------------------------------------------------------------------------------------------------------- the dialogue

struct spoken final : cluster_talk::owner {
  void carry_out() override { ++told; }

  dialogue::progress hears(std::string const& bytes) {
    resp::decoder in;
    auto const message = test::only_message(in, bytes);
    return talk.received(message, in.is_push(), n.now);
  }
  static std::string hello(std::string const& mode = "cluster", std::string const& version = "7.0.15") {
    auto const bulk = [](std::string const& s) { return "$" + std::to_string(s.size()) + "\r\n" + s + "\r\n"; };
    return "%2\r\n" + bulk("version") + bulk(version) + bulk("mode") + bulk(mode);
  }

  nodes n;
  cluster_talk talk{n.core, *this};
  int told = 0;
};

TEST(ClusterTalk, GreetsAndAsks) {
  spoken s;
  address at;
  at.host = "s0";
  EXPECT_EQ(s.talk.begin(at, "conch"),
            "*4\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$7\r\nSETNAME\r\n$5\r\nconch\r\n*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n");
  EXPECT_EQ(s.hears(spoken::hello()), dialogue::progress::greeting);
  EXPECT_EQ(s.hears("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$0\r\n\r\n:7\r\n$9\r\naaaaaaaa1\r\n"), dialogue::progress::good);
  EXPECT_EQ(s.told, 1);
  EXPECT_EQ(s.n.core.owner(16383), 0u);
  address to;
  s.n.core.locate(0, to);
  EXPECT_EQ(to.host + std::to_string(to.port), "s07") << "an empty host is that of the node that was asked";
  EXPECT_EQ(s.talk.question(), "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n");
  EXPECT_EQ(s.hears("*0\r\n"), dialogue::progress::failed) << "a node that knows of no slots is not believed";
  EXPECT_EQ(s.talk.why(), "the node knows of no slots");
  EXPECT_EQ(s.n.core.owner(16383), 0u);
}

TEST(ClusterTalk, RefusesWhatIsNoNodeOrTooOld) {
  for (auto const& [mode, version, why] : {std::tuple{"standalone", "7.0.15", "the server is not a node of a Cluster"},
                                           std::tuple{"cluster", "6.2.14", "a Cluster needs version 7.0 or newer"},
                                           std::tuple{"sentinel", "7.0.15", "the server is a Sentinel"}}) {
    spoken s;
    (void)s.talk.begin(address{}, "");
    EXPECT_EQ(s.hears(spoken::hello(mode, version)), dialogue::progress::failed);
    EXPECT_EQ(s.talk.fault(), fault::not_supported);
    EXPECT_TRUE(s.talk.why().starts_with(why)) << s.talk.why();
  }
}

TEST(ClusterTalk, SaysWhatItIsRefused) {
  spoken s;
  (void)s.talk.begin(address{}, "");
  EXPECT_EQ(s.hears(spoken::hello()), dialogue::progress::greeting);
  EXPECT_EQ(s.hears("-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n"),
            dialogue::progress::failed);
  EXPECT_EQ(s.talk.fault(), fault::access_denied);
}

}  // namespace
}  // namespace conch::redis
