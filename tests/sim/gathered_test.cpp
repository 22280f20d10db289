// lua/gathered.lua against lua/acquire.lua and lua/release.lua: whatever lies there, several locks in one script are
// done and answered as each alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/gathering.hpp"
#include "resp/decoder.hpp"
#include "servers/redis/codec.hpp"
#include "sim/differential/compared.hpp"
#include "sim/differential/random_gathering.hpp"
#include "sim/model/redis_model.hpp"
#include "sim/mutants/mutants.hpp"
#include "support/messages.hpp"

namespace conch::sim {
namespace {

using protocol::acquire_command;
using protocol::release_command;
using std::chrono::milliseconds;

constexpr auto& clients = random_gathering::clients;
constexpr char const* states[] = {"granted", "queued", "busy", "too late", "released", "fault"};

/// A server with some clients, of which some are subscribed.
class one_server {
 public:
  one_server() : admin_{model_.connect("10.0.0.1:1")} {
    for (std::string_view const client : clients) {
      auto const id = model_.connect("10.0.0.1:" + std::to_string(2 + subscribers_.size()));
      std::string_view const hello[] = {"HELLO", "3"};
      model_.execute(id, hello);
      subscribers_[id] = client;
    }
  }

  void at(std::int64_t now_us) {
    model_.set_time_us(now_us);
    model_.expire_cycle();
  }

  void hears(std::string_view client, bool yes) {
    for (auto const& [id, who] : subscribers_) {
      if (who != client) continue;
      std::string const channel = "conch:" + std::string{client};
      std::string_view const argv[] = {yes ? "SUBSCRIBE" : "UNSUBSCRIBE", channel};
      model_.execute(id, argv);
    }
    model_.take_pushes();
  }

  value by_hand(std::vector<std::string> const& words) {
    std::vector<std::string_view> const argv{words.begin(), words.end()};
    return model_.execute(admin_, argv);
  }

  value carry_out(std::string const& bytes) {
    resp::decoder in;
    auto const message = test::only_message(in, bytes);
    std::vector<std::string_view> words;
    for (auto const& node : message.subspan(1)) words.push_back(node.text);
    words[1] = mutated_script(words[1]);
    return model_.execute(admin_, words);
  }

