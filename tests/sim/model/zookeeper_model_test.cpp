// The simulated ensemble, by what is known of the real one.
#include "sim/model/zookeeper_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace conch::sim {
namespace {

namespace zk = conch::zookeeper;

struct ensemble : zookeeper_model::outside {
  struct heard {
    std::vector<zk::connect_response> greetings;
    std::vector<std::pair<std::string, zk::reply>> answers;
    std::vector<zk::notice> notices;
    std::vector<std::string> order;  // of answers and notices
    nanos last_ping = -1;
    bool closed = false;
  };

  explicit ensemble(std::size_t servers, nanos tick = 500 * millisecond, std::int32_t first_sequence = 0)
      : model{[&] {
                zookeeper_model::settings s;
                s.servers = servers;
                s.tick = tick;
                s.sync_limit = 10;
                s.latency = millisecond;
                s.write_time = millisecond;
                s.election = 200 * millisecond;
                s.first_sequence = first_sequence;
                return s;
              }(),
              events, now, *this} {}

  void greeted(zookeeper_model::connection_id c, zk::connect_response const& r) override {
    of[c].greetings.push_back(r);
  }
  void answered(zookeeper_model::connection_id c, zk::request const&, zk::reply const& r) override {
    of[c].answers.emplace_back("", r);
    of[c].order.emplace_back("answer");
  }
  void answered_ping(zookeeper_model::connection_id c, std::int64_t) override { of[c].last_ping = now; }
  void noticed(zookeeper_model::connection_id c, zk::notice const& n) override {
    of[c].notices.push_back(n);
    of[c].order.push_back("notice " + n.path);
  }
  void closed(zookeeper_model::connection_id c) override { of[c].closed = true; }
  void decided(zookeeper_transaction const& t) override {
    if (t.what == zookeeper_transaction::kind::close_session) ended[t.session] = now;
  }

  void pass(nanos length) {
    nanos const until = now + length;
    while (!events.empty() && events.next() <= until) events.run_next([this](nanos at) { now = at; });
    now = until;
  }
  zookeeper_model::connection_id open(std::size_t at, int timeout_ms = 2000) {
    auto const c = model.connect(at);
    model.greet(c, {0, timeout_ms, 0, {}});
    pass(20 * millisecond);
    EXPECT_EQ(of[c].greetings.size(), 1u);
    return c;
  }
  zk::reply ask(zookeeper_model::connection_id c, zk::request const& r) {
    std::size_t const before = of[c].answers.size();
    model.ask(c, r);
    pass(20 * millisecond);
    EXPECT_EQ(of[c].answers.size(), before + 1);
    return of[c].answers.size() > before ? of[c].answers.back().second : zk::reply{};
  }
  std::string make(zookeeper_model::connection_id c, std::string path, zk::node_kind kind = zk::node_kind::persistent) {
    auto const r = ask(c, zk::create{std::move(path), "", kind});
    auto const* const made = std::get_if<zk::created>(&r.content);
    return made == nullptr ? "status " + std::to_string(static_cast<int>(r.what)) : made->path;
  }
  std::size_t follower(std::size_t which = 0) const {
    for (std::size_t i = 0; i < model.size(); ++i) {
      if (i != *model.leader() && which-- == 0) return i;
    }
    return 0;
  }

