#include "base/readable.hpp"
#include "base/secrets.hpp"

#include <conch/error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace conch {
namespace {

using namespace std::string_view_literals;

TEST(Readable, LeavesPlainWordsAlone) {
  for (std::string_view const words :
       {"", "WRONGTYPE Operation against a key", "a\\b'\"{}", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9a"}) {
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

/// What `printable` and the inside of `in_quotes` mean. A test of its own: only a name that can be read back has one
/// spelling.
std::string read_back(std::string_view spelling) {
  std::string name;
  for (std::size_t i = 0; i < spelling.size(); ++i) {
    if (spelling[i] != '\\') {
      name += spelling[i];
    } else if (spelling.at(i + 1) == 'x') {
      name += static_cast<char>(std::stoi(std::string{spelling.substr(i + 2, 2)}, nullptr, 16));
      i += 3;
    } else {
      name += spelling[++i];
    }
  }
  return name;
}

TEST(Printable, ShowsWhatNobodyWouldSee) {
  struct example {
    std::string_view name, shown;
  };
  for (auto const& [name, shown] : {
           example{"stock", "stock"},
           {"a b", "a b"},
           {" a ", "\\x20a\\x20"},  // a column is filled up with spaces
           {" ", "\\x20"},
           {"\x1b", "\\x1b"},
           {"\\x1b", "\\\\x1b"},
           {"\\", "\\\\"},
           {"a\"b", "a\"b"},
           {"a\xe2\x80\x8b", "a\\xe2\\x80\\x8b"},           // no width
           {"a\xe2\x80\xae", "a\\xe2\\x80\\xae"},           // right to left
           {"a\xc2\xa0", "a\\xc2\\xa0"},                    // looks like a space
           {"\xef\xbb\xbf", "\\xef\\xbb\\xbf"},             // the mark of byte order
           {"a\xef\xb8\x8f", "a\\xef\\xb8\\x8f"},           // a selector of a variation
           {"a\xf3\xa0\x81\xa1", "a\\xf3\\xa0\\x81\\xa1"},  // a tag
           {"\xf0\x9f\xbf\xbe", "\\xf0\\x9f\\xbf\\xbe"},    // U+1FFFE is not a character
           {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9a", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9a"},
       }) {
    EXPECT_EQ(printable(name), shown);
    EXPECT_EQ(readable(printable(name), 1000), shown) << "a line of the log would spell it in another way";
  }
  EXPECT_EQ(in_quotes("a\"b\\"), "\"a\\\"b\\\\\"");
  EXPECT_EQ(in_quotes(" "), "\" \"");
}

TEST(Printable, CanBeReadBackForEveryName) {
  std::vector<std::string> pieces;
  for (int c = 0; c < 256; ++c) pieces.emplace_back(1, static_cast<char>(c));
  for (std::string_view const more :
       {"\\x1b", "\\x5c", "\\...", "\"...", "\\\"", "...", "\xe2\x80\xae", "\xe2\x80", "\xe3\x80\x80"})
    pieces.emplace_back(more);
  std::size_t names = 0;
  for (std::string const& a : pieces) {
    for (std::string const& b : pieces) {
      std::string const name = a + b;
      std::string const shown = printable(name), sentence = in_quotes(name);
      ASSERT_EQ(read_back(shown), name);
      ASSERT_EQ(read_back(std::string_view{sentence}.substr(1, sentence.size() - 2)), name);
      if (without_secrets(sentence) != sentence) continue;  // of another test of this program
      ASSERT_EQ(readable(shown, 1000), shown);
      ASSERT_EQ(readable(sentence, 1000), sentence);
      ++names;
    }
  }
  EXPECT_GT(names, 60'000u);
}

TEST(Printable, SaysUnmistakablyThatANameIsCut) {
  for (std::size_t most = 4; most < 12; ++most) {
    for (std::string_view const unit : {"x", "\\", "\"", ".", "\x1b"}) {
      std::string name;
      for (int n = 0; n < 20; ++n) {
        std::string const shown = printable(name, most), sentence = in_quotes(name, most);
        EXPECT_LE(shown.size(), most);
        EXPECT_LE(sentence.size(), most + 2);  // one mark is not counted if it is cut
        bool const is_whole = printable(name).size() <= most;
        EXPECT_TRUE(is_whole || shown.ends_with("\\...")) << shown;
        EXPECT_EQ(is_whole, shown == printable(name));
        EXPECT_EQ(sentence == in_quotes(name, 1000), in_quotes(name, 1000).size() <= most + 2) << sentence;
        EXPECT_TRUE(sentence.ends_with('"') || sentence.ends_with("\"...")) << sentence;
        name += unit;
      }
    }
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
