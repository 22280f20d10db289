// lua/gathered.lua on the model of Redis against a real server: answers, pushes and everything that is stored.

#include "servers/redis/codec.hpp"
#include "sim/differential/differential.hpp"
#include "sim/differential/random_gathering.hpp"
#include "sim/differential/told_the_time.hpp"
#include "sim/mutants/mutants.hpp"
#include "support/messages.hpp"

#include <gtest/gtest.h>

#include <map>

namespace conch::sim {
namespace {

/// How long a key lives is read in whole hours: both sides wrote it within one.
std::string in_hours(std::string source) {
  std::string const life = "redis.call('PTTL', lock_key)";
  return replaced(std::move(source), life, "(math.ceil(" + life + " / 3600000) * 3600000)");
}

class GatheredDifferential : public testing::TestWithParam<bool> {};

TEST_P(GatheredDifferential, AModelAndARealServerDoTheSame) {
  // the connection of those that are not told anything
  constexpr std::size_t asks = std::size(random_gathering::clients);
  constexpr std::chrono::hours hour{1};
  differential both{asks + 1};
  random_gathering side{42, GetParam(), {.shortest = hour, .claim = hour}};
  std::map<std::string, int> happened;
  for (int step = 0; step < 1000 && !testing::Test::HasFailure(); ++step) {
    side.step();
    if (auto const change = side.subscription()) {
      both.run_same(change->client, {change->hears ? "SUBSCRIBE" : "UNSUBSCRIBE",
                                     "conch:" + std::string{random_gathering::clients[change->client]}});
    }
    for (auto const& words : side.tampering(hour)) both.run_same(asks, words);

    protocol::gathering all;
    for (auto const& c : side.commands()) ASSERT_TRUE(all.add(c, 0));
    happened["only acquires"] += all.acquires() == all.members().size() ? 1 : 0;
    happened["only releases"] += all.acquires() == 0 ? 1 : 0;
    std::string bytes;
    redis::encode(all, random_gathering::clients[side.client()], true, bytes);
    differential::words argv = test::only_command(bytes);
    ASSERT_EQ(argv[0], "EVAL");
    ++happened[argv.size() == 3 + 7 + 4 * all.members().size() ? "ids alone" : "more than ids"];
    use_small_steps(step % 2 == 0);
    argv[1] = told_the_time(in_hours(std::string{mutated_source("gathered")}));
    tell_the_time(argv, side.now_us());
    ASSERT_TRUE(both.run_same(asks, argv)) << "step " << step;
    for (auto const name : random_gathering::names) {
      for (auto const suffix : random_gathering::suffixes) {
        auto const key = random_gathering::key(name, suffix);
        auto const type = both.real_only({"TYPE", key}).text;
        ++happened[std::string{suffix} + " is a " + type];
        differential::words read{"TYPE", key};
        if (type == "string") read = {"GET", key};
        if (type == "zset") read = {"ZRANGE", key, "0", "-1", "WITHSCORES"};
        ASSERT_TRUE(both.run_same(asks, read)) << "step " << step;
      }
    }
  }
  use_small_steps(false);
  // A generator that never gets into a state proves nothing about it.
  if (!GetParam()) {
    EXPECT_GT(happened["ids alone"], 100);
    EXPECT_GT(happened["more than ids"], 100);
  }
  for (char const* const what : {"only acquires", "only releases", " is a string", " is a hash", ":q is a zset",
                                 ":q is a string", ":f is a string", ":f is a hash", ":w is a zset"}) {
    EXPECT_GT(happened[what], 3) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Votes, GatheredDifferential, testing::Bool());

}  // namespace
}  // namespace conch::sim
