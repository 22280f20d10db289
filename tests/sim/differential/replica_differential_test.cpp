// A master and its replica: two real servers, and two models with the stream of effects between them. What the scripts
// lean on when roles change: what redis.set_repl keeps back, which clients receive a PUBLISH, what a replica refuses,
// and which stay connected.

#include <array>
#include <memory>
#include <optional>

#include "sim/differential/real_redis_server.hpp"
#include "sim/model/redis_model.hpp"
#include "support/free_port.hpp"

#include <gtest/gtest.h>

namespace conch::sim {
namespace {

using words = std::vector<std::string>;

std::vector<std::string_view> views(words const& argv) { return {argv.begin(), argv.end()}; }

/// Valkey says the same in other words: clients read no more than the first of them.
std::string of_any_server(std::string text) {
  constexpr std::string_view since = " since Redis 4.0", script = "script: ", where = "on @user_script";
  if (auto const at = text.find(since); at != std::string::npos) text.erase(at, since.size());
  if (auto const at = text.find(script); at != std::string::npos) {  // its SHA-1
    auto const begin = at + script.size(), end = text.find(where, begin);
    if (end != std::string::npos) text.erase(begin, end - begin);
  }
  return text;
}

/// Servers 0 and 1, at first master and replica, each with a connection that asks and one that listens to the channel
/// "ch".
class both_pairs {
 public:
  both_pairs() {
    for (std::size_t i = 0; i < 2; ++i) {
      ports_[i] = std::to_string(test::find_free_port());
      asks_[i] = std::make_unique<raw_redis_client>(real_[i].socket_path());
      listens_[i] = std::make_unique<raw_redis_client>(real_[i].socket_path());
      ask(*asks_[i], {"HELLO", "3"});
      EXPECT_EQ(ask(*asks_[i], {"CONFIG", "SET", "port", ports_[i]}).text, "OK");
      (void)ask(*asks_[i], {"CONFIG", "SET", "repl-diskless-sync-delay", "0"});
      (void)ask(*asks_[i], {"CONFIG", "SET", "repl-ping-replica-period", "1000"});  // it would count as written
      ask(*listens_[i], {"HELLO", "3"});
      modelled_asks_[i] = model_[i].connect("a:1");
      modelled_listens_[i] = model_[i].connect("a:2");
      for (auto const id : {modelled_asks_[i], modelled_listens_[i]}) model_[i].execute(id, views({"HELLO", "3"}));
      model_[i].replicate();
    }
    ask(*asks_[1], {"REPLICAOF", "127.0.0.1", ports_[0]});
    model_[1].set_replica(true);
    until(1, "master_link_status:up");
    for (std::size_t i = 0; i < 2; ++i) {
      ask(*listens_[i], {"SUBSCRIBE", "ch"});
      model_[i].execute(modelled_listens_[i], views({"SUBSCRIBE", "ch"}));
      (void)model_[i].take_pushes();
    }
  }

  /// Sent to one server of each pair; the answers must be the same. It has reached the replica when this returns,
  /// unless that is paused.
  std::string same(std::size_t at, words const& argv) {
    set_time();
    std::string const real = of_any_server(describe(ask(*asks_[at], argv)));
    std::string const modelled = of_any_server(describe(model_[at].execute(modelled_asks_[at], views(argv))));
    EXPECT_EQ(real, modelled) << argv.at(0);
    if (at == master_ && !stands_still_) {
      replicate();
      EXPECT_EQ(describe(ask(*asks_[at], {"WAIT", "1", "10000"})), ":1");
      (void)model_[at].execute(modelled_asks_[at], views({"WAIT", "1", "10000"}));
    }
    return real;
  }

  void stand_still(bool still) {
    real_[1 - master_].stand_still(still);
    stands_still_ = still;
    if (!still) replicate();
  }

  /// Another connection to the master, of whose WAITs this is about: none of another connection goes between.
  struct third {
    std::unique_ptr<raw_redis_client> real;
    redis_model::connection_id modelled = 0;
  };
  third connect() {
    return {std::make_unique<raw_redis_client>(real_[master_].socket_path()), model_[master_].connect("a:3")};
  }

  std::string same(third& by, words const& argv) {
    set_time();
    std::string const real = of_any_server(describe(ask(*by.real, argv)));
    std::string const modelled = of_any_server(describe(model_[master_].execute(by.modelled, views(argv))));
    EXPECT_EQ(real, modelled) << argv.at(0);
    return real;
  }

