// Where the master is, by what the Sentinels say.

#include "servers/redis/topology/sentinel.hpp"
#include "support/cpu_seconds.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace conch::redis {
namespace {

using namespace std::chrono_literals;
using protocol::fault;

/// The Sentinels of a URL, and in words what they want done.
struct watch {
  explicit watch(std::string const& hosts = "s0,s1,s2", std::map<std::string, std::string> mapped = {})
      : map{std::move(mapped)},
        core{parse_sentinels("redis-sentinel://" + hosts + "?sentinelMasterId=m"),
             {.refresh = 10s, .patience = 3s},
             map} {}

  std::string todo() {
    auto const did = core.take();
    std::string text;
    auto const add = [&](std::string const& word) { text += (text.empty() ? "" : " ") + word; };
    for (auto const n : did.listen) add("listen" + std::to_string(n));
    for (auto const n : did.ask) add("ask" + std::to_string(n));
    for (auto const n : did.drop) add("drop" + std::to_string(n));
    if (did.moved) add("moved");
    for (auto const& line : did.log) log.push_back(line.second);
    return text;
  }
  std::string begin() { return core.begin(now), todo(); }
  std::string connected(std::size_t n, std::string const& id = {}) { return core.connected(n, id), todo(); }
  std::string says(std::size_t n, std::string const& host, std::int64_t epoch, std::uint16_t port = 6379) {
    return core.answered(n, named_master{host, port, epoch}), todo();
  }
  std::string knows_nothing(std::size_t n) { return core.answered(n, std::nullopt), todo(); }
  std::string told_of(std::vector<named_sentinel> const& others) { return core.add_named(others), todo(); }
  std::string switched(std::size_t n, std::string const& event) { return core.switched(n, event, now), todo(); }
  std::string failed(std::size_t n, fault what = fault::try_later, std::string const& why = "refused") {
    address at;
    core.locate(n, at);
    return core.failed(n, what, at.host + ": " + why), todo();
  }
  std::string doubt() { return core.doubt(now), todo(); }
  std::string due() { return core.due(now), todo(); }

  /// "host:port", "wait", or "nowhere FAULT"; the words go to `words`.
  std::string where() {
    address to;
    auto const found = core.locate(to);
    words = found.words;
    switch (found.what) {
      case location::kind::here: return to.host + ":" + std::to_string(to.port);
      case location::kind::wait: return "wait";
      case location::kind::nowhere: return "nowhere " + std::to_string(static_cast<int>(found.why));
      case location::kind::not_needed: return "not needed";
    }
    return {};
  }

  /// All three are listened to, and name the master at "a" in epoch 5.
  void settled() {
    begin();
    for (std::size_t n = 0; n < 3; ++n) {
      connected(n, "id" + std::to_string(n));
      says(n, "a", 5);
    }
    log.clear();
  }