  event_queue events;
  nanos now = 0;
  std::map<zookeeper_model::connection_id, heard> of;
  std::map<std::int64_t, nanos> ended;
  zookeeper_model model;
};

constexpr auto sequential = zk::node_kind::ephemeral_sequential;

TEST(ZookeeperModel, BuiltAnewItKnowsNothingAndCountsFromTheBeginning) {
  for (std::size_t const servers : {1u, 3u}) {
    ensemble e{servers};
    e.model.depose();
    e.pass(second);
    auto const before = e.open(0);
    EXPECT_EQ(e.make(before, "/a"), "/a");
    auto const old = std::get<zk::data>(e.ask(before, zk::get_data{"/a", false}).content).node;
    EXPECT_EQ(old.created >> 32, 2);
    auto const session = e.of[before].greetings.front();
    for (std::size_t i = 0; i < servers; ++i) e.model.crash(i);
    e.pass(second);
    e.model.build_anew();
    e.pass(2 * second);
    auto const c = e.open(0);
    EXPECT_EQ(e.ask(c, zk::get_data{"/a", false}).what, zk::status::no_node);
    EXPECT_EQ(e.make(c, "/a"), "/a");
    auto const made = std::get<zk::data>(e.ask(c, zk::get_data{"/a", false}).content).node;
    EXPECT_EQ(made.created >> 32, 1);
    EXPECT_GT(made.created_ms * 1000 + made.created, old.created_ms * 1000 + old.created);
    // A client that has seen more is not let in, and without that the session is unknown.
    auto const behind = e.model.connect(0);
    e.model.greet(behind, {old.created, 2000, session.session, session.password});
    EXPECT_TRUE(e.of[behind].closed);
    auto const asks = e.model.connect(0);
    e.model.greet(asks, {0, 2000, session.session, session.password});
    e.pass(50 * millisecond);
    ASSERT_EQ(e.of[asks].greetings.size(), 1u);
    EXPECT_EQ(e.of[asks].greetings.front().session, 0);
  }
}

TEST(ZookeeperModel, KeepsATreeWithSequentialNodes) {
  ensemble e{1};
  auto const c = e.open(0);
  EXPECT_EQ(e.make(c, "/a/b"), "status -101");
  EXPECT_EQ(e.make(c, "/a", zk::node_kind::container), "/a");
  EXPECT_EQ(e.make(c, "/a"), "status -110");
  EXPECT_EQ(e.make(c, "/a/x-", sequential), "/a/x-0000000000");
  EXPECT_EQ(e.make(c, "/a/x-", sequential), "/a/x-0000000001");
  EXPECT_EQ(e.ask(c, zk::remove{"/a"}).what, zk::status::not_empty);
  EXPECT_EQ(e.ask(c, zk::remove{"/a/x-0000000001"}).what, zk::status::ok);
  EXPECT_EQ(e.ask(c, zk::remove{"/a/x-0000000001"}).what, zk::status::no_node);
  EXPECT_EQ(e.make(c, "/a/x-", sequential), "/a/x-0000000002");
  EXPECT_EQ(e.make(c, "/a/x-0000000000/y"), "status -108");
  auto const list = e.ask(c, zk::get_children{"/a"});
  auto names = std::get<zk::children>(list.content).names;
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"x-0000000000", "x-0000000002"}));
}

TEST(ZookeeperModel, ASequenceStaysAtTheGreatest) {
  ensemble e{1, 500 * millisecond, std::numeric_limits<std::int32_t>::max() - 1};
  auto const c = e.open(0);
  EXPECT_EQ(e.make(c, "/a", zk::node_kind::container), "/a");
  EXPECT_EQ(e.make(c, "/a/x-", sequential), "/a/x-2147483646");
  EXPECT_EQ(e.make(c, "/a/x-", sequential), "/a/x-2147483647");
  EXPECT_EQ(e.make(c, "/a/y-", sequential), "/a/y-2147483647");
}

TEST(ZookeeperModel, AWatchFiresOnceAndBeforeTheAnswerOfWhatFiredIt) {
  ensemble e{3};
  auto const f = e.follower();
  auto const a = e.open(f), b = e.open(e.follower(1));
  ASSERT_EQ(e.make(a, "/n"), "/n");
  EXPECT_EQ(e.ask(b, zk::get_data{"/n", true}).what, zk::status::ok);
  EXPECT_EQ(e.ask(b, zk::get_data{"/none", true}).what, zk::status::no_node);  // and leaves no watch
  EXPECT_EQ(e.model.watches(e.follower(1)), 1u);
  EXPECT_EQ(e.ask(a, zk::get_data{"/n", true}).what, zk::status::ok);
  EXPECT_EQ(e.ask(a, zk::set_data{"/n", "x"}).what, zk::status::ok);
  EXPECT_EQ(e.ask(a, zk::set_data{"/n", "y"}).what, zk::status::ok);
  EXPECT_EQ(e.of[a].order, (std::vector<std::string>{"answer", "answer", "notice /n", "answer", "answer"}));
  ASSERT_EQ(e.of[b].notices.size(), 1u);
  EXPECT_EQ(e.of[b].notices[0].what, zk::notice::event::changed);
}