  /// The answer to WAIT 1, which takes `milliseconds` if it is 0.
  std::string wait(third& by, int milliseconds) {
    set_time();
    words const argv{"WAIT", "1", std::to_string(milliseconds)};
    std::string const real = describe(ask(*by.real, argv));
    value modelled = model_[master_].execute(by.modelled, views(argv));
    EXPECT_EQ(modelled.is(value::kind::none), model_[master_].waits(by.modelled));
    if (model_[master_].waits(by.modelled)) {
      EXPECT_TRUE(model_[master_].take_waited().empty()) << "its time is not over";
      model_[master_].set_time_us(model_[master_].time_us() + milliseconds * 1000);
      auto const answers = model_[master_].take_waited();
      EXPECT_EQ(answers.size(), 1u);
      if (!answers.empty()) modelled = answers.front().message;
    }
    EXPECT_EQ(real, describe(modelled));
    return real;
  }

  /// Does WAIT wait for what its own connection has written only? So it is from 7.2 on.
  bool waits_for_own_writes() {
    std::string const info = ask(*asks_[0], {"INFO", "server"}).text;
    bool const own = is_since_7_2(info);
    for (auto& m : model_) m.set_waits_for_own_writes(own);
    return own;
  }

  /// What its listener receives next is the same, and this. All messages are different.
  void hears(std::size_t at, std::string const& message) {
    auto const real = listens_[at]->read();
    ASSERT_TRUE(real) << "no longer connected";
    EXPECT_EQ(real->items.back().text, message);
    for (auto const& p : model_[at].take_pushes()) {
      if (p.to == modelled_listens_[at]) heard_[at].push_back(p.message.items.back().text);
    }
    ASSERT_FALSE(heard_[at].empty()) << message;
    EXPECT_EQ(heard_[at].front(), message);
    heard_[at].erase(heard_[at].begin());
  }

  void change_roles() {
    std::size_t const old = master_;
    EXPECT_EQ(ask(*asks_[old], {"FAILOVER", "TO", "127.0.0.1", ports_[1 - old]}).text, "OK");
    until(old, "role:slave");
    until(1 - old, "role:master");
    until(old, "master_link_status:up");
    until(1 - old, "connected_slaves:1");
    master_ = 1 - old;
    model_[old].set_replica(true);
    model_[master_].set_replica(false);
  }

