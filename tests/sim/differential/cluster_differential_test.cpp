// Two masters of a Cluster: two real servers, and two models. What the client relies on while a slot moves from one to
// the other: what is redirected and to where, what three keys may do, what a script may touch, which clients receive
// from a shard channel, and which are told that it left.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>

#include "sim/differential/real_redis_server.hpp"
#include "sim/model/redis_model.hpp"
#include "support/free_port.hpp"

#include <gtest/gtest.h>

namespace conch::sim {
namespace {

using words = std::vector<std::string>;

std::vector<std::string_view> views(words const& argv) { return {argv.begin(), argv.end()}; }

/// Servers say the same in other words: clients read no more than this.
std::string of_any_server(std::string text) {
  if (text.find("non local key") != std::string::npos) return "non local key";
  if (text.starts_with("-\"NOSCRIPT")) return "NOSCRIPT";
  return text;
}

/// Slots below `boundary` are at node 0, the others at node 1. Each has three connections.
class both_clusters {
 public:
  static constexpr int boundary = 8192;
  static constexpr std::size_t talkers = 3;

  both_clusters() {
    for (std::size_t i = 0; i < 2; ++i) {
      std::uint16_t const port = test::find_free_port();
      nodes_[i].port = port;
      nodes_[i].host = "127.0.0.1";
      real_[i] = std::make_unique<real_redis_server>(words{"--port", std::to_string(port), "--cluster-enabled", "yes",
                                                           "--cluster-announce-ip", "127.0.0.1",
                                                           "--cluster-node-timeout", "60000", "--bind", "127.0.0.1"});
      for (auto& t : talk_[i]) {
        t.real = std::make_unique<raw_redis_client>(real_[i]->socket_path());
        t.modelled = model_[i].connect("a:1");
        (void)t.real->ask(views({"HELLO", "3"}));
        model_[i].execute(t.modelled, views({"HELLO", "3"}));
      }
      nodes_[i].id = admin(i, {"CLUSTER", "MYID"}).text;
      admin(i, {"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
      admin(i, {"CLUSTER", "ADDSLOTSRANGE", i == 0 ? "0" : std::to_string(boundary),
                std::to_string(i == 0 ? boundary - 1 : 16383)});
      model_[i].join_cluster(nodes_[i]);
      model_[i].set_unsubscribed_channels_are_keys(is_redis_since_7_2(admin(i, {"INFO", "server"}).text));
    }
    admin(0, {"CLUSTER", "MEET", "127.0.0.1", std::to_string(nodes_[1].port)});
    for (std::size_t i = 0; i < 2; ++i) {
      until(i, "cluster_state:ok");
      until(i, "cluster_size:2");
      model_[i].assign_slots(0, boundary - 1, nodes_[0]);
      model_[i].assign_slots(boundary, redis_model::slot_count - 1, nodes_[1]);
      until_known(i);
    }
    agree_on(1);
  }

  /// Sent by one connection to one node of each pair: the answers, and the pushes to all, must be the same.
  std::string same(std::size_t at, std::size_t by, words const& argv) {
    set_time();
    talker& asks = talk_[at][by];
    asks.real->add(views(argv));
    asks.real->flush();
    bool const only_pushes = argv[0] == "SSUBSCRIBE" || argv[0] == "SUNSUBSCRIBE" || argv[0] == "SUBSCRIBE";
    std::string real;
    if (only_pushes) {
      auto const first = asks.real->read();
      if (first && first->type == value::kind::push) {
        asks.heard.push_back(describe(*first));
      } else if (first) {
        real = of_any_server(describe(*first));
      }
    } else {
      real = of_any_server(describe(reply(asks)));
    }
    value const modelled = model_[at].execute(asks.modelled, views(argv));
    std::string const expected = modelled.is(value::kind::none) ? std::string{} : of_any_server(describe(modelled));
    EXPECT_EQ(real, expected) << printed(at, by, argv);
    if (argv[0] != "ASKING") compare_pushes(printed(at, by, argv));  // it is for the next command only
    return real;
  }

  std::string same(std::size_t at, words const& argv) { return same(at, 0, argv); }

  void begin_to_move(int slot, std::size_t from) {
    admin(1 - from, {"CLUSTER", "SETSLOT", std::to_string(slot), "IMPORTING", nodes_[from].id});
    admin(from, {"CLUSTER", "SETSLOT", std::to_string(slot), "MIGRATING", nodes_[1 - from].id});
    model_[1 - from].set_importing(slot, nodes_[from]);
    model_[from].set_migrating(slot, nodes_[1 - from]);
  }

  void move_key(std::string const& key, std::size_t from) {
    set_time();
    std::string const said =
        admin(from, {"MIGRATE", "127.0.0.1", std::to_string(nodes_[1 - from].port), key, "0", "10000", "REPLACE"}).text;
    EXPECT_EQ(said == "OK", model_[from].move_key(key, model_[1 - from])) << said;
  }

  void end_move(int slot, std::size_t from) {
    for (std::size_t const i : {1 - from, from}) {
      admin(i, {"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", nodes_[1 - from].id});
      model_[i].assign_slots(slot, slot, nodes_[1 - from]);
      model_[i].set_importing(slot, {});
    }
    agree_on(1 - from);
    compare_pushes("SETSLOT NODE");
  }

  std::string address(std::size_t i) const { return nodes_[i].host + ':' + std::to_string(nodes_[i].port); }
  std::vector<std::string> take_heard(std::size_t at, std::size_t by) {
    return std::exchange(talk_[at][by].compared, {});
  }

 private:
  struct talker {
    std::unique_ptr<raw_redis_client> real;
    redis_model::connection_id modelled = 0;
    std::vector<std::string> heard;     // of the real server, not compared yet
    std::vector<std::string> compared;  // and found the same
  };

  static std::string without_counts(std::string push) {
    auto const end = push.starts_with("push[\"sunsubscribe") ? push.rfind(", :") : std::string::npos;
    return end == std::string::npos ? push : push.substr(0, end);
  }

  static bool is_redis_since_7_2(std::string const& info) {
    return info.find("\r\nvalkey_version:") == std::string::npos && is_since_7_2(info);
  }

  static std::string printed(std::size_t at, std::size_t by, words const& argv) {
    std::string text = std::to_string(at) + '/' + std::to_string(by) + ':';
    for (auto const& word : argv) text += ' ' + word;
    return text;
  }

  void compare_pushes(std::string const& after) {
    for (std::size_t i = 0; i < 2; ++i) {
      auto const pushes = model_[i].take_pushes();
      for (auto& t : talk_[i]) {
        t.real->add(views({"PING"}));
        t.real->flush();
        (void)reply(t);
        model_[i].execute(t.modelled, views({"PING"}));
        std::vector<std::string> expected;
        for (auto const& p : pushes) {
          if (p.to == t.modelled) expected.push_back(without_counts(describe(p.message)));
        }
        // Several channels of a slot leave in an order that only the server knows.
        std::sort(expected.begin(), expected.end());
        for (auto& one : t.heard) one = without_counts(one);
        std::sort(t.heard.begin(), t.heard.end());
        EXPECT_EQ(t.heard, expected) << "at node " << i << " after " << after;
        t.compared.insert(t.compared.end(), expected.begin(), expected.end());
        t.heard.clear();
      }
    }
  }

  /// The next that is not a push; pushes are kept.
  static value reply(talker& t) {
    for (;;) {
      auto got = t.real->read();
      if (!got) throw std::runtime_error{"the server has closed the connection"};
      if (got->type != value::kind::push) return *got;
      t.heard.push_back(describe(*got));
    }
  }

  value admin(std::size_t at, words const& argv) {
    raw_redis_client c{real_[at]->socket_path()};
    return c.ask(views(argv));
  }

  void until(std::size_t at, std::string const& what) {
    wait_until(what, [&] { return admin(at, {"CLUSTER", "INFO"}).text.find(what) != std::string::npos; });
  }

  /// A slot that goes back before the others know its new owner's epoch may be taken from it by an old message of
  /// theirs.
  void agree_on(std::size_t owner) {
    wait_until("one epoch, the new owner's", [&] {
      std::string const of_owner = admin(owner, {"CLUSTER", "INFO"}).text,
                        of_other = admin(1 - owner, {"CLUSTER", "INFO"}).text;
      std::string const epoch = field(of_owner, "cluster_my_epoch");
      return field(of_owner, "cluster_current_epoch") == epoch && field(of_other, "cluster_current_epoch") == epoch;
    });
  }

  static std::string field(std::string const& info, std::string const& name) {
    auto const at = info.find(name + ':') + name.size() + 1;
    return info.substr(at, info.find('\r', at) - at);
  }

  void until_known(std::size_t at) {
    std::string const other = nodes_[1 - at].id;
    wait_until("all slots", [&] {
      value const all = admin(at, {"CLUSTER", "SLOTS"});
      return all.items.size() == 2 &&
             (all.items[0].items[2].items[2].text == other || all.items[1].items[2].items[2].text == other);
    });
  }

  void set_time() {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    for (auto& m : model_) m.set_time_us(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  }

  std::array<std::unique_ptr<real_redis_server>, 2> real_;
  std::array<redis_model, 2> model_;
  std::array<redis_model::node, 2> nodes_;
  std::array<std::array<talker, talkers>, 2> talk_;
};

words on(std::string body, std::vector<std::string> const& keys) {
  words argv{"EVAL", std::move(body), std::to_string(keys.size())};
  argv.insert(argv.end(), keys.begin(), keys.end());
  return argv;
}

// "{t}" is in slot 15891 and so at node 1; "{a}" in 15495.
constexpr std::size_t source = 1, target = 0;
int const slot = redis_model::slot_of("t");
std::string const set_all = "for i, k in ipairs(KEYS) do redis.call('SET', k, i) end return #KEYS";

TEST(Cluster, SaysWhereAKeyIs) {
  both_clusters both;
  ASSERT_GE(slot, both_clusters::boundary);
  EXPECT_EQ(both.same(target, {"GET", "{t}a"}), "-\"MOVED " + std::to_string(slot) + ' ' + both.address(source) + '"');
  both.same(source, {"GET", "{t}a"});
  for (char const* key : {"a", "{}b", "x{t}y{u}", "{t", "}{t}", "{{t}}", ""})
    both.same(target, {"CLUSTER", "KEYSLOT", key});
  for (std::size_t at : {0, 1}) {
    both.same(at, {"CLUSTER", "SLOTS"});
    both.same(at, {"CLUSTER", "MYID"});
    both.same(at, {"DEL", "{t}a", "{u}b"});
    both.same(at, on(set_all, {"{t}a", "{u}b"}));
    both.same(at, on(set_all, {}));
    both.same(at, on("return redis.call('GET', '{t}a')", {}));
    both.same(at, on("return redis.pcall('SET', '{t}a', 1).err", {}));
    both.same(at, {"EVALSHA", "x", "1", "{t}a"});
    both.same(at, {"ASKING"});
    both.same(at, {"GET", "{t}a"});
    both.same(at, {"SPUBLISH", "{t}ch", "m"});
    both.same(at, {"SSUBSCRIBE", "{t}ch", "{u}ch"});
    both.same(at, {"SELECT", "0"});
  }
}

TEST(Cluster, D4InAMigratingSlotThreeKeysMustWait) {
  both_clusters both;
  both.same(source, {"SET", "{t}a", "1"});
  both.begin_to_move(slot, source);
  std::vector<std::string> const three{"{t}a", "{t}b", "{t}c"}, other{"{t}x", "{t}y", "{t}z"};
  EXPECT_EQ(both.same(source, on(set_all, three)).substr(0, 10), "-\"TRYAGAIN");
  EXPECT_EQ(both.same(source, on(set_all, other)).substr(0, 5), "-\"ASK");
  both.same(source, on(set_all, {"{t}a"}));
  both.same(source, on(set_all, {"{t}x"}));
  for (auto const& keys : {three, other, {"{t}a"}, {"{t}x"}}) {
    both.same(target, on(set_all, keys));
    both.same(target, {"ASKING"});
    both.same(target, on(set_all, keys));
  }
  both.move_key("{t}a", source);
  both.same(source, on(set_all, three));
  both.same(target, {"ASKING"});
  both.same(target, on(set_all, {"{t}a"}));
  both.same(target, {"ASKING"});
  both.same(target, {"GET", "{t}a"});
  both.same(target, {"GET", "{t}a"});
  both.end_move(slot, source);
  EXPECT_EQ(both.same(target, on(set_all, three)), ":3");
  both.same(source, on(set_all, three));
}

TEST(Cluster, D6AScriptThatEmptiesALineAtTheSourceEndsInTheMiddle) {
  both_clusters both;
  both.same(source, {"ZADD", "{t}q", "1", "x"});
  both.same(source, {"SET", "{t}a", "1"});
  both.begin_to_move(slot, source);
  EXPECT_EQ(
      both.same(source,
                on("redis.call('SET', KEYS[2], 2) redis.call('ZPOPMIN', KEYS[1]) return redis.call('ZCARD', KEYS[1])",
                   {"{t}q", "{t}a"})),
      "non local key");
  EXPECT_EQ(both.same(source, {"GET", "{t}a"}), "\"2\"") << "what it did before stays";
}

TEST(Cluster, D7WhoListensIsToldThatTheSlotHasLeft) {
  both_clusters both;
  both.same(source, 1, {"SSUBSCRIBE", "{t}one"});
  both.same(source, 1, {"SSUBSCRIBE", "{a}stays"});
  both.same(source, 2, {"SSUBSCRIBE", "{t}one"});
  EXPECT_EQ(both.same(source, on("return redis.call('SPUBLISH', '{t}one', 'm')", {"{t}a"})), ":2");
  both.same(target, 1, {"SSUBSCRIBE", "{t}one"});
  both.begin_to_move(slot, source);
  EXPECT_EQ(both.same(source, on("return redis.call('SPUBLISH', '{t}one', 'n')", {"{t}a"})).substr(0, 5), "-\"ASK");
  both.same(source, {"SPUBLISH", "{t}one", "o"});
  both.same(source, 2, {"SSUBSCRIBE", "{t}two"});
  both.same(target, {"ASKING"});
  EXPECT_EQ(both.same(target, on("return redis.call('SPUBLISH', '{t}one', 'p')", {"{t}a"})), ":0")
      << "D5: they listen at the source";
  both.end_move(slot, source);
  auto const told = both.take_heard(source, 1);
  ASSERT_FALSE(told.empty());
  EXPECT_NE(told.back().find("sunsubscribe"), std::string::npos) << told.back();
  both.same(source, 1, {"SSUBSCRIBE", "{t}one"});
  both.same(target, 1, {"SSUBSCRIBE", "{t}one"});
  EXPECT_EQ(both.same(target, on("return redis.call('SPUBLISH', '{t}one', 'q')", {"{t}a"})), ":1");
  both.same(source, 1, {"SUNSUBSCRIBE", "{a}stays"});
  both.same(source, 1, {"SUNSUBSCRIBE", "{t}one"});
}

TEST(Cluster, RandomCommandsWhileASlotMoves) {
  both_clusters both;
  std::mt19937 random{20261124};
  auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::size_t from = source;
  enum { at_rest, moves } state = at_rest;
  std::vector<std::string> const names{"{t}a", "{t}b", "{t}c", "{t}q"};
  for (int i = 0; i < 1500 && !::testing::Test::HasFailure(); ++i) {
    std::size_t const at = below(2), by = below(both_clusters::talkers), what = below(12);
    // Not before SSUBSCRIBE (6): on Valkey who asked so is taken off at the end of the move, and on Redis not (D8).
    if (below(3) == 0 && what > 1 && what != 6) both.same(at, by, {"ASKING"});
    std::string const key = names[below(3)];
    switch (what) {
      case 0:
        if (state == at_rest) {
          both.begin_to_move(slot, from);
          state = moves;
        } else if (below(3) == 0) {
          for (auto const& one : names) both.move_key(one, from);
          both.end_move(slot, from);
          from = 1 - from;
          state = at_rest;
        }
        break;
      case 1:
        if (state == moves) both.move_key(names[below(4)], from);
        break;
      case 2: both.same(at, by, {"SET", key, "v"}); break;
      case 3: both.same(at, by, {"DEL", key, names[below(3)]}); break;
      case 4: both.same(at, by, on(set_all, {names[below(3)], names[below(3)], names[below(3)]})); break;
      case 5: both.same(at, by, on("return redis.call('SPUBLISH', '{t}ch', ARGV[1] or 'm')", {key})); break;
      case 6: both.same(at, by, {"SSUBSCRIBE", "{t}ch"}); break;
      case 7: both.same(at, by, {"SPUBLISH", "{t}ch", "m" + std::to_string(i)}); break;
      case 8: both.same(at, by, {"ZADD", "{t}q", "1", std::to_string(below(3))}); break;
      case 9:
        both.same(
            at, by,
            on("local e = redis.call('ZPOPMIN', KEYS[1]) return {#e, redis.call('ZCARD', KEYS[1])}", {"{t}q", key}));
        break;
      case 10: both.same(at, by, on("return {redis.call('GET', '{t}b'), redis.pcall('SET', '{t}c', 1)}", {key})); break;
      case 11: both.same(at, by, {"SUNSUBSCRIBE", "{t}ch"}); break;
      default: both.same(at, by, {"GET", key}); break;
    }
  }
}

}  // namespace
}  // namespace conch::sim
