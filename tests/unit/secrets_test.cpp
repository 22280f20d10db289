// What was sent as a secret is in no text, however a server repeats it.
#include "base/secrets.hpp"
#include "base/readable.hpp"
#include "support/cpu_seconds.hpp"

#include <conch/error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace conch {
namespace {

using namespace std::string_literals;

TEST(Secrets, AreHiddenInEverySpellingOfAServer) {
  secret const password{"MY-P@ss/word\r\n\"7\\"};
  for (std::string const& said : {
           "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'MY-P@ss/word  \"7\\'"s,  // Redis
           "invalid option 'MY-P@ss/word\\r\\n\\\"7\\\\'"s,                                                       // quoted by Redis
           "no user my-p@SS/word here"s,                                                                          // in another case
           "could not translate host name \"ss/word\""s,                                                          // what stands behind an '@'
           "redis://u:MY-P%40ss%2Fword@h"s,
           "redis://u:MY-P%40ss%2fword@h"s,
           "MY-P%2540ss%252Fword"s,          // once and twice encoded
           "{\"arg\":\"MY-P@ss\\/word\"}"s,  // as JSON may write it
           "bad bytes MY-P\\x40ss\\x2fword"s,
           "{\"arg\":\"MY-P\\u0040ss\\u002fword\"}"s,
           "... 'default' 'MY-P@'"s,  // cut by the server
           "... 'default' 'MY'"s,
           "... 'default' 'MY-P"s,
           "cut here: MY-"s,
       }) {
    for (std::string const& shown : {without_secrets(said), readable(said)}) {
      EXPECT_EQ(shown.find("MY"), std::string::npos) << shown;
      EXPECT_EQ(shown.find("word"), std::string::npos) << shown;
      EXPECT_EQ(shown.find("'M"), std::string::npos) << shown;
      EXPECT_NE(shown.find("***"), std::string::npos) << shown;
    }
  }
  EXPECT_EQ(readable("ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'MY-P@ss/word' "),
            "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' '***' ");
}

TEST(Secrets, OfAFewCharactersAreHiddenWhereTheyStandAlone) {
  secret const one{"x"}, three{"abc"}, four{"pw47"};
  EXPECT_EQ(readable("args 'x' 'abc' 'pw47': extra xabc, abcd"), "args '***' '***' '***': extra xabc, abcd");
  EXPECT_EQ(readable("at the end x"), "at the end ***");
  EXPECT_EQ(readable("xpw47x"), "x***x");
}

TEST(Secrets, OfAnyLengthAreHiddenAlsoWhereTheServerShowsTheirBeginning) {
  std::string token;
  for (int n = 0; token.size() < 3000; ++n) token += std::to_string(n * 7919) + static_cast<char>('g' + n % 17);
  secret const kept{token};
  for (std::size_t size : {3, 5, 6, 50, 128, 1000, 3000}) {
    std::string const shown = without_secrets("args beginning with: '" + token.substr(0, size) + "'");
    EXPECT_EQ(shown, "args beginning with: '***'") << size;
  }
  for (std::size_t from = 100; from < 2900; from += 97) {
    EXPECT_EQ(without_secrets("a piece: " + token.substr(from, 9) + " of it"), "a piece: *** of it");
  }
}

TEST(Secrets, AreHiddenForAsLongAsATextMayComeLate) {
  std::string const was = "gone-" + std::to_string(4711);
  { secret const kept{was}; }
  EXPECT_EQ(without_secrets("late: " + was), "late: ***");
  for (int n = 0; n < 1023; ++n) secret const other{"another-" + std::to_string(n)};
  EXPECT_EQ(without_secrets("late: " + was), "late: ***");
  for (int n = 0; n < 2; ++n) secret const other{"the-last-" + std::to_string(n)};
  EXPECT_EQ(without_secrets("late: " + was), "late: " + was) << "there is no end to what is kept";
}

TEST(Secrets, KeptTwiceAreHiddenUntilBothHaveGone) {
  secret const second{"twice-4711"};
  { secret const first{"twice-4711"}; }
  for (int n = 0; n < 1100; ++n) secret const other{"many-" + std::to_string(n)};
  EXPECT_EQ(without_secrets("twice-4711"), "***");
}

TEST(Secrets, AreInNoErrorEvenIfNobodyCleanedTheText) {
  secret const password{"hunter-2-hunter"};
  EXPECT_EQ(make_error_code(errc::server_refused, "the server said hunter-2-hunter").message().find("hunter"), std::string::npos);
  EXPECT_EQ(readable_line("cannot connect: hunter-2-hunter"), "cannot connect: ***");
}

TEST(Secrets, ThatAreOurOwnWordsDoNotSpoilALineOfOurs) {
  secret const bad{"redis"}, worse{"postgres"}, mixed{"postgresql-prod-7"};
  EXPECT_EQ(readable_line("cannot connect to redis://a, postgresql://b"), "cannot connect to redis://a, postgresql://b");
  EXPECT_EQ(readable("args 'redis' 'postgresql-prod-7'"), "args '***' '***'") << "a server's words are another matter";
}

TEST(Secrets, DoNotMakeAHostileServerExpensive) {
  std::vector<secret> many;
  for (int n = 0; n < 1000; ++n) many.emplace_back("user-" + std::to_string(n * 7919) + "-" + std::to_string(n * 6007 + 1));
  std::string text;
  while (text.size() < 60'000) text += "user-7 'user-1' 6007";
  std::size_t size = 0;
  double const taken = test::cpu_seconds([&] {
    for (int n = 0; n < 100; ++n) size += readable(text).size();
  });
  EXPECT_GT(size, 0u);
  EXPECT_LT(taken, 10) << "measured: 0.1 s";
}

}  // namespace
}  // namespace conch
