// lua/gathered.lua against lua/acquire.lua and lua/release.lua: whatever lies there, several locks in one script are done and answered as each alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/gathering.hpp"
#include "redis/codec.hpp"
#include "resp/decoder.hpp"
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

class Gathered : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Gathered, DoesAndAnswersWhatEachWouldAlone) {
  one_server alone, together;
  std::map<std::string, int> happened;
  bool const votes = GetParam() % 3 == 0;
  random_gathering side{GetParam(), votes, {.shortest = milliseconds{500}, .claim = milliseconds{200}}};
  use_small_steps(false);
  for (int step = 0; step < 1'500; ++step) {
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
    for (auto const& c : commands) ASSERT_TRUE(all.add(c, 0));
    std::vector<std::string> expected;
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
