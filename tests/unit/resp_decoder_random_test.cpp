// Random messages, and random damage, are read alike however they are cut.
#include "unit/resp_decoder_fixture.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>

namespace conch::resp::test {

namespace {

// Writes random values twice: as bytes, and as describe() should put them.
class generator {
 public:
  explicit generator(std::uint32_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return random_() % n; }

  void message(std::string& wire, std::string& words) {
    if (below(4) == 0) {
      aggregate(wire, words, 0, '>', kind::push);
    } else {
      value(wire, words, 0);
    }
  }

 private:
  std::string letters() {
    std::string out(below(12), 'x');
    for (auto& c : out) {
      c = static_cast<char>('a' + below(26));
    }
    return out;
  }

  std::string bytes() {
    std::string out(below(below(50) == 0 ? 20'000 : 12), 'x');
    for (auto& c : out) {
      c = static_cast<char>(below(256));
    }
    return out;
  }

  void value(std::string& wire, std::string& words, int depth) {
    if (below(8) == 0) {
      std::string dropped;
      aggregate(wire, dropped, depth + 3, '|', kind::attribute);
    }
    switch (below(depth < 5 ? 9 : 6)) {
      case 0: return line(wire, words, '+', kind::simple_string, letters());
      case 1: return line(wire, words, '-', kind::simple_error, letters());
      case 2: return string(wire, words, '$', kind::bulk_string, "");
      case 3: return string(wire, words, '!', kind::bulk_error, "");
      case 4: return string(wire, words, '=', kind::verbatim_string, "txt:");
      case 5: return small(wire, words);
      case 6: return aggregate(wire, words, depth, '*', kind::array);
      case 7: return aggregate(wire, words, depth, '%', kind::map);
      default: return aggregate(wire, words, depth, '~', kind::set);
    }
  }

  static void line(std::string& wire, std::string& words, char type, kind what, std::string const& text) {
    wire += type + text + "\r\n";
    words += std::string(name(what)) + " '" + text + "'";
  }

  void string(std::string& wire, std::string& words, char type, kind what, std::string const& prefix) {
    auto const text = bytes();
    wire += type + std::to_string(prefix.size() + text.size()) + "\r\n" + prefix + text + "\r\n";
    words += std::string(name(what)) + " '" + text + "'";
  }

  void small(std::string& wire, std::string& words) {
    constexpr std::pair<char const*, char const*> constants[] = {
        {"_\r\n", "null"}, {"$-1\r\n", "null"}, {"*-1\r\n", "null"}, {"#t\r\n", "boolean 1"}, {"#f\r\n", "boolean 0"},
    };
    auto const which = below(9);
    if (which < std::size(constants)) {
      wire += constants[which].first;
      words += constants[which].second;
    } else if (which == 5) {
      line(wire, words, ',', kind::real, std::to_string(static_cast<double>(random_()) / 7));
    } else if (which == 6) {
      line(wire, words, '(', kind::big_number, '-' + std::string(1 + below(40), '7'));
    } else {
      auto const bits = (static_cast<std::uint64_t>(random_()) << 32U | random_()) >> below(64);
      auto const text = std::to_string(static_cast<std::int64_t>(below(2) == 0 ? bits : ~bits));
      wire += ':' + text + "\r\n";
      words += "integer " + text;
    }
  }

  void aggregate(std::string& wire, std::string& words, int depth, char type, kind what) {
    auto const length = below(5);
    auto const children = what == kind::map || what == kind::attribute ? 2 * length : length;
    wire += type + std::to_string(length) + "\r\n";
    words += std::string(name(what)) + '(';
    for (std::size_t i = 0; i < children; ++i) {
      words += i != 0 ? ", " : "";
      value(wire, words, depth + 1);
    }
    words += ')';
  }

  std::mt19937 random_;
};

TEST(RespDecoder, RandomMessagesComeBackAsTheyWereSentHoweverCut) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    generator make(seed);
    std::string wire;
    transcript expected(1 + make.below(10));
    for (auto& words : expected) {
      make.message(wire, words);
    }
    ASSERT_EQ(decode_whole(wire), expected);
    ASSERT_EQ(decode_by(wire, 1), expected);
    decoder d;
    transcript out;
    auto const longest = std::size_t{1} << make.below(12);
    for (std::string_view rest = wire; !rest.empty();) {
      auto const piece = std::min(rest.size(), 1 + make.below(longest));
      give(d, rest.substr(0, piece));
      rest.remove_prefix(piece);
      if (make.below(3) != 0) {
        drain(d, out);  // else let a backlog build up
      }
    }
    drain(d, out);
    ASSERT_EQ(out, expected);
  }
}

TEST(RespDecoder, RandomDamageIsSeenAlikeHoweverCut) {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    generator make(seed);
    std::string wire, words;
    for (int i = 0; i < 3; ++i) {
      make.message(wire, words);
    }
    constexpr std::string_view likely = "\r\n0123456789-+:$*|>%_#,(!=~?.;";
    for (std::size_t i = make.below(4) + 1; i != 0; --i) {
      wire[make.below(wire.size())] = likely[make.below(likely.size())];
    }
    limits const bounds{.max_depth = 4, .max_elements = 20, .max_text = 30, .max_message = 200};
    auto const whole = decode_whole(wire, bounds);
    ASSERT_EQ(decode_by(wire, 1, bounds), whole);
    ASSERT_EQ(decode_by(wire, 7, bounds), whole);
    ASSERT_EQ(decode_cut_at(wire, make.below(wire.size()), bounds), whole);
    ASSERT_EQ(decode_by(wire, 5), decode_whole(wire));
  }
}

}  // namespace

}  // namespace conch::resp::test