TEST(ZookeeperModel, AnEmptyContainerIsCollectedOnceItHasHadChildren) {
  ensemble e{1};
  auto const c = e.open(0, 10'000);
  e.make(c, "/never", zk::node_kind::container);
  e.make(c, "/a", zk::node_kind::container);
  e.make(c, "/a/x-", sequential);
  for (int i = 0; i < 30; ++i) {
    e.model.ask(c, zk::ping{});
    e.pass(3 * second);
  }
  EXPECT_NE(e.model.truth().find("/a"), nullptr);
  e.ask(c, zk::remove{"/a/x-0000000000"});
  for (int i = 0; i < 30; ++i) {
    e.model.ask(c, zk::ping{});
    e.pass(3 * second);
  }
  EXPECT_EQ(e.model.truth().find("/a"), nullptr);
  EXPECT_NE(e.model.truth().find("/never"), nullptr);
}

TEST(ZookeeperModel, AFollowerKeepsSessionsAliveByItsReports) {
  ensemble e{3};
  auto const c = e.open(e.follower());
  for (int i = 0; i < 40; ++i) {
    e.model.ask(c, zk::ping{});
    e.pass(400 * millisecond);
  }
  EXPECT_TRUE(e.ended.empty());
  nanos const last = e.now;
  e.pass(10 * second);
  ASSERT_EQ(e.ended.size(), 1u);
  nanos const lasted = e.ended.begin()->second - last;
  EXPECT_GE(lasted, 1600 * millisecond);
  EXPECT_LE(lasted, 3500 * millisecond);
  EXPECT_TRUE(e.of[c].closed);
}

// B1: the node is gone at the leader, and the follower answers pings still, until it misses the leader.
TEST(ZookeeperModel, ACutOffFollowerAnswersPingsOfASessionThatIsOver) {
  ensemble e{3};
  auto const f = e.follower();
  auto const c = e.open(f);
  auto const other = e.open(*e.model.leader(), 10'000);
  e.make(c, "/a", zk::node_kind::ephemeral);
  e.model.ask(c, zk::ping{});
  e.pass(600 * millisecond);
  for (std::size_t i = 0; i < 3; ++i) {
    if (i != f) e.model.freeze(f, i);
  }
  nanos const cut = e.now;
  for (int i = 0; i < 60 && !e.of[c].closed; ++i) {
    e.model.ask(c, zk::ping{});
    e.model.ask(other, zk::ping{});
    e.pass(100 * millisecond);
  }
  ASSERT_EQ(e.ended.size(), 1u);
  nanos const over = e.ended.begin()->second - cut;
  EXPECT_LT(over, 2600 * millisecond);
  EXPECT_GT(e.of[c].last_ping - cut, 4 * second);  // sync_limit is 5 s
  EXPECT_TRUE(e.of[c].closed);
  EXPECT_EQ(e.model.truth().find("/a"), nullptr);
  EXPECT_NE(e.model.tree(f).find("/a"), nullptr);
  // It comes back, and has what it has missed.
  for (std::size_t i = 0; i < 3; ++i) {
    if (i != f) e.model.thaw(f, i);
  }
  e.pass(5 * second);
  EXPECT_TRUE(e.model.follows_well(f));
  EXPECT_EQ(e.model.tree(f).find("/a"), nullptr);
}

// B2: a write that a follower passes on does not prolong the session.
TEST(ZookeeperModel, AForwardedWriteDoesNotTouchItsSession) {
  int shorter = 0;
  for (int i = 0; i < 8; ++i) {
    ensemble e{3};
    auto const f = e.follower();
    auto const c = e.open(f, 3000);
    e.pass((2000 + 37 * i) * millisecond);
    nanos const asked = e.now;
    e.model.ask(c, zk::create{"/a", "", zk::node_kind::ephemeral});
    for (int k = 0; k < 100 && e.of[c].answers.empty(); ++k) e.pass(millisecond / 2);
    ASSERT_EQ(e.of[c].answers.size(), 1u);
    for (std::size_t k = 0; k < 3; ++k) {
      if (k != f) e.model.freeze(f, k);
    }
    e.pass(8 * second);
    ASSERT_EQ(e.ended.size(), 1u);
    if (e.ended.begin()->second - asked < 2 * second) ++shorter;
  }
  EXPECT_GE(shorter, 6);
}

TEST(ZookeeperModel, AReconnectNeedsTheSessionAndItsPassword) {
  ensemble e{3};
  auto const a = e.open(e.follower());
  auto const is = e.of[a].greetings[0];
  e.make(a, "/a", zk::node_kind::ephemeral);
  e.model.disconnect(a);
  e.pass(second);
  auto const b = e.model.connect(e.follower(1));
  e.model.greet(b, {0, 2000, is.session, is.password});
  e.pass(20 * millisecond);
  ASSERT_EQ(e.of[b].greetings.size(), 1u);
  EXPECT_EQ(e.of[b].greetings[0].session, is.session);
  auto const wrong = e.model.connect(e.follower(1));
  e.model.greet(wrong, {0, 2000, is.session, std::string(16, 'x')});
  e.pass(20 * millisecond);
  EXPECT_EQ(e.of[wrong].greetings[0].timeout_ms, 0);
  EXPECT_TRUE(e.of[wrong].closed);
  e.pass(5 * second);
  EXPECT_EQ(e.model.truth().find("/a"), nullptr);
  auto const late = e.model.connect(e.follower(1));
  e.model.greet(late, {0, 2000, is.session, is.password});
  e.pass(20 * millisecond);
  EXPECT_EQ(e.of[late].greetings[0].timeout_ms, 0);
  auto const ahead = e.model.connect(e.follower(1));
  e.model.greet(ahead, {INT64_MAX, 2000, 0, {}});
  e.pass(20 * millisecond);
  EXPECT_TRUE(e.of[ahead].closed);
  EXPECT_TRUE(e.of[ahead].greetings.empty());
}

TEST(ZookeeperModel, WhatASessionSaysOnAnEarlierConnectionIsRefused) {
  ensemble e{3};
  auto const a = e.open(e.follower());
  auto const is = e.of[a].greetings[0];
  auto const b = e.model.connect(e.follower(1));
  e.model.greet(b, {0, 2000, is.session, is.password});
  e.pass(20 * millisecond);
  e.model.ask(a, zk::create{"/a", "", zk::node_kind::ephemeral});
  e.pass(20 * millisecond);
  EXPECT_TRUE(e.of[a].closed);
  EXPECT_EQ(e.model.truth().find("/a"), nullptr);
  EXPECT_EQ(e.make(b, "/a", zk::node_kind::ephemeral), "/a");
}

TEST(ZookeeperModel, ANewLeaderGivesEachSessionItsTimeoutOnceMore) {
  ensemble e{3};
  auto const c = e.open(e.follower());
  e.make(c, "/a", zk::node_kind::ephemeral);
  std::int64_t const before = e.model.truth().last() >> 32;
  e.pass(1400 * millisecond);
  e.model.depose();
  e.pass(400 * millisecond);
  nanos const elected = e.now;
  ASSERT_TRUE(e.model.leader());
  EXPECT_TRUE(e.of[c].closed);
  e.pass(5 * second);
  ASSERT_EQ(e.ended.size(), 1u);
  EXPECT_GE(e.ended.begin()->second - elected, 1700 * millisecond);
  auto const d = e.open(e.follower());
  e.make(d, "/b");
  EXPECT_EQ(e.model.truth().last() >> 32, before + 1);
}

TEST(ZookeeperModel, WithoutAMajorityNothingIsDecidedOrServed) {
  ensemble e{3};
  auto const l = *e.model.leader();
  auto const c = e.open(l, 10'000);
  auto const f = e.follower(), g = e.follower(1);
  e.model.crash(f);
  e.pass(100 * millisecond);
  EXPECT_EQ(e.make(c, "/a"), "/a");
  e.model.crash(g);
  e.model.ask(c, zk::create{"/b", ""});
  e.pass(3 * second);
  EXPECT_EQ(e.of[c].answers.size(), 1u);
  EXPECT_TRUE(e.of[c].closed);
  EXPECT_FALSE(e.model.serves(l));
  e.model.start(f);
  e.pass(2 * second);
  ASSERT_TRUE(e.model.leader());
  EXPECT_NE(e.model.tree(f).find("/a"), nullptr);
  EXPECT_NE(e.model.tree(l).find("/b"), nullptr);  // it was in the log of the server that had the most
}

TEST(ZookeeperModel, TheEndOfASessionRemovesItsNodes) {
  ensemble e{3};
  auto const c = e.open(e.follower());
  e.make(c, "/a", zk::node_kind::ephemeral);
  EXPECT_EQ(e.ask(c, zk::close_session{}).what, zk::status::ok);
  EXPECT_TRUE(e.of[c].closed);
  EXPECT_EQ(e.model.truth().find("/a"), nullptr);
}

TEST(ZookeeperModel, ReadsAreOfTheFollowersOwnStateUntilItSyncs) {
  ensemble e{3};
  auto const f = e.follower();
  auto const c = e.open(f, 10'000), d = e.open(*e.model.leader(), 10'000);
  for (std::size_t i = 0; i < 3; ++i) {
    if (i != f) e.model.freeze(f, i);
  }
  EXPECT_EQ(e.make(d, "/a"), "/a");
  EXPECT_EQ(e.ask(c, zk::get_data{"/a"}).what, zk::status::no_node);
  e.model.ask(c, zk::sync{"/a"});
  e.model.ask(c, zk::get_data{"/a"});
  e.pass(100 * millisecond);
  EXPECT_EQ(e.of[c].answers.size(), 1u);
  for (std::size_t i = 0; i < 3; ++i) {
    if (i != f) e.model.thaw(f, i);
  }
  e.pass(100 * millisecond);
  ASSERT_EQ(e.of[c].answers.size(), 3u);
  EXPECT_EQ(e.of[c].answers[2].second.what, zk::status::ok);
}

}  // namespace
}  // namespace conch::sim