 private:
  void set_time() {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    for (auto& m : model_) m.set_time_us(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  }

  void replicate() {
    for (auto const& effect : model_[master_].take_effects()) model_[1 - master_].apply(effect);
    model_[master_].acknowledge(1 - master_, model_[master_].offset());
  }

  static value ask(raw_redis_client& c, words const& argv) { return c.ask(views(argv)); }

  void until(std::size_t at, std::string const& what) {
    auto const seen = [&] { return ask(*asks_[at], {"INFO", "replication"}).text.find(what) != std::string::npos; };
    wait_until(what, seen, std::chrono::seconds{30});
  }

  std::array<real_redis_server, 2> real_;
  std::array<std::string, 2> ports_;
  std::array<std::unique_ptr<raw_redis_client>, 2> asks_, listens_;
  std::array<redis_model, 2> model_;
  std::array<redis_model::connection_id, 2> modelled_asks_{}, modelled_listens_{};
  std::array<std::vector<std::string>, 2> heard_;
  std::size_t master_ = 0;
  bool stands_still_ = false;
};

words script(std::string body) { return {"EVAL", std::move(body), "0"}; }

TEST(Replica, HearsWhatIsPublishedUnlessItIsKeptBack) {
  both_pairs both;
  // The replica's listener is not counted, but receives it.
  EXPECT_EQ(both.same(0, script("return redis.call('PUBLISH', 'ch', 'one')")), ":1");
  both.hears(0, "one");
  both.hears(1, "one");
  EXPECT_EQ(both.same(0, script("redis.set_repl(redis.REPL_NONE) local n = redis.call('PUBLISH', 'ch', 'kept back') "
                                "redis.set_repl(redis.REPL_ALL) redis.call('PUBLISH', 'ch', 'two') return n")),
            ":1");
  both.hears(0, "kept back");
  both.hears(0, "two");
  both.hears(1, "two");
  both.same(0, {"PUBLISH", "ch", "three"});
  both.hears(0, "three");
  both.hears(1, "three");
  EXPECT_EQ(both.same(1, script("return redis.call('PUBLISH', 'ch', 'of the replica')")), ":1");
  both.hears(1, "of the replica");
  both.same(0, {"PUBLISH", "ch", "four"});
  both.hears(0, "four");
}

TEST(Replica, HasWhatWasWrittenUnlessItIsKeptBackAndUntilTheSameTime) {
  both_pairs both;
  both.same(0, script("redis.set_repl(redis.REPL_NONE) redis.call('SET', 'a', '1') redis.set_repl(redis.REPL_ALL) "
                      "redis.call('SET', 'b', '2', 'PXAT', '99999999999999') redis.call('SET', 'c', '3') return 0"));
  both.same(0, script("return redis.call('ZADD', 'q', 7, 'x', 8, 'y')"));
  both.same(0, {"HSET", "h", "f", "v"});
  both.same(0, {"PEXPIREAT", "h", "99999999999998"});
  for (std::size_t at : {0, 1}) {
    for (char const* key : {"a", "b", "c"}) both.same(at, {"GET", key});
    both.same(at, {"PEXPIRETIME", "b"});
    both.same(at, {"PEXPIRETIME", "h"});
    both.same(at, {"ZRANGE", "q", "0", "-1"});
    both.same(at, {"HGET", "h", "f"});
  }
  EXPECT_EQ(both.same(1, {"GET", "a"}), "nil");
  both.same(0, script("redis.call('ZPOPMIN', 'q') redis.call('ZPOPMIN', 'q') return redis.call('DEL', 'b', 'c')"));
  EXPECT_EQ(both.same(1, {"EXISTS", "b", "c", "q", "h"}), ":1");
}

TEST(Replica, IsWaitedForUntilItHasWhatWasWritten) {
  both_pairs both;
  bool const own_only = both.waits_for_own_writes();
  auto a = both.connect(), b = both.connect(), c = both.connect();
  both.same(0, {"SET", "k", "1", "PX", "100000"});
  both.same(a, {"PING"});
  EXPECT_EQ(both.wait(a, 10'000), ":1");
  both.stand_still(true);
  EXPECT_EQ(both.wait(a, 50), ":1") << "what it had before";
  both.same(a, {"SET", "k", "2", "PX", "100000"});
  EXPECT_EQ(both.wait(a, 50), ":0");
  EXPECT_EQ(both.wait(c, 50), ":1") << "a connection that has asked for nothing yet";
  // What others have written before the last command of a connection counts before 7.2, and since then not.
  std::string const written_by_others = own_only ? ":1" : ":0";
  both.same(b, {"PING"});
  EXPECT_EQ(both.wait(b, 50), written_by_others);
  auto d = both.connect();
  both.same(d, script("return redis.call('GET', 'k')"));
  EXPECT_EQ(both.wait(d, 50), written_by_others) << "after a script that only reads";
  auto e = both.connect();
  both.same(e, {"PEXPIRE", "k", "5", "GT"});
  EXPECT_EQ(both.wait(e, 50), written_by_others) << "after a write that changed nothing";
  auto f = both.connect();
  both.same(f, script("return redis.call('SET', 'k', '2', 'PX', 100000)"));
  EXPECT_EQ(both.wait(f, 50), ":0") << "after one that wrote what was there";
  both.stand_still(false);
  EXPECT_EQ(both.same(0, {"SET", "k", "3"}), R"(+"OK")");
}

TEST(Replica, IsNotWaitedForAtAReplicaNorForAWrongTime) {
  both_pairs both;
  both.same(1, {"WAIT", "1", "10"});
  both.same(1, {"WAIT", "0", "10"});
  auto a = both.connect();
  both.same(a, {"WAIT", "x", "10"});
  both.same(a, {"WAIT", "1", "x"});
  both.same(a, {"WAIT", "1", "-1"});
  both.same(a, {"WAIT", "1"});
}

TEST(Replica, RefusesToWriteAndSaysSo) {
  both_pairs both;
  both.same(0, {"SET", "k", "v"});
  both.same(1, {"SET", "k", "w"});
  both.same(1, {"DEL", "nothing"});
  both.same(1, script("return redis.call('SET', 'k', 'w')"));
  both.same(1, script("redis.call('GET', 'k') return redis.call('ZREM', 'q', 'x')"));
  both.same(1, script("return redis.pcall('PEXPIRE', 'k', 5).err"));
  both.same(1, script("return redis.call('GET', 'k')"));
  both.same(1, {"PUBLISH", "ch", "a replica may"});
  both.hears(1, "a replica may");
}

TEST(Replica, AfterARoleChangeThoseWhoStayHearTheNewMasterAndMayNotWrite) {
  both_pairs both;
  both.same(0, {"SET", "k", "v", "PXAT", "99999999999999"});
  both.change_roles();
  both.same(0, {"SET", "k", "w"});
  EXPECT_EQ(both.same(1, {"SET", "k", "x"}), R"(+"OK")");
  EXPECT_EQ(both.same(0, {"GET", "k"}), both.same(1, {"GET", "k"}));
  EXPECT_EQ(both.same(1, script("redis.set_repl(redis.REPL_NONE) local n = redis.call('PUBLISH', 'ch', 'here') "
                                "redis.set_repl(redis.REPL_ALL) redis.call('PUBLISH', 'ch', 'and there') return n")),
            ":1");
  both.hears(1, "here");
  both.hears(1, "and there");
  both.hears(0, "and there");
  both.change_roles();
  EXPECT_EQ(both.same(0, {"SET", "k", "back"}), R"(+"OK")");
  both.same(1, {"SET", "k", "w"});
}

}  // namespace
}  // namespace conch::sim
