// lua/gathered.lua on the model of Redis against a real server: answers, pushes and everything that is stored.

#include "redis/codec.hpp"
#include "resp/decoder.hpp"
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
  std::string const from = "redis.call('PTTL', lock_key)";
  for (auto at = source.find(from); at != std::string::npos; at = source.find(from, at + from.size() + 12)) {
    source.replace(at, from.size(), "(math.ceil(" + from + " / 3600000) * 3600000)");
  }
  return source;
}

class GatheredDifferential : public testing::TestWithParam<bool> {};

TEST_P(GatheredDifferential, AModelAndARealServerDoTheSame) {
  constexpr std::size_t asks = std::size(random_gathering::clients);  // the connection of those that are not told anything
  constexpr std::chrono::hours hour{1};
  differential both{asks + 1};
  random_gathering side{42, GetParam(), {.shortest = hour, .claim = hour}};
  std::map<std::string, int> happened;
  for (int step = 0; step < 1000 && !testing::Test::HasFailure(); ++step) {
    side.step();
    if (auto const change = side.subscription()) {
      both.run_same(change->client, {change->hears ? "SUBSCRIBE" : "UNSUBSCRIBE", "conch:" + std::string{random_gathering::clients[change->client]}});
    }
    for (auto const& words : side.tampering(hour)) both.run_same(asks, words);

    protocol::gathering all;
    for (auto const& c : side.commands()) ASSERT_TRUE(all.add(c, 0));
    happened["acquire alone"] += all.acquires() == all.members().size() ? 1 : 0;
    happened["release alone"] += all.acquires() == 0 ? 1 : 0;
    std::string bytes;
    redis::encode(all, random_gathering::clients[side.client()], true, bytes);
    resp::decoder in;
    differential::words argv;
    for (auto const& node : test::only_message(in, bytes).subspan(1)) argv.emplace_back(node.text);
    ASSERT_EQ(argv[0], "EVAL");
    use_small_steps(step % 2 == 0);
    argv[1] = told_the_time(in_hours(std::string{mutated_source("gathered")}));
    argv.push_back(std::to_string(side.now_us() / 1'000'000));
    argv.push_back(std::to_string(side.now_us() % 1'000'000));
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
  for (char const* const what : {"acquire alone", "release alone", " is a string", " is a hash", ":q is a zset", ":q is a string", ":f is a string",
                                 ":f is a hash", ":w is a zset"}) {
    EXPECT_GT(happened[what], 3) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Votes, GatheredDifferential, testing::Bool());

}  // namespace
}  // namespace conch::sim
