// What is said on a connection for questions that no client asks, and what is read from the answers.

#include <base/glob.hpp>
#include <servers/redis/cluster_masters.hpp>
#include <servers/redis/lock_names.hpp>
#include <servers/redis/question_talk.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redis_address.hpp"

#include "support/messages.hpp"
#include "unit/connection_fsm_fixture.hpp"

namespace conch::redis {
namespace {

using progress = dialogue::progress;

/// A talk, and what the network has put there.
struct conversation {
  explicit conversation(introduction how = introduction::plain) : talk{how} {}

  progress hear(std::string_view bytes) {
    in.reset();
    test::feed(in, bytes);
    progress last = progress::greeting;
    while (in.next() == resp::decoder::progress::message) last = talk.received(in.message(), in.is_push(), {});
    return last;
  }

  resp::decoder in;
  question_talk talk;
};

std::string command(std::vector<std::string> const& words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (std::string const& word : words) out += bulk(word);
  return out;
}

TEST(QuestionTalk, BeginsInRespTwoForAServerOfAnyVersion) {
  conversation c;
  EXPECT_EQ(c.talk.begin(server_with("u", "p", 3), "conch"),
            command({"AUTH", "u", "p"}) + command({"SELECT", "3"}) + command({"PING"}));
  EXPECT_EQ(c.talk.begin(server_with("", "p", 0), "conch"), command({"AUTH", "default", "p"}) + command({"PING"}));
  EXPECT_EQ(c.talk.begin(server_with("", "", 0), "conch"), command({"PING"}));
}

TEST(QuestionTalk, IsGoodWhenAllHasBeenAnswered) {
  conversation c;
  c.talk.begin(server_with("u", "p", 3), "conch");
  EXPECT_EQ(c.hear("+OK\r\n"), progress::greeting);
  EXPECT_EQ(c.hear("+OK\r\n"), progress::greeting);
  EXPECT_FALSE(c.talk.is_good());
  EXPECT_EQ(c.hear("+PONG\r\n"), progress::good);
  EXPECT_TRUE(c.talk.is_good());
  EXPECT_FALSE(c.talk.has_answer()) << "nobody has asked yet";
  c.talk.ended(protocol::fault::try_later, "redis://h:6379: gone");
  EXPECT_FALSE(c.talk.is_good());
  EXPECT_EQ(c.talk.end_words(), "redis://h:6379: gone");
}

TEST(QuestionTalk, FailsWhereTheAnswersWouldBeOfNoUse) {
  struct row {
    char const* answer;  // to PING
    protocol::fault what;
  };
  for (row const& one : {row{"-NOAUTH Authentication required.\r\n", protocol::fault::access_denied},
                         row{"-LOADING Redis is loading\r\n", protocol::fault::try_later},
                         row{"-ERR max number of clients reached\r\n", protocol::fault::try_later}}) {
    conversation c;
    c.talk.begin(server_with("", "", 0), "conch");
    EXPECT_EQ(c.hear(one.answer), progress::failed) << one.answer;
    EXPECT_EQ(c.talk.fault(), one.what) << one.answer;
  }
  conversation no_right;
  no_right.talk.begin(server_with("", "", 0), "conch");
  EXPECT_EQ(no_right.hear("-NOPERM this user has no permissions to run the 'ping' command\r\n"), progress::good)
      << "it answers other questions";
  conversation wrong;
  wrong.talk.begin(server_with("u", "wrong", 0), "conch");
  EXPECT_EQ(wrong.hear("-WRONGPASS invalid username-password pair\r\n"), progress::failed);
}

/// Only for long passwords: a short one is not looked for in a server's texts.
TEST(QuestionTalk, ShowsNoPasswordOfAServerThatRepeatsIt) {
  conversation c;
  address const where = server_with("u", "correct horse battery staple", 0);
  c.talk.begin(where, "conch");
  EXPECT_EQ(c.hear("-ERR unknown command 'AUTH', with args beginning with: 'u' 'correct horse battery staple'\r\n"),
            progress::failed);
  EXPECT_EQ(c.talk.why().find("horse"), std::string::npos) << c.talk.why();
}

TEST(QuestionTalk, AsAClientRefusesWhatAClientRefuses) {
  conversation c{introduction::as_client};
  c.talk.begin(server_with("", "", 0), "conch");
  EXPECT_EQ(c.hear("%3\r\n" + bulk("version") + bulk("7.0.15") + bulk("mode") + bulk("standalone") + bulk("role") +
                   bulk("replica")),
            progress::failed);
  EXPECT_EQ(c.talk.why(), "the server is a replica");
  conversation old{introduction::as_client};
  old.talk.begin(server_with("", "", 0), "conch");
  EXPECT_EQ(old.hear("-ERR unknown command `HELLO`\r\n"), progress::failed);
  EXPECT_EQ(old.talk.fault(), protocol::fault::malformed);
  conversation alone{introduction::as_cluster_client};
  alone.talk.begin(server_with("", "", 0), "conch");
  EXPECT_EQ(alone.hear("%3\r\n" + bulk("version") + bulk("7.0.15") + bulk("mode") + bulk("standalone") + bulk("role") +
                       bulk("master")),
            progress::failed);
  EXPECT_EQ(alone.talk.fault(), protocol::fault::not_supported);
}

TEST(QuestionTalk, KeepsEachAnswerBeyondTheBufferThatItCameIn) {
  conversation c;
  c.talk.begin(server_with("", "", 0), "conch");
  c.hear("+PONG\r\n");
  std::string const all = "+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*2\r\n$1\r\n0\r\n*1\r\n$0\r\n\r\n";
  EXPECT_EQ(c.hear(all), progress::good);
  c.in.reset();
  test::feed(c.in, std::string(all.size(), 'x'));
  std::vector<reply> read;
  while (c.talk.has_answer()) read.push_back(c.talk.take_answer());
  ASSERT_EQ(read.size(), 6u);
  EXPECT_EQ(read[0].text(), "OK");
  EXPECT_TRUE(read[1].is_error());
  EXPECT_EQ(read[2].number(), -7);
  EXPECT_EQ(read[3].text(), "a\r\n");
  EXPECT_EQ(read[4].nodes()[0].what, resp::kind::null);
  EXPECT_EQ(read[5].nodes()[0].count, 2u);
  EXPECT_EQ(read[5].item(0), "0");
  EXPECT_EQ(read[5].item(7), "");
}

// ---------------------------------------------------------------------------------------------------- names of locks

TEST(LockNames, MakesKeysOfNamesAndBack) {
  EXPECT_EQ(key_pattern("conch:", "*"), "conch:{*}");
  EXPECT_EQ(key_pattern("a*[b", "x?%}"), "a\\*\\[b{x*%25%7D}");
  EXPECT_EQ(key_pattern("", "[%]a\\*\\%["), "{*a\\*%25*}");
  EXPECT_EQ(name_in_key("conch:", "conch:{a%25b%7D}"), "a%b}");
  EXPECT_EQ(name_in_key("conch:", "conch:{a}:q"), "");
  EXPECT_EQ(name_in_key("conch:", "conch:{a}:q}"), "");
  EXPECT_EQ(name_in_key("conch:", "other:{a}"), "");
  EXPECT_EQ(name_in_key("conch:", "conch:{}"), "");
}

TEST(LockNames, MatchesNamesAsRedisMatchesKeys) {
  struct row {
    char const* pattern;
    char const* name;
    bool fits;
  };
  for (row const& one : std::vector<row>{
           {"", "", true},          {"", "a", false},      {"*", "", true},           {"a*c", "abbc", true},
           {"a*c", "abbd", false},  {"**a", "bba", true},  {"*a*b*", "xaxxbx", true}, {"?", "%", true},
           {"a?b", "a}b", true},    {"a?b", "ab", false},  {"[ab]", "b", true},       {"[ab]", "c", false},
           {"[^ab]", "c", true},    {"[^ab]", "a", false}, {"[a-c]x", "bx", true},    {"[c-a]x", "bx", true},
           {"[%}]", "}", true},     {"[\\]]", "]", true},  {"[a", "a", true},         {"\\*", "*", true},
           {"\\*", "a", false},     {"a\\", "a\\", true},  {"a]", "a]", true},        {"A", "a", false},
           {"*aab", "aaaab", true},
       }) {
    EXPECT_EQ(matches(one.pattern, one.name), one.fits) << one.pattern << ' ' << one.name;
  }
}

// -------------------------------------------------------------------------------------------------- masters of a
// Cluster

TEST(ClusterMasters, AreEachNamedOnceWithTheirSlots) {
  config settings;
  settings.address_map["b:7001"] = "outside:1";
  address asked = server_with("u", "p", 0);
  asked.over_tls = true;
  std::string const id(40, '1');
  std::vector<cluster_master> const all =
      masters_in({{0, 99, id, "a", 7000}, {100, 100, id, "b", 7001}, {101, 16383, id, "a", 7000}}, asked, settings);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].where.shown(), "rediss://a:7000");
  EXPECT_EQ(all[0].where.user, "u");
  EXPECT_EQ(all[0].slots, 16383u);
  EXPECT_EQ(all[1].where.shown(), "rediss://outside:1") << "config::address_map";
  EXPECT_EQ(all[1].slots, 1u);
}

}  // namespace
}  // namespace conch::redis
