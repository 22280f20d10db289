// memory:// against the real scripts: random commands of a few clients, carried out by conch::memory::store and by
// lua/*.lua on the model of Redis. Every reply and every push must be the same.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "sim/differential/random_client_side.hpp"
#include "sim/differential/store_differential.hpp"

namespace conch::sim {
namespace {

class MemoryStore : public testing::TestWithParam<std::uint64_t> {};

TEST_P(MemoryStore, AnswersAndPushesWhatTheScriptsDo) {
  random_client_side side{GetParam(), {.many_names = GetParam() % 4 == 1, .near_2020 = GetParam() % 3 == 0}};
  std::map<std::string, int> happened;
  auto const note = [&](protocol::command const& command, std::vector<std::int64_t> const& answer, seen_grants const& pushed) {
    if (!pushed.empty()) ++happened["push"];
    if (auto const* const c = std::get_if<protocol::acquire_command>(&command)) {
      ++happened[(c->origin.empty() ? "acquire " : "adopt ") + std::to_string(answer[0])];
    }
    if (std::holds_alternative<protocol::acquire_all_command>(command)) {
      ++happened[answer[0] == 3 ? "tries too late" : "tries " + std::to_string(answer.size() - 1)];
    }
    if (std::holds_alternative<protocol::release_command>(command)) {
      ++happened["release " + std::to_string(answer[0]) + (answer.size() > 4 ? " and again" : "")];
    }
    if (std::holds_alternative<protocol::confirm_command>(command)) ++happened["confirm " + std::to_string(answer[1])];
    if (std::holds_alternative<protocol::release_command>(command) && answer.size() >= 4 && answer[0] < 2 && answer[1] == 2) ++happened["more"];
    if (answer.size() == 7 && answer[4] != 0 && answer[5] != 0) ++happened[answer[6] == 0 ? "rival" : "confirmed rival"];
    if (std::holds_alternative<protocol::renew_command>(command)) ++happened["renew " + std::to_string(answer[1])];
    if (std::holds_alternative<protocol::force_command>(command)) {
      ++happened["force " + std::to_string(answer[0]) + (pushed.size() > 1 ? " and pass on" : "")];
    }
    if (std::holds_alternative<protocol::inspect_command>(command)) ++happened["inspect " + std::to_string(answer[2])];
    if (auto const* const inspected = std::get_if<protocol::inspect_command>(&command); inspected != nullptr && answer.size() > 10) {
      side.sees(inspected->name, answer[10]);
    }
    if (std::holds_alternative<protocol::inspect_command>(command) && answer.size() > 15) ++happened["inspect a request"];
    if (std::holds_alternative<protocol::request_command>(command)) ++happened["request " + std::to_string(answer[0])];
    if (std::holds_alternative<protocol::watch_command>(command)) ++happened["watch " + std::to_string(answer[0])];
    if (std::holds_alternative<protocol::unwatch_command>(command)) ++happened["unwatch " + std::to_string(answer[0])];
    for (seen_grant const& one : pushed) {
      if (one.fence == freed_mark) ++happened["freed"];
      if (one.fence == freed_and_more_mark) ++happened["freed and more"];
    }
    if (std::holds_alternative<protocol::requested_command>(command)) ++happened["requested " + std::to_string(answer[0])];
  };
  ASSERT_NO_FATAL_FAILURE(compare_store_with_scripts(side, 24'000, GetParam() % 2 == 0, note));
  // A generator that never gets into a state proves nothing about it.
  for (char const* what : {"push",
                           "acquire 0",
                           "acquire 1",
                           "acquire 2",
                           "acquire 3",
                           "adopt 1",
                           "adopt 2",
                           "adopt 3",
                           "release 0",
                           "release 1",
                           "release 2",
                           "release 0 and again",
                           "release 1 and again",
                           "renew 0",
                           "watch 0",
                           "watch 1",
                           "unwatch 1",
                           "freed",
                           "renew 1",
                           "confirm 0",
                           "confirm 1",
                           "confirm 2",
                           "rival",
                           "confirmed rival",
                           "force 0",
                           "force 1",
                           "force 1 and pass on",
                           "inspect 0",
                           "inspect 1",
                           "inspect a request",
                           "request 0",
                           "request 1",
                           "requested 0",
                           "requested 1",
                           "tries 0",
                           "tries 1",
                           "tries 2",
                           "tries too late"}) {
    EXPECT_GT(happened[what], 3) << what;
  }
  if (GetParam() % 2 == 0) {
    EXPECT_GT(happened["more"] + happened["acquire 4"], 3);
  }
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

INSTANTIATE_TEST_SUITE_P(Seeds, MemoryStore, testing::Range<std::uint64_t>(1, 13));

}  // namespace
}  // namespace conch::sim
