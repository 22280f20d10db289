// lua/gathered.lua against lua/acquire.lua and lua/release.lua: whatever lies there, several locks in one script are done and answered as each alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/gathering.hpp"
#include "redis/codec.hpp"
#include "resp/decoder.hpp"
#include "sim/differential/compared.hpp"
#include "sim/model/redis_model.hpp"
#include "sim/mutants/mutants.hpp"
#include "support/only_message.hpp"

namespace conch::sim {
namespace {

using protocol::acquire_command;
using protocol::release_command;
using std::chrono::milliseconds;

constexpr std::string_view clients[] = {"a", "b", "c"};
constexpr char const* states[] = {"granted", "queued", "busy", "too late", "released", "fault"};
constexpr std::string_view names[] = {"K", "L", "M", "N"};

/// A server with some clients, of which some hear.
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
      out += key.name + "=" + describe(model_.peek(key.name)) + " until " + std::to_string(key.expires_at_ms.value_or(0)) + "\n";
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

class Gathered : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  std::int64_t pick(std::int64_t least, std::int64_t most) { return std::uniform_int_distribution<std::int64_t>{least, most}(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }

  /// A client that asks twice under one id, or gives back what it never had, is answered in the same way, too.
  engine::grant_id some_id(bool votes) { return static_cast<engine::grant_id>(votes ? pick(1, 3) * protocol::attempts_per_ticket + 1 : pick(1, 4)); }

  std::mt19937_64 random_{GetParam()};
};

TEST_P(Gathered, DoesAndAnswersWhatEachWouldAlone) {
  one_server alone, together;
  std::map<std::string, int> happened;
  std::int64_t now_us = protocol::fence_epoch_us + 1'000'000'000'000;
  bool const votes = GetParam() % 3 == 0;
  use_small_steps(false);
  for (int step = 0; step < 1'500; ++step) {
    now_us += pick(0, 3) == 0 ? pick(1, 4'000'000) : pick(0, 60'000);
    if (chance(3)) now_us -= pick(1, 3'000'000);
    for (one_server* s : {&alone, &together}) s->at(now_us);
    if (chance(20)) {
      std::string_view const client = clients[pick(0, 2)];
      bool const yes = chance(60);
      for (one_server* s : {&alone, &together}) s->hears(client, yes);
    }
    if (chance(2)) {
      std::string const key =
          "conch:{" + std::string{names[pick(0, 3)]} + "}" + std::vector<std::string>{"", ":q", ":f", ":w"}[static_cast<std::size_t>(pick(0, 3))];
      std::vector<std::vector<std::string>> const tampers{
          {"DEL", key}, {"SET", key, "what"}, {"HSET", key, "what", "else"}, {"ZADD", key, "5", "b.1"}, {"SET", key + ":a", "", "PX", "5000"}};
      auto const& words = tampers[static_cast<std::size_t>(pick(0, std::ssize(tampers) - 1))];
      for (one_server* s : {&alone, &together}) s->by_hand(words);
    }
    std::string_view const client = clients[pick(0, 2)];
    milliseconds const lease{pick(1, 3) * 500}, claim{200}, retention{pick(1, 3) * 1'000};
    bool const wait = chance(70);
    protocol::gathering all;
    std::vector<protocol::command> commands;
    std::vector<std::string_view> left{std::begin(names), std::end(names)};
    std::shuffle(left.begin(), left.end(), random_);
    for (std::int64_t n = pick(2, 4); n > 0; --n, left.pop_back()) {
      if (chance(55)) {
        acquire_command c{.name = left.back(), .id = some_id(votes), .wait = wait, .lease = lease, .claim = claim, .retention = retention};
        if (chance(20)) c.ticket = now_us - pick(-100, 100);
        if (chance(10)) c.not_after_us = now_us + pick(-1, 1);
        if (votes) c.proposal = chance(50) ? now_us - protocol::fence_epoch_us + pick(-2, 2) : 1;
        commands.emplace_back(c);
      } else {
        release_command c{.name = left.back(), .id = some_id(votes), .lease = lease, .claim = claim, .retention = retention};
        if (chance(20) && !votes) c.new_id = static_cast<engine::grant_id>(pick(11, 14));
        if (votes) c.floor = chance(70) ? now_us - protocol::fence_epoch_us - pick(0, 1'000'000) : 1;
        if (votes) c.next_fence_floor = chance(30) ? now_us - protocol::fence_epoch_us + 5 : 0;
        commands.emplace_back(c);
      }
      ASSERT_TRUE(all.add(commands.back(), 0));
    }
    std::vector<std::string> expected, told_alone;
    for (protocol::command const& c : commands) {
      std::string bytes;
      protocol::command with_source = c;
      if (auto* const a = std::get_if<acquire_command>(&with_source)) a->with_source = true;
      if (auto* const r = std::get_if<release_command>(&with_source)) r->with_source = true;
      redis::encode(with_source, client, bytes);
      expected.push_back(read(c, alone.carry_out(bytes)));
      for (char const* const what : states) happened[what] += expected.back().find(what) != std::string::npos ? 1 : 0;
    }
    std::string bytes;
    redis::encode(all, client, true, bytes);
    value const reply = together.carry_out(bytes);
    ASSERT_TRUE(reply.is(value::kind::array)) << describe(reply);
    ASSERT_EQ(reply.items.size(), commands.size());
    for (std::size_t i = 0; i < commands.size(); ++i) {
      ASSERT_EQ(read(commands[i], reply.items[all.places()[i]]), expected[i]) << "step " << step << ", command " << i << ": " << describe(reply);
    }
    ASSERT_EQ(together.pushes(), alone.pushes()) << "step " << step;
    ASSERT_EQ(together.content(), alone.content()) << "step " << step;
  }
  // A generator that never gets into a state proves nothing about it.
  for (char const* const what : states) EXPECT_GT(happened[what], 3) << what;
}

INSTANTIATE_TEST_SUITE_P(Seeds, Gathered, ::testing::Range(std::uint64_t{1}, std::uint64_t{13}));

}  // namespace
}  // namespace conch::sim
