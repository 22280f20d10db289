// lua/*.lua on the model of Redis against src/rules, the definition: random commands of a few clients, which now and then lose their connection.
// Each reply as the client reads it, each push and all that is kept of a lock must be the same.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <variant>

#include "sim/differential/random_client_side.hpp"
#include "sim/differential/random_permits.hpp"
#include "sim/differential/rules_server.hpp"
#include "sim/differential/scripted_server.hpp"
#include "support/messages.hpp"

namespace conch::sim {
namespace {

/// CONCH_DIFFERENTIAL_STEPS: of each seed.
int steps_of_a_seed(int usual) {
  char const* const said = std::getenv("CONCH_DIFFERENTIAL_STEPS");
  return said != nullptr ? std::atoi(said) : usual;
}

/// The names that a command is about.
std::vector<std::string> names_of(protocol::command const& c) {
  std::vector<std::string> all;
  std::visit(
      [&](auto const& one) {
        if constexpr (requires { one.items; }) {
          for (auto const& item : one.items) all.emplace_back(item.name);
        } else if constexpr (requires { one.name; }) {
          all.emplace_back(one.name);
        }
      },
      c);
  return all;
}

std::string key_of(std::string const& name) {
  std::string bytes;
  redis::encode(protocol::command{protocol::inspect_command{name}}, "c", bytes);
  return test::only_command(bytes)[3];
}

bool is_of_shares(protocol::command const& c) {
  if (auto const* const acquire = std::get_if<protocol::acquire_command>(&c)) return acquire->permit != nullptr;
  if (auto const* const release = std::get_if<protocol::release_command>(&c)) return release->permit != nullptr;
  return false;
}

/// Of shares the scripts may say too early when the first lease ends (FIRST_END in lua/lib/permits.lua), and tell those in line of it for that reason.
/// A release in the short way does not tell the time.
void allow(protocol::command const& c, any_reply const& got, any_reply& expected) {
  auto const* const acquired = std::get_if<protocol::acquire_reply>(&got);
  if (auto* const a = std::get_if<protocol::acquire_reply>(&expected); a != nullptr && acquired != nullptr && is_of_shares(c)) {
    if (acquired->left_ms < a->left_ms) a->left_ms = acquired->left_ms;
  }
  auto const* const released = std::get_if<protocol::release_reply>(&got);
  if (auto* const r = std::get_if<protocol::release_reply>(&expected); r != nullptr && released != nullptr && released->server_us == 0) r->server_us = 0;
}

void allow(protocol::command const& c, seen_grants& got, seen_grants& expected) {
  if (!std::holds_alternative<protocol::release_command>(c) || !is_of_shares(c)) return;
  for (seen_grant const& e : expected) {
    if (e.fence != end_mark) continue;
    EXPECT_TRUE(std::any_of(got.begin(), got.end(), [&](seen_grant const& g) {
      return g.fence == end_mark && g.client == e.client && g.id == e.id && g.claim_ms <= e.claim_ms;
    })) << e;
  }
  for (seen_grants* const all : {&got, &expected}) std::erase_if(*all, [](seen_grant const& g) { return g.fence == end_mark; });
}

template <class Side>
void compare(Side& side, int steps, std::map<std::string, int>& happened) {
  std::vector<std::string> const clients = side.clients();
  scripted_server scripts{clients};
  rules_server rules;
  std::set<std::string> listening;
  auto const change = [&](std::string const& client) {
    bool const on = listening.insert(client).second;
    if (!on) listening.erase(client);
    scripts.subscribe(client, on);
    rules.subscribe(client, on);
  };
  for (auto const& client : clients) change(client);

  for (int step = 0; step < steps; ++step) {
    side.step();
    scripts.at(side.now());
    rules.at(side.now());
    std::string const client = side.client();
    if (side.rarely()) change(client);
    protocol::command command = side.command(client);
    // No client is patient where it asks again.
    if (auto* const release = std::get_if<protocol::release_command>(&command); release != nullptr && release->patient) release->new_id = 0;

    std::vector<lock_state> before;
    for (std::string const& name : names_of(command)) before.push_back(state_of(rules.locks[name], side.now()));
    auto got = scripts.carry_out(command, client);
    auto expected = rules.carry_out(command, client);
    auto const where = [&] {
      return "at step " + std::to_string(step) + " at " + std::to_string(side.now()) + ", " + client + " sends\n" + described(command) +
             "\nanswer: " + testing::PrintToString(got.answer) + "\nbefore: " + testing::PrintToString(before);
    };
    allow(command, got.reply, expected.reply);
    allow(command, got.pushes, expected.pushes);
    ASSERT_EQ(got.reply, expected.reply) << where();
    ASSERT_EQ(got.pushes, expected.pushes) << where();
    for (std::string const& name : names_of(command)) {
      rules::lock& l = rules.locks[name];
      lock_state const is = read_state(scripts, key_of(name), side.now());
      lock_state should = state_of(l, side.now());
      if (should.limit_is_set && is.kept > should.kept) {
        // The scripts remember a limit that was set somewhat longer, from whenever they look at its owners, and with it the line.
        l.kept += (is.kept - should.kept) * 1000;
        if (is.line_kept > should.line_kept) l.line_kept += (is.line_kept - should.line_kept) * 1000;
        should = state_of(l, side.now());
        ++happened["a limit kept longer"];
      }
      ASSERT_EQ(is, should) << where();
      ++happened["states"];
      happened["owners"] += static_cast<int>(should.owners.size());
      happened["in line"] += static_cast<int>(should.line.size());
    }
    happened["pushes"] += static_cast<int>(got.pushes.size());
    happened["wrong type"] += got.reply.index() == 0 ? 1 : 0;
  }
}

class RulesDifferential : public testing::TestWithParam<std::uint64_t> {
 protected:
  template <class Side>
  void compare_with(generator_options const& o) {
    use_small_steps(false);
    Side side{GetParam(), o};
    compare(side, steps_of_a_seed(12'000), happened_);
    for (char const* const what : {"states", "owners", "in line", "pushes"}) EXPECT_GT(happened_[what], 50) << what;
  }

  std::map<std::string, int> happened_;
};

TEST_P(RulesDifferential, TheScriptsDoWithAMutexWhatTheRulesSay) {
  compare_with<random_client_side>({.patience = GetParam() % 2 == 0, .many_names = GetParam() % 4 == 1, .near_2020 = GetParam() % 3 == 0});
}

TEST_P(RulesDifferential, TheScriptsDoWithALockOfSeveralOwnersWhatTheRulesSay) {
  compare_with<random_permits>(
      {.patience = GetParam() % 2 == 0, .many_names = GetParam() % 4 == 1, .near_2020 = GetParam() % 3 == 0, .owners_act = true});
  EXPECT_GT(happened_["wrong type"], 10);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RulesDifferential, testing::Range<std::uint64_t>(1, 13));

}  // namespace
}  // namespace conch::sim
