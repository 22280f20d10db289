// The scripts of locks with several owners on the model of Redis against a real server: answers, pushes and everything
// that is stored.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "servers/redis/scripts.hpp"
#include "sim/differential/differential.hpp"
#include "sim/differential/random_permits.hpp"
#include "sim/differential/told_the_time.hpp"
#include "sim/mutants/mutants.hpp"
#include "support/messages.hpp"

namespace conch::sim {
namespace {

// The scripts are told the time, so that both sides see the same.

TEST(PermitsDifferential, AModelAndARealServerDoTheSame) {
  differential both;
  for (std::size_t i = 0; i < both.size(); ++i)
    both.run_same(i, {"SUBSCRIBE", "conch:" + random_permits::clients()[i]});
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
