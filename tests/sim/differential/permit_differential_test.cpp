// The scripts of locks with several owners, three times: on the model of Redis against conch::memory::store, answers and
// pushes; and on the model against a real server, answers, pushes and everything that is stored.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "redis/scripts.hpp"
#include "sim/differential/differential.hpp"
#include "sim/differential/random_permits.hpp"
#include "sim/differential/store_differential.hpp"
#include "sim/differential/told_the_time.hpp"
#include "support/messages.hpp"

namespace conch::sim {
namespace {

class Permits : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Permits, TheMemoryStoreAnswersAndPushesWhatTheScriptsDo) {
  bool const small = GetParam() % 2 == 0;
  random_permits side{GetParam(), {.near_2020 = GetParam() % 3 == 0}};
  std::map<std::string, int> happened;
  auto const note = [&](protocol::command const& command, std::vector<std::int64_t> const& answer, seen_grants const& pushed) {
    happened["several pushes"] += pushed.size() > 1 ? 1 : 0;
    for (auto const& g : pushed) {
      if (g.fence == freed_mark || g.fence == freed_and_more_mark) ++happened[g.fence == freed_mark ? "freed" : "freed and more"];
      happened[g.fence == 0 ? std::string{"revocation"} : std::string{"push "} + static_cast<char>(g.kind)] += 1;
    }
    if (std::holds_alternative<protocol::release_command>(command) && answer.size() >= 4 && answer[0] < 2 && (answer[1] & 2) != 0) ++happened["more"];
    if (std::holds_alternative<protocol::force_command>(command) && answer.size() == 7) ++happened["more to take"];
    if (answer.empty()) {
      ++happened["another kind"];
    } else if (auto const* const c = std::get_if<protocol::acquire_command>(&command)) {
      ++happened[(c->origin.empty() ? "acquire " : "adopt ") + std::to_string(answer[0])];
    } else if (std::holds_alternative<protocol::release_command>(command)) {
      ++happened["release " + std::to_string(answer[0])];
    } else if (std::holds_alternative<protocol::force_command>(command)) {
      ++happened["force " + std::to_string(std::min<std::int64_t>(answer[0], 2))];
      if (pushed.size() > static_cast<std::size_t>(answer[0])) ++happened["force and pass on"];
    } else if (std::holds_alternative<protocol::inspect_command>(command)) {
      ++happened["inspect " + std::to_string(std::min<std::int64_t>(answer[2], 2))];
    } else if (std::holds_alternative<protocol::request_command>(command)) {
      ++happened["request " + std::to_string(std::min<std::int64_t>(answer[0], 2))];
    } else if (std::holds_alternative<protocol::watch_command>(command)) {
      ++happened["watch " + std::to_string(answer[0])];
    } else if (std::holds_alternative<protocol::limit_command>(command)) {
      ++happened[pushed.empty() ? "limit" : "limit and pass on"];
    } else {
      ++happened["renew " + std::to_string(answer[1])];
    }
  };
  ASSERT_NO_FATAL_FAILURE(compare_store_with_scripts(side, 20'000, small, note));
  // A generator that never gets into a state proves nothing about it.
  for (char const* what : {"several pushes",
                           "watch 0",
                           "watch 1",
                           "freed",
                           "push s",
                           "push r",
                           "push g",
                           "push e",
                           "acquire 0",
                           "acquire 1",
                           "adopt 1",
                           "adopt 2",
                           "adopt 3",
                           "acquire 2",
                           "acquire 3",
                           "release 0",
                           "release 1",
                           "release 2",
                           "renew 0",
                           "renew 1",
                           "another kind",
                           "revocation",
                           "force 0",
                           "force 1",
                           "force 2",
                           "force and pass on",
                           "inspect 0",
                           "inspect 1",
                           "inspect 2",
                           "limit",
                           "limit and pass on",
                           "request 0",
                           "request 1",
                           "request 2"}) {
    EXPECT_GT(happened[what], 3) << what;
  }
  for (char const* what : {"more", "acquire 4"}) {
    if (small) {
      EXPECT_GT(happened[what], 0) << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Permits, testing::Range<std::uint64_t>(1, 13));

// ---- against a real server: the scripts are told the time, so that both sides see the same -----------------------------

TEST(PermitsDifferential, AModelAndARealServerDoTheSame) {
  differential both;
  for (std::size_t i = 0; i < both.size(); ++i) both.run_same(i, {"SUBSCRIBE", "conch:" + random_permits::clients()[i]});
  random_permits side{42, {.mixed_kinds = false}};
  for (int step = 0; step < 1500 && !testing::Test::HasFailure(); ++step) {
    side.step();
    std::string const client = side.client();
    protocol::command command = side.command(client);
    bool const acquires = std::holds_alternative<protocol::acquire_command>(command);
    bool const releases = std::holds_alternative<protocol::release_command>(command);
    std::string bytes;
    redis::encode(command, client, bytes);
    differential::words argv = test::only_command(bytes);
    argv[0] = "EVAL";
    bool const forces = std::holds_alternative<protocol::force_command>(command);
    bool const limits = std::holds_alternative<protocol::limit_command>(command);
    bool const requests = std::holds_alternative<protocol::request_command>(command);
    bool const watches = std::holds_alternative<protocol::watch_command>(command);
    bool const inspects = std::holds_alternative<protocol::inspect_command>(command);
    std::size_t const keys = 3 + static_cast<std::size_t>(std::stoi(argv[2]));
    auto const* const acquire = std::get_if<protocol::acquire_command>(&command);
    bool const adopts = acquire != nullptr && !acquire->origin.empty();
    if (adopts) {
      argv[keys + 2] = "3600000";
    } else if (acquires || releases) {
      argv[keys + 4] = "3600000";
    }
    if (forces || limits || watches) argv[keys + 1] = "3600000";
    use_small_steps(step % 2 == 0);
    argv[1] = told_the_time(std::string{mutated_source(adopts     ? "permit_adopt"
                                                       : acquires ? "permit_acquire"
                                                       : releases ? "permit_release"
                                                       : forces   ? "force"
                                                       : limits   ? "permit_limit"
                                                       : inspects ? "inspect"
                                                       : requests ? "request"
                                                       : watches  ? "watch"
                                                                  : "permit_renew")});
    tell_the_time(argv, side.now());
    std::size_t who = 0;
    while (random_permits::clients()[who] != client) ++who;
    ASSERT_TRUE(both.run_same(who, argv)) << "step " << step;
    std::string const key = argv[3];
    ASSERT_TRUE(both.run_same(who, {"HGETALL", key})) << "step " << step;
    ASSERT_TRUE(both.run_same(who, {"ZRANGE", key + ":q", "0", "-1", "WITHSCORES"})) << "step " << step;
    ASSERT_TRUE(both.run_same(who, {"GET", key + ":f"})) << "step " << step;
    ASSERT_TRUE(both.run_same(who, {"HGETALL", key + ":r"})) << "step " << step;
    ASSERT_TRUE(both.run_same(who, {"ZRANGE", key + ":w", "0", "-1"})) << "step " << step;
    ASSERT_TRUE(both.run_same(who, {"EXISTS", key + ":a"})) << "step " << step;
    ASSERT_TRUE(both.run_same(who, {"ZRANGE", key + ":e", "0", "-1", "WITHSCORES"})) << "step " << step;
  }
  use_small_steps(false);
}

}  // namespace
}  // namespace conch::sim
