// What the live page shows, without processes and sockets.

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>
#include <chrono>
#include <string>

#include "from_options.hpp"
#include "scene.hpp"
#include "support/contains.hpp"

namespace {

using namespace live_page;
using conch::test::contains;
using namespace std::chrono_literals;
namespace json = boost::json;

struct stage {
  scene s{"demo", "redis://h"};
  time_point now{};

  stage() {
    s.joined(1, 101);
    s.joined(2, 102);
  }
  void heard(std::size_t worker, std::string const& line) {
    auto const r = parse_report(line);
    ASSERT_TRUE(r.has_value()) << line;
    s.heard(worker, *r, now);
  }
  json::object shown() const { return json::parse(s.to_json(now)).as_object(); }
  std::string words() const {
    std::string all;
    json::object const now_shown = shown();
    for (auto const& entry : now_shown.at("log").as_array())
      all += json::value_to<std::string>(entry.as_array().at(1)) + '\n';
    return all;
  }
};

TEST(LivePageScene, NamesTheHolderAndCountsThoseThatWait) {
  stage t;
  EXPECT_EQ(t.shown().at("workers").as_array()[0].at("state").as_string(), "starts");
  t.heard(1, R"({"what":"ready","client":"cafe"})");
  EXPECT_EQ(t.shown().at("workers").as_array()[0].at("state").as_string(), "here");
  t.heard(1, R"({"what":"asks"})");
  t.heard(2, R"({"what":"asks"})");
  t.heard(2, R"({"what":"granted","round":1,"fence":9007199254740993,"waited":1500})");
  t.now += 250ms;
  json::object const o = t.shown();
  EXPECT_EQ(o.at("holder").as_int64(), 2);
  EXPECT_EQ(o.at("fence").as_string(), "9007199254740993");  // more than JavaScript's numbers hold
  EXPECT_EQ(o.at("held_ms").as_int64(), 250);
  EXPECT_EQ(o.at("workers").as_array()[0].at("waiting").as_int64(), 1);
  EXPECT_EQ(o.at("workers").as_array()[1].at("waiting").as_int64(), 0);
  EXPECT_TRUE(o.at("workers").as_array()[1].at("holds").as_bool());
  t.heard(2, R"({"what":"released"})");
  EXPECT_EQ(t.shown().at("holder").as_int64(), 0);
}

TEST(LivePageScene, KnowsItsWorkersInWhatTheServerSays) {
  stage t;
  t.heard(2, R"({"what":"ready","client":"cafe"})");
  t.s.inspected({"cafe", 7, 3, "", "demo@pod-7:4711 [round]", {"demo@pod-7:4712", "client beef"}});
  std::string const seen = R"({"holder":"worker 2","fence":"7","waiting":3,"holder_name":"demo@pod-7:4711 [round]",)"
                           R"("waiter_names":["demo@pod-7:4712","client beef"],"trouble":""})";
  EXPECT_EQ(json::serialize(t.shown().at("seen")), seen);
  t.s.inspected({"beef", 7, 3, "", "", {}});
  EXPECT_EQ(t.shown().at("seen").at("holder").as_string(), "beef");
  t.s.inspected({"", 0, 0, "", "", {}});
  EXPECT_EQ(t.shown().at("seen").at("holder").as_string(), "");
}

TEST(LivePageScene, TellsWhenAServerOfTheLockGoesAndComesBack) {
  stage t;
  t.s.lock_servers({{"redis://a", true}, {"redis://b", true}});
  EXPECT_EQ(t.words(), "");
  t.s.lock_servers({{"redis://a", true}, {"redis://b", false}});
  EXPECT_EQ(json::serialize(t.shown().at("servers")),
            R"([{"url":"redis://a","up":true},{"url":"redis://b","up":false}])");
  t.s.lock_servers({{"redis://a", true}, {"redis://b", true}});
  EXPECT_EQ(t.words(), "The lock's server redis://b does not answer.\nThe lock's server redis://b answers again.\n");
}

TEST(LivePageScene, SaysWhyThereIsNoSale) {
  stage t;
  EXPECT_EQ(t.shown().at("sale").at("unavailable").as_string(), "");
  t.s.no_sale("not here");
  EXPECT_EQ(t.shown().at("sale").at("unavailable").as_string(), "not here");
}

TEST(LivePageScene, AFrozenHolderIsNoHolderOnceItsHoldHasExpired) {
  stage t;
  t.heard(1, R"({"what":"ready","client":"cafe"})");
  t.heard(1, R"({"what":"granted","round":1,"fence":10,"at":1000000,"until":3000000})");
  t.s.stopped(1, t.now);
  t.now += 1999ms;
  EXPECT_EQ(t.shown().at("holder").as_int64(), 1);
  EXPECT_EQ(t.shown().at("workers").as_array()[0].at("does").as_string(), "is frozen while it holds the lock");
  t.now += 1ms;
  EXPECT_EQ(t.shown().at("holder").as_int64(), 0);
  EXPECT_FALSE(t.shown().at("workers").as_array()[0].at("holds").as_bool());
  EXPECT_EQ(t.shown().at("workers").as_array()[0].at("does").as_string(), "is frozen, and its hold has expired");
}

TEST(LivePageScene, CountsTheLateWritesThatTheStoreRefused) {
  stage t;
  t.heard(1, R"({"what":"refused","fence":10})");
  EXPECT_EQ(t.shown().at("refused").as_int64(), 1);
  EXPECT_TRUE(contains(t.words(), "The store refused fence 10")) << t.words();
  t.heard(2, R"({"what":"overwrote","fence":11})");
  EXPECT_EQ(t.shown().at("refused").as_int64(), 1);
}

TEST(LivePageScene, FindsLostUpdatesInWhatTwoHaveWritten) {
  stage t;
  t.s.count_begins(false, 3, 2);
  t.heard(1, R"({"what":"counted","locked":0,"value":1})");
  EXPECT_EQ(t.shown().at("without").at("lost").as_int64(), 0);
  t.heard(2, R"({"what":"counted","locked":0,"value":1})");
  t.heard(2, R"({"what":"counted","locked":0,"value":2})");
  EXPECT_EQ(t.shown().at("without").at("lost").as_int64(), 1);
  EXPECT_TRUE(contains(t.words(), "Workers 1 and 2 both wrote 1")) << t.words();
  t.heard(1, R"({"what":"done","locked":0})");
  EXPECT_FALSE(t.s.count_is_complete(false));
  t.heard(2, R"({"what":"done","locked":0})");
  EXPECT_TRUE(t.s.count_is_complete(false));
  t.s.count_ends(false, 2);
  EXPECT_FALSE(t.s.counts(false));
  EXPECT_TRUE(contains(t.words(), "Without the lock: 3 increments, and the counter is 2: 1 lost.")) << t.words();
  EXPECT_TRUE(t.shown().at("without").at("ended").as_bool());
  EXPECT_EQ(t.shown().at("with").at("target").as_int64(), 0);
}

TEST(LivePageScene, TellsTheStoryOfAStoppedHolder) {
  stage t;
  t.s.round(true);
  t.heard(1, R"({"what":"granted","round":1,"fence":10,"waited":5,"at":1000000,"until":3000000})");
  t.s.stopped(1, t.now);
  EXPECT_FALSE(t.s.is_replaced());
  t.now += 2500ms;
  t.heard(2, R"({"what":"granted","round":1,"fence":20,"waited":5,"at":3020000,"until":6000000})");
  EXPECT_TRUE(t.s.is_replaced());
  t.now += 2s;
  t.s.continued(t.now);
  EXPECT_EQ(t.s.stopped_worker(), 0u);
  t.now += 10ms;
  t.heard(1, R"({"what":"lost","fence":10,"why":"the lock was lost"})");
  EXPECT_EQ(t.s.holder(), 2u);
  for (char const* const part :
       {"Worker 1 (process 101) was frozen",
        "Worker 2 (process 102) has the lock now, 2.50 s after the freeze and 0.02 s after that hold expired",
        "fence is 20, greater than 10", "wakes up",
        "learned that it lost the lock (the lock was lost, fence 10), 0.01 s after"}) {
    EXPECT_TRUE(contains(t.words(), part)) << part << '\n' << t.words();
  }
}

TEST(LivePageScene, SeesTwoHoldersAtOnce) {
  stage t;
  t.heard(1, R"({"what":"granted","round":1,"fence":10,"at":1000000,"until":3000000})");
  t.s.stopped(1, t.now);
  t.heard(2, R"({"what":"granted","round":1,"fence":20,"at":2990000,"until":6000000})");
  EXPECT_TRUE(contains(t.words(), "two holders at once")) << t.words();
}

TEST(LivePageScene, TellsOnceThatAcquiresFail) {
  stage t;
  for (int i = 0; i < 5; ++i) {
    t.heard(1, R"({"what":"asks"})");
    t.heard(1, R"({"what":"unserved","why":"the server cannot be reached"})");
  }
  EXPECT_EQ(t.words(), "An acquire failed: the server cannot be reached.\n");
  EXPECT_EQ(t.shown().at("workers").as_array()[0].at("waiting").as_int64(), 0);
}

TEST(LivePageScene, AWorkerThatEndsKeepsNothingFromEnding) {
  stage t;
  t.s.count_begins(true, 4, 2);
  t.s.sale_begins(10, 2, 2);
  t.heard(1, R"({"what":"granted","fence":1,"waited":5})");
  t.heard(2, R"({"what":"done","locked":1})");
  t.heard(2, R"({"what":"sold","sold":6,"mistakes":0})");
  t.s.gone(1);
  t.s.gone(1);
  EXPECT_EQ(t.s.holder(), 0u);
  EXPECT_TRUE(t.s.count_is_complete(true));
  EXPECT_TRUE(t.s.sale_is_complete());
  t.s.sale_ends(3);
  EXPECT_TRUE(contains(t.words(), "this does not add up")) << t.words();
}

TEST(LivePageScene, FillsTheSegmentsOfTheSale) {
  stage t;
  t.s.sale_begins(5, 2, 1);
  t.heard(1, R"({"what":"looked","segment":1,"value":1})");
  t.heard(2, R"({"what":"looked","segment":1,"value":2})");  // seen before, heard after
  t.heard(2, R"({"what":"looked","segment":9,"value":2})");
  EXPECT_EQ(json::serialize(t.shown().at("sale").at("segments")), "[[3,2],[2,0]]");
  t.heard(1, R"({"what":"sold","sold":2,"mistakes":0})");
  t.s.sale_ends(3);
  EXPECT_TRUE(contains(t.words(), "nothing sold twice, nothing lost")) << t.words();
}

TEST(LivePageScene, AWriteThatWasNotAnsweredMayHaveSoldOrNot) {
  for (int left = 0; left <= 6; ++left) {
    stage t;
    t.s.sale_begins(6, 2, 1);
    t.heard(1, R"({"what":"sold","sold":2,"unsure":3,"mistakes":0})");
    t.s.sale_ends(left);
    bool const may_be = left >= 1 && left <= 4;
    EXPECT_TRUE(contains(t.words(), may_be ? "do not know about 3: nothing sold twice" : "this does not add up"))
        << left << t.words();
  }
}

TEST(LivePageScene, KeepsAMinuteOfHandOversAndWaits) {
  stage t;
  for (int i = 1; i <= 100; ++i) t.heard(1, R"({"what":"granted","fence":1,"waited":)" + std::to_string(i) + "}");
  t.s.second_passed();
  EXPECT_EQ(json::serialize(t.shown().at("series")), "[[100,51,100]]");
  for (int i = 0; i < 100; ++i) t.s.second_passed();
  EXPECT_EQ(t.shown().at("series").as_array().size(), 60u);
  EXPECT_EQ(t.shown().at("recent").as_array().size(), 12u);
}

TEST(LivePageScene, TakesAnyNameAsText) {
  scene s{"</script><script>\"\n", "redis://h"};
  json::object const o = json::parse(s.to_json(time_point{})).as_object();
  EXPECT_EQ(o.at("lock").as_string(), "</script><script>\"\n");
  EXPECT_EQ(s.to_json(time_point{}).find('\n'), std::string::npos);  // an event is one line
}

TEST(LivePageScene, ReadsNoReportOutOfNonsense) {
  for (std::string const line : {"", "{", "[]", "{}", "{\"what\":3}", "worker"}) {
    EXPECT_FALSE(parse_report(line).has_value()) << line;
  }
}

TEST(LivePageServers, AreShownWithoutPasswordsAndFiles) {
  http_counter::options chosen;
  chosen.redis = "redis://user:secret@h:1/2";
  EXPECT_EQ(http_counter::shown_lock_servers(chosen), "redis://h:1/2");
  chosen.lock_servers = {"rediss://:p@a?cacert=/x/ca.crt&sni=name&key=/x/k", "unix:///s?db=1",
                         "rediss-sentinel://h?cert=/c&sentinelMasterId=demo&cacertdir=/d"};
  EXPECT_EQ(http_counter::shown_lock_servers(chosen),
            "rediss://a?sni=name, unix:///s?db=1, rediss-sentinel://h?sentinelMasterId=demo");
}

}  // namespace
