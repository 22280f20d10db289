// The embedded scripts, as a server sees them.

#include "servers/redis/scripts.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "support/redis_server.hpp"

namespace {

using conch::redis::all_scripts;
using conch::redis::find_script;

TEST(EmbeddedScripts, HaveTheSha1ThatTheServerComputes) {
  conch::test::redis_server server;
  conch::test::redis_probe probe(server);
  for (auto const& script : all_scripts()) {
    // SCRIPT LOAD compiles too: a syntax error is an error reply here.
    EXPECT_EQ(probe.command({"SCRIPT", "LOAD", script.source}), script.sha1) << script.name;
  }
}

TEST(EmbeddedScripts, AreFoundByName) {
  for (auto const& script : all_scripts()) {
    EXPECT_EQ(&find_script(script.name), &script);
  }
  EXPECT_THROW(find_script("no such script"), std::out_of_range);
}

// A server before 7.0 renews in another way, which the script finds out by itself: here one server is asked in both.
class Renew : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Server, Renew, testing::Bool(), [](auto const& of) { return of.param ? "Before7" : "From7"; });

TEST_P(Renew, ExtendsWhatIsMineAndShortensNothing) {
  std::string script{find_script("renew").source};
  if (GetParam()) {
    constexpr std::string_view version = "redis.REDIS_VERSION_NUM";
    ASSERT_NE(script.find(version), std::string::npos);
    script.replace(script.find(version), version.size(), "nil");
  }
  struct {
    char const* value;
    int left;
    char const* answer;
    int then;
  } const cases[] = {{"c.1 5 h", 5'000, "1", 30'000},  // mine
                     {"c.1 5 h", 90'000, "1", 90'000},
                     {"c.1 5 h", -1, "1", 30'000},     // its expiry was removed
                     {"c.1 5 c", 5'000, "1", 30'000},  // a claim, which becomes a hold
                     {"c.1 5 c", 90'000, "1", 90'000},
                     {"c.12 5 h", 5'000, "0", 5'000},  // of others
                     {"d.1 5 h", 5'000, "0", 5'000},
                     {"", 5'000, "0", 5'000},        // of no known client
                     {"a list", 5'000, "0", 5'000},  // not a lock: lost
                     {nullptr, 0, "0", -2}};         // gone
  conch::test::redis_server server;
  conch::test::redis_probe probe(server);
  std::vector<std::string> eval{"EVAL", script, std::to_string(std::size(cases))}, arguments;
  std::string expected;
  auto const key_of = [](std::size_t i) { return "conch:{" + std::to_string(i) + "}"; };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    auto const& [value, left, answer, then] = cases[i];
    if (value != nullptr && value == std::string_view{"a list"}) {
      probe.command({"RPUSH", key_of(i), "x"});
    } else if (value != nullptr) {
      probe.command({"SET", key_of(i), value});
    }
    if (left > 0) probe.command({"PEXPIRE", key_of(i), std::to_string(left)});
    eval.push_back(key_of(i));
    arguments.insert(arguments.end(), {"c.1", "30000"});
    expected += std::string{", "} + answer;
  }
  eval.insert(eval.end(), arguments.begin(), arguments.end());
  std::string const answers = probe.command(eval);
  EXPECT_TRUE(answers.ends_with(expected + "]")) << answers << ", expected" << expected;
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    std::int64_t const left = probe.integer({"PTTL", key_of(i)});
    EXPECT_LE(left, cases[i].then) << i;
    EXPECT_GT(left, cases[i].then - 2'000) << i;
    if (cases[i].answer == std::string_view{"1"}) {
      EXPECT_EQ(probe.command({"GET", key_of(i)}), "c.1 5 h") << i;
    }
  }
}

// A place that came back with a copy of the server, and whose client knows nothing but the id: the text in line is not
// the one of the release.
TEST(PermitRelease, P6GivesNothingToWhoeverReleases) {
  conch::test::redis_server server;
  conch::test::redis_probe probe(server), listener(server);
  listener.command({"SUBSCRIBE", "conch:c"});
  std::string const key = "conch:{stock}";
  probe.command({"ZADD", key + ":q", "1", "c.1 1 ,2,", "2", "d.1 1 -"});
  auto const answer =
      probe.command({"EVAL", std::string{find_script("permit_release").source}, "4", key, key + ":q", key + ":f",
                     key + ":e", "c.1", "0!", "0", "3000", "600000", "g", "1", "1", "-", "0"});
  EXPECT_TRUE(answer.starts_with("[0, 0, 0, ")) << answer;
  EXPECT_EQ(probe.integer({"EXISTS", key, key + ":q"}), 0) << "c.1 has given back, and nobody hears for d";
}

}  // namespace