  std::map<std::string, std::string> map;
  time_point now{1000s};
  std::vector<std::string> log;
  std::string words;
  sentinels core;
};

using lines = std::vector<std::string>;

TEST(Sentinels, AreAllListenedToAtOnceAndTheFirstThatAnswersNamesTheMaster) {
  watch w;
  EXPECT_EQ(w.where(), "wait");
  EXPECT_EQ(w.begin(), "listen0 listen1 listen2");
  EXPECT_EQ(w.where(), "wait");
  EXPECT_EQ(w.connected(1), "");
  EXPECT_EQ(w.says(1, "a", 5), "moved");
  EXPECT_EQ(w.where(), "a:6379");
  EXPECT_EQ(w.log, lines{"the master 'm' is at a:6379 (epoch 5), says redis-sentinel://s1:26379"});
  EXPECT_EQ(w.core.switches(), 0u) << "there was none before";
}

TEST(Sentinels, D19TheGreatestEpochWinsWhoeverNamesIt) {
  struct row {
    std::string host;
    std::int64_t epoch;
    std::size_t by;
    std::string todo, then;
  };
  for (auto const& [host, epoch, by, todo, then] : std::vector<row>{
           {"b", 6, 1, "moved", "b:6379"},                  // a failover
           {"b", 7, 0, "moved", "b:6379"},                  // two of them
           {"a", 6, 1, "", "a:6379"},                       // there and back again
           {"a", 5, 1, "", "a:6379"},                       // the same
           {"b", 4, 1, "", "a:6379"},                       // has slept
           {"b", 4, 0, "", "a:6379"},                       // even who named the present one
           {"b", 5, 1, "", "a:6379"},                       // knows it by another name
           {"b", 5, 0, "moved", "b:6379"},                  // so does now who named it
           {"b", named_master::no_epoch, 1, "", "a:6379"},  // may not tell
       }) {
    watch w;
    w.settled();
    EXPECT_EQ(w.says(by, host, epoch), todo) << host << epoch;
    EXPECT_EQ(w.where(), then) << host << epoch;
    EXPECT_EQ(w.core.switches(), then == "a:6379" ? 0u : 1u) << host << epoch;
  }
}

TEST(Sentinels, D19AnOlderEpochIsLoggedOnceForEachThatNamesIt) {
  watch w;
  w.settled();
  w.says(0, "b", 6);
  w.log.clear();
  w.says(2, "a", 5);
  w.says(2, "a", 5);
  EXPECT_EQ(w.log, lines{"redis-sentinel://s2:26379 says that the master 'm' is at a:6379 (epoch 5); ignored, since "
                         "redis-sentinel://s0:26379 has "
                         "named b:6379 (epoch 6)"});
  w.log.clear();
  w.says(1, "a", 5);
  EXPECT_EQ(w.log.size(), 1u);
  w.says(1, "b", 6);
  EXPECT_EQ(w.where(), "b:6379");
}

TEST(Sentinels, OneThatMayNotTellTheEpochCountsIfThereIsNoOther) {
  watch w;
  w.begin();
  w.connected(0);
  EXPECT_EQ(w.says(0, "a", named_master::no_epoch), "moved");
  EXPECT_EQ(w.says(1, "b", 0), "moved") << "any epoch is greater than none";
  EXPECT_EQ(w.says(0, "c", named_master::no_epoch), "");
  EXPECT_EQ(w.where(), "b:6379");
}

TEST(Sentinels, D20AnEventOfAnotherNameIsIgnored) {
  watch w;
  w.settled();
  for (std::string const event : {"other a 1 b 2", "mm a 1 b 2", "m", "", "M a 1 b 2", "m2 m 1 b 2"})
    EXPECT_EQ(w.switched(0, event), "") << event;
  EXPECT_EQ(w.switched(1, "m a 1 b 2"), "ask1") << "its epoch is asked for";
  EXPECT_EQ(w.where(), "a:6379") << "the event alone is not believed";
  EXPECT_EQ(w.says(1, "b", 6, 2), "moved");
  EXPECT_EQ(w.where(), "b:2");
  EXPECT_EQ(w.core.switches(), 1u);
}

TEST(Sentinels, D20ANameThatNoneKnowsIsAnErrorWhenAllThatCanBeAskedHaveSaidSo) {
  watch w;
  w.begin();
  EXPECT_EQ(w.knows_nothing(0), "moved") << "an error may tell of it from now on";
  EXPECT_EQ(w.where(), "wait");
  EXPECT_EQ(w.failed(1), "moved");
  EXPECT_EQ(w.where(), "wait") << "the third may know it";
  EXPECT_EQ(w.knows_nothing(2), "moved");
  EXPECT_EQ(w.where(), "nowhere " + std::to_string(static_cast<int>(fault::refused)));
  EXPECT_EQ(w.words,
            "redis-sentinel://s0:26379: does not know this name; s1: refused; redis-sentinel://s2:26379: does not know "
            "this name");
  EXPECT_EQ(w.says(1, "a", 0), "moved") << "it is never too late";
  EXPECT_EQ(w.where(), "a:6379");
  EXPECT_EQ(w.knows_nothing(1), "") << "a Sentinel that forgets the master later does not move it";
  EXPECT_EQ(w.where(), "a:6379");
}

TEST(Sentinels, WhoCannotBeReachedOrRefusesUsIsNamedWithTheReason) {
  struct row {
    fault first, second;
    fault all;
  };
  for (auto const& [first, second, all] : std::vector<row>{
           {fault::try_later, fault::try_later, fault::try_later},
           {fault::access_denied, fault::try_later, fault::try_later},
           {fault::access_denied, fault::access_denied, fault::access_denied},
           {fault::tls_failed, fault::access_denied, fault::tls_failed},
           {fault::refused, fault::malformed, fault::refused},
       }) {
    watch w{"s0,s1"};
    w.begin();
    w.failed(0, first, "one");
    EXPECT_EQ(w.failed(1, second, "two"), "moved");
    EXPECT_EQ(w.where(), "nowhere " + std::to_string(static_cast<int>(all)));
    EXPECT_EQ(w.words, "s0: one; s1: two");
  }
}

TEST(Sentinels, ThatAreAllSilentChangeNothing) {
  watch w;
  w.settled();
  w.failed(0);
  w.failed(1);
  EXPECT_EQ(w.log, lines{});
  EXPECT_EQ(w.failed(2), "");
  w.failed(0);
  w.failed(2);
  EXPECT_EQ(w.log, lines{"no Sentinel can be reached; still using the master 'm' at a:6379"});
  EXPECT_EQ(w.where(), "a:6379");
  w.connected(1);
  w.failed(1);
  EXPECT_EQ(w.log.size(), 2u) << "told anew when one was back";
}

TEST(Sentinels, ThatOthersNameAreListenedToUpToFive) {
  watch w;
  w.begin();
  w.connected(0, "id0");
  std::vector<named_sentinel> const others{
      {"id1", "10.0.0.1", 26379}, {"id3", "s3", 1}, {"id4", "s4", 2}, {"id5", "s5", 3}};
  EXPECT_EQ(w.told_of(others), "");
  EXPECT_EQ(w.says(0, "a", 5), "moved");
  w.connected(1, "id1");
  EXPECT_EQ(w.says(1, "a", 5), "");
  EXPECT_EQ(w.failed(2), "listen3") << "all of the URL have had their say; id1 is s1 by another name";
  EXPECT_EQ(w.failed(3), "listen4");
  EXPECT_EQ(w.failed(4), "listen3") << "one that cannot be reached makes room for another";
  address at;
  w.core.locate(3, at);
  EXPECT_EQ(at.shown(), "redis://s5:3");
  EXPECT_EQ(w.failed(3), "") << "and does not come back by itself";
}

TEST(Sentinels, OfAHostileOneAreBoundedInNumberAndTime) {
  watch w;
  w.settled();
  double const taken = test::cpu_seconds([&] {
    for (int round = 0; round < 200; ++round) {
      std::vector<named_sentinel> others;
      for (int n = 0; n < 100; ++n)
        others.push_back({"id" + std::to_string(round * 100 + n), "h" + std::to_string(n), 1});
      w.told_of(others);
      for (std::size_t n = 3; n < 5; ++n) w.failed(n);
    }
  });
  address at;
  w.core.locate(sentinels::most - 1, at);
  EXPECT_TRUE(at.host.starts_with("h"));
  EXPECT_LT(taken, 20) << "measured: 0.1 s";
  EXPECT_EQ(w.where(), "a:6379");
}

TEST(Sentinels, OfTheUrlComeFirst) {
  watch w{"s0,s1,s2,s3,s4,s5,s6"};
  EXPECT_EQ(w.begin(), "listen0 listen1 listen2 listen3 listen4");
  for (std::size_t n = 0; n < 5; ++n) w.says(n, "a", 0);
  EXPECT_EQ(w.told_of({{"x", "other", 1}}), "");
}

TEST(Sentinels, AreAskedAgainInTurn) {
  watch w;
  w.settled();
  w.failed(1);
  EXPECT_EQ(w.core.next_due(), time_point{1010s});
  w.now += 9s;
  EXPECT_EQ(w.due(), "");
  std::string asked;
  for (int i = 0; i < 4; ++i) {
    w.now = w.core.next_due();
    asked += w.due() + " ";
    w.says(0, "a", 5);
    w.says(2, "a", 5);
  }
  EXPECT_EQ(asked, "ask0 ask2 ask0 ask2 ");
  EXPECT_EQ(w.core.refreshes(), 4u);
}

TEST(Sentinels, ThatDoNotAnswerLoseTheirConnection) {
  watch w;
  w.settled();
  w.now += 10s;
  EXPECT_EQ(w.due(), "ask0");
  EXPECT_EQ(w.core.next_due(), w.now + 3s);
  w.now += 2s;
  EXPECT_EQ(w.due(), "");
  EXPECT_EQ(w.switched(0, "m a 1 b 1"), "ask0");
  w.now += 1s;
  EXPECT_EQ(w.due(), "drop0") << "the time is that of the first question";
  EXPECT_EQ(w.failed(0), "");
}

TEST(Sentinels, AreAllAskedWhenTheMasterIsInDoubtButNotWithEachAttempt) {
  watch w;
  w.settled();
  w.failed(2);
  EXPECT_EQ(w.doubt(), "ask0 ask1");
  EXPECT_EQ(w.core.refreshes(), 1u);
  w.now += 499ms;
  EXPECT_EQ(w.doubt(), "");
  w.now += 1ms;
  EXPECT_EQ(w.doubt(), "ask0 ask1");
}

TEST(Sentinels, NamesArePutThroughTheAddressMap) {
  watch w{"s0", {{"10.0.0.1:6379", "outside:7001"}, {"[fe80::1]:1", "[::1]:2"}, {"10.0.0.2:26379", "outside:7002"}}};
  w.begin();
  w.says(0, "10.0.0.1", 1);
  EXPECT_EQ(w.where(), "outside:7001");
  w.says(0, "fe80::1", 2, 1);
  EXPECT_EQ(w.where(), "::1:2");
  w.says(0, "10.0.0.1", 3, 6380);
  EXPECT_EQ(w.where(), "10.0.0.1:6380") << "another port is another server";
  EXPECT_EQ(w.told_of({{"x", "10.0.0.2", 26379}}), "listen1");
  address at;
  w.core.locate(1, at);
  EXPECT_EQ(at.shown(), "redis://outside:7002");
}

}  // namespace
}  // namespace conch::redis