  /// All pushes of the script, by receiver: to one client several come in the order of their locks.
  std::vector<std::string> pushes() {
    std::vector<std::string> all;
    for (auto const& push : model_.take_pushes()) {
      std::string const to{subscribers_.at(push.to)};
      all.push_back(to + ": " + push.message.items.back().text);
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  std::string content() const {
    std::string out;
    for (auto const& key : model_.keys()) {
      out += key.name + "=" + describe(model_.peek(key.name)) + " until " +
             std::to_string(key.expires_at_ms.value_or(0)) + "\n";
    }
    return out;
  }

 private:
  redis_model model_{protocol::fence_epoch_us + 1'000'000'000'000};
  redis_model::connection_id admin_;
  std::map<redis_model::connection_id, std::string_view> subscribers_;
};

/// As the client reads an answer. What a release says of the time is not compared: alone it does not always tell it.
std::string read(protocol::command const& c, value const& reply) {
  std::string bytes;
  append_resp(bytes, reply);
  resp::decoder in;
  auto const message = test::only_message(in, bytes);
  std::vector<std::int64_t> numbers;
  any_reply said = read_reply(c, redis::to_answer(message, numbers));
  if (auto* const r = std::get_if<protocol::release_reply>(&said)) r->server_us = 0;
  return ::testing::PrintToString(said);
}

struct comparison {
  std::string difference;               // the first; empty: there is none
  std::map<std::string, int> happened;  // how often each of the states
};

comparison compare(std::uint64_t seed, int steps) {
  comparison result;
  one_server alone, together;
  bool const votes = seed % 3 == 0;
  random_gathering side{seed, votes, {.shortest = milliseconds{500}, .claim = milliseconds{200}}};
  use_small_steps(false);
  for (int step = 0; step < steps; ++step) {
    auto const differs = [&](std::string const& what, std::string const& is, std::string const& must_be) {
      if (is != must_be)
        result.difference = "step " + std::to_string(step) + ", " + what + ": " + is + ", alone: " + must_be;
      return is != must_be;
    };
    side.step();
    for (one_server* s : {&alone, &together}) s->at(side.now_us());
    if (auto const change = side.subscription()) {
      for (one_server* s : {&alone, &together}) s->hears(clients[change->client], change->hears);
    }
    for (auto const& words : side.tampering(milliseconds{5'000})) {
      for (one_server* s : {&alone, &together}) s->by_hand(words);
    }
    std::string_view const client = clients[side.client()];
    protocol::gathering all;
    auto const commands = side.commands();
    std::vector<std::string> expected;
    for (protocol::command const& c : commands) {
      if (!all.add(c, 0)) result.difference = "a command does not fit to those before it";
      std::string bytes;
      protocol::command with_source = c;
      if (auto* const a = std::get_if<acquire_command>(&with_source)) a->with_source = true;
      if (auto* const r = std::get_if<release_command>(&with_source)) r->with_source = true;
      redis::encode(with_source, client, bytes);
      expected.push_back(read(c, alone.carry_out(bytes)));
      for (char const* const what : states)
        result.happened[what] += expected.back().find(what) != std::string::npos ? 1 : 0;
    }
    std::string bytes;
    redis::encode(all, client, true, bytes);
    value const reply = together.carry_out(bytes);
    bool const is_list = reply.is(value::kind::array) && reply.items.size() == commands.size();
    if (differs("the answers", is_list ? "a list" : describe(reply), "a list")) return result;
    for (std::size_t i = 0; i < commands.size(); ++i) {
      if (differs("command " + std::to_string(i), read(commands[i], reply.items[all.places()[i]]), expected[i]))
        return result;
    }
    if (differs("pushes", ::testing::PrintToString(together.pushes()), ::testing::PrintToString(alone.pushes())))
      return result;
    if (differs("keys", together.content(), alone.content())) return result;
  }
  return result;
}

class Gathered : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Gathered, DoesAndAnswersWhatEachWouldAlone) {
  comparison const c = compare(GetParam(), 1'500);
  EXPECT_EQ(c.difference, "");
  // A generator that never gets into a state proves nothing about it.
  for (char const* const what : states) EXPECT_GT(c.happened.at(what), 3) << what;
}

/// Mistakes in lua/gathered.lua alone: what each command does by itself is right.
TEST(GatheredMistakes, EachShowsAsADifference) {
  struct mistake {
    char const *what, *from, *to;
  };
  mistake const all[] = {
      {"the place in line is lost", "ticket = tonumber(ticket)", "ticket = 0"},
      {"milliseconds for microseconds", "now > tonumber(not_after)", "now / 1000 > tonumber(not_after)"},
      {"not-after is not looked at", "not_after ~= '0' and", "false and"},
      {"the owner's id is compared by its beginning only", "ARGV[at] .. ' ', 1, true) ~= 1", "ARGV[at], 1, true) ~= 1"},
      {"a line is not looked at", "'EXISTS', unpack(KEYS, 1, 2 * asked)", "'EXISTS', unpack(KEYS, 1, asked)"},
      {"a release looks at the first line only", "first_key + returned + 1, first_key + 2 * returned)) == 0",
       "first_key + returned + 1, first_key + returned + 1)) == 0"},
      {"the earlier fence is forgotten", "grant, found_before[i]", "grant, 0"},
      {"watchers are not told", "elseif deleted > returned then", "elseif false then"},
      {"the proposal of a vote is forgotten", "votes and tonumber(ARGV[at + 3]) or nil", "nil"},
      {"a vote is granted as a hold", "votes and 'c' or 'h'", "'h'"},
      {"the floor of a vote is forgotten", "(tonumber(fences[i] or 0) or 0) < least", "false"},
      {"the new id of a release is forgotten", "not ids_alone and ARGV[at + 1] ~= '' and ARGV[at + 1] or nil", "nil"},
      {"a release with a new id is taken for a plain one", "(ids_alone or ARGV[at + 1] == '')", "true"},
      {"a lock takes the place of another", "answers[asked + i] = alone(release, values[i])",
       "answers[asked + i] = alone(release, values[1])"},
      {"an error ends the script", "local fine, answer = pcall(work, argument)",
       "local fine, answer = true, work(argument)"},
      {"alerts are left", "both_keys[i], both_keys[returned + i] = key, key .. ':a'",
       "both_keys[i], both_keys[returned + i] = key, key"},
  };
  for (mistake const& one : all) {
    mutant const m{
        .name = one.what, .words = one.what, .rule = "", .script = "gathered", .from = one.from, .to = one.to};
    activate(&m);
    EXPECT_NE(mutated_source("gathered").find(one.to), std::string_view::npos) << one.what;
    bool shows = false;
    for (std::uint64_t seed = 1; seed <= 30 && !shows; ++seed) shows = !compare(seed, 1'500).difference.empty();
    activate(nullptr);
    EXPECT_TRUE(shows) << one.what;
  }
}

/// Locks that are given back together, of which some have watchers, alone or behind what is acquired. Random commands
/// seldom come to that, since a script that only gives back, and of which every lock is its client's, is rare.
std::string difference_with_watchers() {
  constexpr milliseconds lease{5000}, claim{200}, retention{9000};
  for (unsigned course = 0; course < 48; ++course) {
    unsigned const watched = course % 4, acquired = course / 4 % 3;
    bool const another_waits = course / 12 % 2 != 0, again = course / 24 != 0;
    one_server alone, together;
    std::vector<protocol::command> all;
    for (std::size_t i = 0; i < acquired; ++i)
      all.emplace_back(acquire_command{random_gathering::names[2 + i], 1, true, lease, claim, retention});
    for (std::size_t i = 0; i < 2; ++i) {
      release_command c{.name = random_gathering::names[i], .id = 1, .lease = lease, .claim = claim};
      c.retention = retention;
      if (again && i == 1) c.new_id = 2;
      all.emplace_back(c);
    }
    protocol::gathering gathered;
    std::vector<std::string> expected;
    for (one_server* s : {&alone, &together}) {
      s->hears("b", true);
      for (unsigned i = 0; i < 2; ++i) {
        auto const key = [&](std::string_view suffix) {
          return random_gathering::key(random_gathering::names[i], suffix);
        };
        s->by_hand({"SET", key(""), "a.1 7 h", "PX", "5000"});
        if (another_waits && i == 1) s->by_hand({"ZADD", key(":q"), "5", "b.5"});
        if ((watched >> i & 1) == 0) continue;
        s->by_hand({"ZADD", key(":w"), "5", "b.9"});
        s->by_hand({"SET", key(":a"), "", "PX", "9000"});
      }
    }
    for (protocol::command const& c : all) {
      std::string bytes;
      protocol::command with_source = c;
      std::visit(
          [](auto& one) {
            if constexpr (requires { one.with_source; }) one.with_source = true;
          },
          with_source);
      redis::encode(with_source, "a", bytes);
      expected.push_back(read(c, alone.carry_out(bytes)));
      if (!gathered.add(c, 0)) return "they do not fit together";
    }
    std::string bytes;
    redis::encode(gathered, "a", true, bytes);
    value const reply = together.carry_out(bytes);
    std::string const where = "course " + std::to_string(course) + ": ";
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (read(all[i], reply.items.at(gathered.places()[i])) != expected[i])
        return where + "the answer to command " + std::to_string(i);
    }
    if (together.pushes() != alone.pushes()) return where + "who is told";
    if (together.content() != alone.content()) return where + "what is left";
  }
  return {};
}

TEST(GatheredWatchers, AreToldAsByEachAlone) { EXPECT_EQ(difference_with_watchers(), ""); }

TEST(GatheredWatchers, EachMistakeShowsAsADifference) {
  struct mistake {
    char const *what, *from, *to;
  };
  mistake const all[] = {
      {"not told if nothing else is asked",
       "if unanswered == 0 and (all_plain or returned == 0) and deleted <= returned",
       "if unanswered == 0 and (all_plain or returned == 0)"},
      {"not told behind what else is asked", "elseif deleted > returned then", "elseif false then"},
      {"alerts are left", "both_keys[i], both_keys[returned + i] = key, key .. ':a'",
       "both_keys[i], both_keys[returned + i] = key, key"},
  };
  for (mistake const& one : all) {
    mutant const m{
        .name = one.what, .words = one.what, .rule = "", .script = "gathered", .from = one.from, .to = one.to};
    activate(&m);
    EXPECT_NE(difference_with_watchers(), "") << one.what;
    activate(nullptr);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Gathered, ::testing::Range(std::uint64_t{1}, std::uint64_t{13}));

}  // namespace
}  // namespace conch::sim
