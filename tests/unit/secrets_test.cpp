// What was sent as a secret is in no text, however a server repeats it.
#include "base/secrets.hpp"
#include "base/readable.hpp"
#include "support/cpu_seconds.hpp"

#include <conch/error.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch {
namespace {

using namespace std::string_literals;

TEST(Secrets, AreHiddenInEverySpellingOfAServer) {
  secret const password{"MY-P@ss/word\r\n\"7\\"};
  for (
      std::string const& said : {
          "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'MY-P@ss/word  \"7\\'"s,  // Redis
          "invalid option 'MY-P@ss/word\\r\\n\\\"7\\\\'"s,  // quoted by Redis
          // in another case
          "no user my-p@SS/word here"s,
          // what follows an '@'
          "could not translate host name \"ss/word\""s,
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

/// Each byte of `text` as `how` writes it.
template <class How>
std::string spelled(std::string_view text, std::string_view between, How const& how) {
  std::string all;
  for (char const c : text) {
    if (!all.empty()) all += between;
    all += how(static_cast<unsigned char>(c));
  }
  return all;
}

std::string formatted(char const* format, unsigned value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string as_base64(std::string_view text,
                      std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
  std::string all;
  std::uint32_t bits = 0;
  int held = 0;
  for (char const c : text) {
    bits = bits << 8U | static_cast<unsigned char>(c);
    for (held += 8; held >= 6; held -= 6) all += digits[bits >> (held - 6) & 63U];
  }
  if (held != 0) all += digits[bits << (6 - held) & 63U];
  return all;
}

TEST(Secrets, AreHiddenWhereEachByteIsWrittenAsANumber) {
  secret const password{"sEcret>47?!"};
  for (char const* const format : {"\\%03o",  "\\0%03o", "\\o{%o}", "\\x%02x", "\\X%02X",  "\\x{%x}",  "%%%02x",
                                   "%%u%04x", "\\u%04x", "\\u{%x}", "\\U%08x", "\\%03d",   "&#%d;",    "&#x%x;",
                                   "=%02X",   "0x%02x",  "%02x",    "%02X",    "\\\\%03o", "%%25%02x", "\\\\u%04x"}) {
    std::string const all = spelled(password.bytes(), "", [&](unsigned c) { return formatted(format, c); });
    for (std::string const& shown : {without_secrets("args '" + all + "' end"), readable("args '" + all + "' end")}) {
      EXPECT_EQ(shown, "args '***' end") << format;
    }
    std::string const some = spelled(password.bytes(), "", [&](unsigned c) {
      return c % 2 == 0 ? std::string(1, static_cast<char>(c)) : formatted(format, c);
    });
    bool const is_row = std::string_view{format}.starts_with("0x") || std::string_view{format}.starts_with("%02");
    if (!is_row) {
      EXPECT_EQ(readable("args '" + some + "' end"), "args '***' end") << format << ": some of the bytes";
    }
    std::string const cut =
        spelled(std::string_view{password.bytes()}.substr(0, 4), "", [&](unsigned c) { return formatted(format, c); });
    EXPECT_EQ(readable("args '" + cut + "' end"), "args '***' end") << format << ": cut by the server";
  }
}

TEST(Secrets, AreHiddenWhereTheirBytesAreAListOrADump) {
  secret const password{"sEcret>47?!"};
  for (auto const& [format, between] : std::vector<std::pair<char const*, char const*>>{{"%02x", " "},
                                                                                        {"%02x", ":"},
                                                                                        {"0x%02x", ", "},
                                                                                        {"0x%02x", ","},
                                                                                        {"%d", " "},
                                                                                        {"%d", ","},
                                                                                        {"%d", ", "},
                                                                                        {"%03o", " "},
                                                                                        {"%04o", " "},
                                                                                        {"\\x%02x", " "}}) {
    std::string const all =
        spelled(password.bytes(), between, [format = format](unsigned c) { return formatted(format, c); });
    std::string const shown = readable("got [" + all + "] of it");
    EXPECT_EQ(shown.find(all.substr(0, 5)), std::string::npos) << shown;
    EXPECT_EQ(shown.find(all.substr(all.size() - 5)), std::string::npos) << shown;
    EXPECT_NE(shown.find("***"), std::string::npos) << shown;
  }
  std::string const pairs = "7345 6372 6574 3e34 373f 21";
  EXPECT_EQ(readable("0000000: " + pairs + " of it").find("7345"), std::string::npos) << "as xxd writes it";
  EXPECT_EQ(readable("0000000: " + pairs + " of it").find("373f"), std::string::npos);
  EXPECT_EQ(readable("value \\x" + spelled(password.bytes(), "", [](unsigned c) { return formatted("%02x", c); })),
            "value ***")
      << "bytea of PostgreSQL";
}

TEST(Secrets, AreHiddenInBase64AtAnyPlace) {
  secret const password{"sEcret>47?!~~~"};
  for (std::string const& before : {""s, "a"s, "ab"s, "\0user\0"s, "user:"s}) {
    for (std::string const& after : {""s, "c"s, "cd"s, "cde"s}) {
      for (std::string_view const digits : {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
                                            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"}) {
        std::string const all = as_base64(before + password.bytes() + after, digits);
        for (std::string const& glued : {""s, "x"s, "xy"s, "xyz"s}) {
          std::string const shown = readable("args: '" + glued + all + "==' end");
          std::string const middle = all.substr((before.size() + 2) * 4 / 3, (password.bytes().size() - 4) * 4 / 3);
          EXPECT_EQ(shown.find(middle), std::string::npos) << shown;
          EXPECT_EQ(shown.find(middle.substr(0, 6)), std::string::npos) << shown;
          EXPECT_EQ(shown.find(middle.substr(middle.size() - 6)), std::string::npos) << shown;
          EXPECT_NE(shown.find("***"), std::string::npos) << shown;
        }
      }
    }
  }
  EXPECT_EQ(readable("Authorization: Basic " + as_base64(password.bytes())), "Authorization: Basic ***");
}

TEST(Secrets, OfOtherLettersAreHiddenWhereTheyAreEscaped) {
  secret const password{"\u043f\u0430\u0440\u043e\u043b\u044c\U0001f511"};
  EXPECT_EQ(readable("\"\\u043f\\u0430\\u0440\\u043e\\u043b\\u044c\\ud83d\\udd11\" x"), "\"***\" x");
  EXPECT_EQ(readable("'%D0%BF%D0%B0%D1%80%D0%BE%D0%BB%D1%8C%F0%9F%94%91' x"), "'***' x");
  EXPECT_EQ(readable("'\\u00d0\\u00bf\\u00d0\\u00b0\\u00d1\\u0080\\u00d0\\u00be' x"), "'***' x")
      << "each byte as a character";
}

TEST(Secrets, BehindWhatLooksLikeTheBeginningOfAnEscapeAreHidden) {
  secret const one{"163abc-9876"}, two{"41-zyx-5544"};
  EXPECT_EQ(readable("DOMAIN\\163abc-9876 x"), "DOMAIN\\*** x");
  EXPECT_EQ(readable("90%41-zyx-5544 x"), "90%*** x");
}

TEST(Secrets, AreNotSeenInNumbersAndWordsThatMeanOtherThings) {
  secret const short_one{"12"}, letter{"x"}, password{"sEcret>47?!"};
  for (std::string const& said :
       {"port 3132, code 78, 49 50 of 120, run 5e3f"s, "the server at 10.0.0.1:6379 (id 8f3a5d0c) said no"s, "\\x7365"s,
        "an unexpected message of the authentication"s}) {
    EXPECT_EQ(readable(said), said);
  }
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
  EXPECT_EQ(make_error_code(errc::server_refused, "the server said hunter-2-hunter").message().find("hunter"),
            std::string::npos);
  EXPECT_EQ(readable_line("cannot connect: hunter-2-hunter"), "cannot connect: ***");
}

TEST(Secrets, ThatAreOurOwnWordsDoNotSpoilALineOfOurs) {
  secret const bad{"redis"}, worse{"postgres"}, mixed{"postgresql-prod-7"};
  EXPECT_EQ(readable_line("cannot connect to redis://a, postgresql://b"),
            "cannot connect to redis://a, postgresql://b");
  EXPECT_EQ(readable("args 'redis' 'postgresql-prod-7'"), "args '***' '***'") << "a server's words are another matter";
}

TEST(Secrets, DoNotMakeAHostileServerExpensive) {
  std::vector<secret> many;
  for (int n = 0; n < 1000; ++n)
    many.emplace_back("user-" + std::to_string(n * 7919) + "-" + std::to_string(n * 6007 + 1));
  for (std::string_view const repeated : {"user-7 'user-1' 6007", "\\u0075%73\\145\\x72-7 'user-1' =75=73",
                                          "0x75 0x73 117 115 dXNlci03OTE5LTYwMDg", "\\"}) {
    std::string text;
    while (text.size() < 60'000) text += repeated;
    std::size_t size = 0;
    double const taken = test::cpu_seconds([&] {
      for (int n = 0; n < 100; ++n) size += readable(text).size();
    });
    EXPECT_GT(size, 0u);
    EXPECT_LT(taken, 10) << "measured: 0.2 to 0.4 s";
  }
}

}  // namespace
}  // namespace conch
