#include "base/readable.hpp"

#include <conch/error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace conch {
namespace {

using namespace std::string_view_literals;

TEST(Readable, LeavesPlainWordsAlone) {
  for (std::string_view const words : {"", "WRONGTYPE Operation against a key", "a\\b'\"{}", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9a"}) {
    EXPECT_EQ(readable(words), words);
  }
}

TEST(Readable, WritesWhatATerminalWouldObeyAsItsBytes) {
  struct example {
    std::string_view words, shown;
  };
  for (auto const& [words, shown] : {
           example{"a\x1b[31mb", "a\\x1b[31mb"},
           {"two\r\nlines\tand\0more"sv, "two\\x0d\\x0alines\\x09and\\x00more"},
           {"\x7f\b\a", "\\x7f\\x08\\x07"},
           {"\xc2\x9b"
            "31m",
            "\\xc2\\x9b31m"},  // U+009B, the other way to begin an escape sequence
           {"\x9b"
            "31m",
            "\\x9b31m"},  // and in one byte
           {"\xe2\x80\xae"
            "evil\xe2\x80\xa8"
            "x",
            "\\xe2\\x80\\xaeevil\\xe2\\x80\\xa8x"},  // right to left, end of line
           {"\xe2\x81\xa6"
            "x\xd8\x9c",
            "\\xe2\\x81\\xa6x\\xd8\\x9c"},
           {"\xff\xc3", "\\xff\\xc3"},                                               // no UTF-8; cut short
           {"\xc0\x9b\xe0\x80\x9b", "\\xc0\\x9b\\xe0\\x80\\x9b"},                    // too long for what they say
           {"\xed\xa0\x80\xf4\x90\x80\x80", "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80"},  // a surrogate; beyond Unicode
           {"\xe2\x82x", "\\xe2\\x82x"},
       }) {
    EXPECT_EQ(readable(words), shown);
    EXPECT_EQ(readable(readable(words)), readable(words));
  }
}

TEST(Readable, EndsAtItsLimitAndNotInsideACharacter) {
  for (std::string_view const unit : {"x", "\x1b", "\xe2\x82\xac", "\xc2\x9b", "\xff"}) {
    for (std::size_t most = 3; most < 40; ++most) {
      std::string words;
      for (std::size_t n = 0; n < 40; ++n) {
        std::string const shown = readable(words, most);
        EXPECT_LE(shown.size(), most);
        EXPECT_EQ(readable(shown, most), shown);
        bool const cut = shown.ends_with("...");
        std::string const all = readable(words, 100'000);
        EXPECT_EQ(cut, all.size() > most);
        if (cut) {
          EXPECT_TRUE(all.starts_with(shown.substr(0, shown.size() - 3)));
          EXPECT_EQ((shown.size() - 3) % readable(unit).size(), 0u) << shown;
        }
        words += unit;
      }
    }
  }
  EXPECT_EQ(readable(std::string(201, 'a')), std::string(197, 'a') + "...");
  EXPECT_EQ(readable(std::string(200, 'a')), std::string(200, 'a'));
}

TEST(Readable, IsWhatEveryErrorSays) {
  error_code const ec = make_error_code(errc::wrong_type, "WRONGTYPE of \x1b]0;title\a\n");
  EXPECT_NE(ec.message().find("WRONGTYPE of \\x1b]0;title\\x07\\x0a"), std::string::npos) << ec.message();
  EXPECT_LT(make_error_code(errc::wrong_type, std::string(100'000, '\n')).message().size(), 600u);
}

}  // namespace
}  // namespace conch
