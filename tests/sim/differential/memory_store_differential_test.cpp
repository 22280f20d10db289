// memory:// against the rules that it follows, and against the real scripts in what it remembers. The scripts and the
// rules are compared in rules_differential_test.cpp.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "servers/memory/store.hpp"
#include "sim/differential/random_client_side.hpp"
#include "sim/differential/random_permits.hpp"
#include "sim/differential/rules_server.hpp"
#include "sim/differential/scripted_server.hpp"

namespace conch::sim {
namespace {

class MemoryStore : public testing::TestWithParam<std::uint64_t> {};

/// The store against the rules that it follows: each reply and each push.
template <class Side>
void compare_with_rules(Side& side, int steps) {
  rules_server rules;
  memory::store store;
  seen_grants pushed;
  listening_clients listeners{side.clients(), store, rules, pushed};
  for (int step = 0; step < steps; ++step) {
    side.step();
    rules.at(side.now());
    std::string const client = side.client();
    if (side.rarely()) listeners.change(client, rules);
    protocol::command const command = side.command(client);
    auto const expected = rules.carry_out(command, client);
    pushed.clear();
    ASSERT_EQ(reply_of(store, command, client, side.now()), expected.reply)
        << "step " << step << ", " << client << " sends\n"
        << described(command);
    ASSERT_EQ(pushed, expected.pushes) << "step " << step << ", " << client << " sends\n" << described(command);
  }
}

TEST_P(MemoryStore, AnswersAndPushesWhatTheRulesSayOfAMutex) {
  random_client_side side{GetParam(), {.many_names = GetParam() % 2 == 0}};
  compare_with_rules(side, 6'000);
}

TEST_P(MemoryStore, AnswersAndPushesWhatTheRulesSayOfALockWithSeveralOwners) {
  random_permits side{GetParam(), {.many_names = GetParam() % 2 == 0, .owners_act = true}};
  compare_with_rules(side, 6'000);
}

TEST_P(MemoryStore, ForgetsWhatTheServerForgets) {
  random_client_side side{GetParam() + 1000};
  scripted_server scripts{side.clients()};
  memory::store store;
  for (int step = 0; step < 500; ++step) {
    side.step();
    scripts.at(side.now());
    std::string const client = side.client();
    protocol::command const command = side.command(client);
    scripts.carry_out(command, client);
    reply_of(store, command, client, side.now());
    // A lock has up to six keys.
    ASSERT_LE(store.size(), scripts.key_count()) << "step " << step << '\n' << described(command);
    ASSERT_GE(store.size() * 6, scripts.key_count()) << "step " << step << '\n' << described(command);
  }
}

TEST(MemoryStoreTries, StopAtALockOfAnotherKindAndSayWhatTheyHave) {
  using namespace std::chrono_literals;
  constexpr std::int64_t now_us = 1'700'000'000'000'000;
  scripted_server scripts{{"c"}};
  scripts.at(now_us);
  memory::store store;
  auto const both = [&](protocol::command const& command) {
    auto const expected = scripts.carry_out(command, "c");
    EXPECT_EQ(reply_of(store, command, "c", now_us), expected.reply) << described(command);
    return expected.answer;
  };
  engine::permit const permit{engine::permit_kind::semaphore, 5, 1, 0, "-"};
  both(protocol::acquire_command{.name = "b", .id = 1, .lease = 1s, .claim = 1s, .retention = 1s, .permit = &permit});
  protocol::attempt const three[] = {{"a", 2, 1s}, {"b", 3, 1s}, {"c", 4, 1s}};
  EXPECT_EQ(both(protocol::acquire_all_command{three, 1s}).size(), 2u);
  protocol::attempt const last[] = {{"c", 5, 1s}};
  EXPECT_EQ(both(protocol::acquire_all_command{last, 1s}).size(), 2u) << "what was behind it is free";
}

INSTANTIATE_TEST_SUITE_P(Seeds, MemoryStore, testing::Range<std::uint64_t>(1, 5));

}  // namespace
}  // namespace conch::sim
