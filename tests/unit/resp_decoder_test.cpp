#include "resp/decoder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace std::string_literals;
using conch::resp::decoder;
using conch::resp::kind;
using conch::resp::limits;
using conch::resp::node;

// ---- what a decoder made of its input, in words

std::string_view name(kind what) {
  constexpr std::string_view names[] = {
      "simple", "error", "integer", "bulk", "array", "null", "boolean", "real", "big", "bulk_error", "verbatim", "map", "set", "attribute", "push",
  };
  return names[static_cast<std::size_t>(what)];
}

bool is_aggregate(kind what) { return what == kind::array || what == kind::map || what == kind::set || what == kind::push; }

// "array(integer 1, bulk 'a')". Consumes one value with all its children from the front of `rest`
// and checks that counts and depths agree.
std::string describe(std::span<node const>& rest, std::uint32_t depth) {
  if (rest.empty()) {
    return "(missing)";
  }
  node const n = rest.front();
  rest = rest.subspan(1);
  if (n.depth != depth) {
    return "(wrong depth)";
  }
  std::string out{name(n.what)};
  if (is_aggregate(n.what)) {
    out += '(';
    for (std::uint64_t i = 0; i < n.count; ++i) {
      if (i != 0) {
        out += ", ";
      }
      out += describe(rest, depth + 1);
    }
    return out + ')';
  }
  if (n.count != 0) {
    out += " (with a count)";
  }
  if (n.what == kind::null) {
    return out;
  }
  if (n.what == kind::integer || n.what == kind::boolean) {
    out += ' ' + std::to_string(n.integer);
  }
  if (n.what == kind::boolean || (n.what == kind::integer && n.text == std::to_string(n.integer))) {
    return out;
  }
  return out + " '" + std::string(n.text) + '\'';
}

std::string describe(decoder const& d) {
  auto rest = d.message();
  if (rest.empty()) {
    return "(empty)";
  }
  if (d.is_push() != (rest.front().what == kind::push)) {
    return "(is_push is wrong)";
  }
  auto out = describe(rest, 0);
  return rest.empty() ? out : out + " (and more)";
}

// The messages in order, then the error if there was one.
using transcript = std::vector<std::string>;

void drain(decoder& d, transcript& out) {
  for (;;) {
    switch (d.next()) {
      case decoder::progress::need_more: return;
      case decoder::progress::message: out.push_back(describe(d)); break;
      case decoder::progress::failed:
        if (out.empty() || !out.back().starts_with("failed")) {
          out.push_back("failed: "s.append(d.error()));
        }
        return;
    }
  }
}

void give(decoder& d, std::string_view bytes, std::size_t at_least = 1) {
  auto const room = d.prepare(std::max(at_least, bytes.size()));
  ASSERT_GE(room.size(), std::max(at_least, bytes.size()));
  std::copy(bytes.begin(), bytes.end(), room.begin());
  d.commit(bytes.size());
}

transcript decode_whole(std::string_view input, limits bounds = {}) {
  decoder d(bounds);
  transcript out;
  give(d, input);
  drain(d, out);
  return out;
}

transcript decode_cut_at(std::string_view input, std::size_t cut, limits bounds = {}) {
  decoder d(bounds);
  transcript out;
  give(d, input.substr(0, cut));
  drain(d, out);
  give(d, input.substr(cut));
  drain(d, out);
  return out;
}

transcript decode_by(std::string_view input, std::size_t piece, limits bounds = {}) {
  decoder d(bounds);
  transcript out;
  for (; !input.empty(); input.remove_prefix(std::min(piece, input.size()))) {
    give(d, input.substr(0, piece));
    drain(d, out);
  }
  return out;
}

// Every example of this file goes through here, so every one is tried in all splits.
transcript decode(std::string_view input, limits bounds = {}) {
  auto const whole = decode_whole(input, bounds);
  for (std::size_t cut = 0; cut <= input.size(); ++cut) {
    EXPECT_EQ(decode_cut_at(input, cut, bounds), whole) << "cut at " << cut << ": " << input;
  }
  for (std::size_t const piece : {1U, 2U, 3U}) {
    EXPECT_EQ(decode_by(input, piece, bounds), whole) << "pieces of " << piece << ": " << input;
  }
  return whole;
}

transcript only(std::string message) { return {std::move(message)}; }

// ---- types

TEST(RespDecoder, SimpleStringsAndErrorsAreTheirLine) {
  EXPECT_EQ(decode("+OK\r\n"), only("simple 'OK'"));
  EXPECT_EQ(decode("+\r\n"), only("simple ''"));
  EXPECT_EQ(decode("-ERR no such thing\r\n"), only("error 'ERR no such thing'"));
  EXPECT_EQ(decode("-\r\n"), only("error ''"));
}

TEST(RespDecoder, IntegersSpanAll64Bits) {
  EXPECT_EQ(decode(":0\r\n:7\r\n:-7\r\n:+7\r\n"), (transcript{"integer 0", "integer 7", "integer -7", "integer 7 '+7'"}));
  EXPECT_EQ(decode(":9223372036854775807\r\n"), only("integer 9223372036854775807"));
  EXPECT_EQ(decode(":-9223372036854775808\r\n"), only("integer -9223372036854775808"));
  EXPECT_EQ(decode(":999999999999999999\r\n:1000000000000000000\r\n"), (transcript{"integer 999999999999999999", "integer 1000000000000000000"}));
  EXPECT_EQ(decode(":007\r\n:-0\r\n:0000000000000000000000000001\r\n"),
            (transcript{"integer 7 '007'", "integer 0 '-0'", "integer 1 '0000000000000000000000000001'"}));
}

TEST(RespDecoder, BulkStringsHoldAnyBytes) {
  EXPECT_EQ(decode("$5\r\nhello\r\n"), only("bulk 'hello'"));
  EXPECT_EQ(decode("$0\r\n\r\n"), only("bulk ''"));
  EXPECT_EQ(decode("$8\r\n\r\n$3\r\n\0\xff\r\n"s), only("bulk '\r\n$3\r\n\0\xff'"s));
  EXPECT_EQ(decode("$003\r\nabc\r\n"), only("bulk 'abc'"));
  EXPECT_EQ(decode("!8\r\nERR a\r\nb\r\n"), only("bulk_error 'ERR a\r\nb'"));
}

TEST(RespDecoder, NullsOfBothProtocolsAreNulls) {
  EXPECT_EQ(decode("_\r\n$-1\r\n*-1\r\n"), (transcript{"null", "null", "null"}));
  EXPECT_EQ(decode("*4\r\n$-1\r\n_\r\n*-1\r\n:1\r\n"), only("array(null, null, null, integer 1)"));
}

TEST(RespDecoder, BooleansAreZeroOrOne) { EXPECT_EQ(decode("#t\r\n#f\r\n"), (transcript{"boolean 1", "boolean 0"})); }

TEST(RespDecoder, DoublesAndBigNumbersAreTextThatIsOne) {
  for (auto const* text : {"1", "-1", "+1", "10.25", "1e9", "1E-9", "-1.5e+300", "inf", "-inf", "nan", "-nan", "INF", "+inf"}) {
    EXPECT_EQ(decode(","s + text + "\r\n"), only("real '"s + text + "'"));
  }
  for (auto const* text : {"0", "-1", "+12", "3492890328409238509324850943850943825024385"}) {
    EXPECT_EQ(decode("("s + text + "\r\n"), only("big '"s + text + "'"));
  }
}

TEST(RespDecoder, VerbatimStringsComeWithoutTheirFormat) {
  EXPECT_EQ(decode("=15\r\ntxt:Some string\r\n"), only("verbatim 'Some string'"));
  EXPECT_EQ(decode("=4\r\nmkd:\r\n"), only("verbatim ''"));
}

TEST(RespDecoder, AggregatesAreFollowedByTheirChildren) {
  EXPECT_EQ(decode("*0\r\n%0\r\n~0\r\n>0\r\n"), (transcript{"array()", "map()", "set()", "push()"}));
  EXPECT_EQ(decode("*3\r\n:1\r\n$1\r\na\r\n+b\r\n"), only("array(integer 1, bulk 'a', simple 'b')"));
  EXPECT_EQ(decode("%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n"), only("map(simple 'a', integer 1, simple 'b', integer 2)"));
  EXPECT_EQ(decode("~2\r\n#t\r\n,1.5\r\n"), only("set(boolean 1, real '1.5')"));
  EXPECT_EQ(decode("*2\r\n*2\r\n:1\r\n*0\r\n%1\r\n~1\r\n:2\r\n*1\r\n*1\r\n_\r\n"),
            only("array(array(integer 1, array()), map(set(integer 2), array(array(null))))"));
}

TEST(RespDecoder, NodesAreAPreOrderListWithCountsAndDepths) {
  decoder d;
  give(d, "*2\r\n%1\r\n+k\r\n:5\r\n$2\r\nxy\r\n");
  ASSERT_EQ(d.next(), decoder::progress::message);
  auto const m = d.message();
  ASSERT_EQ(m.size(), 5U);
  EXPECT_EQ(m[0].what, kind::array);
  EXPECT_EQ(m[0].count, 2U);
  EXPECT_EQ(m[0].depth, 0U);
  EXPECT_EQ(m[1].what, kind::map);
  EXPECT_EQ(m[1].count, 2U);
  EXPECT_EQ(m[1].depth, 1U);
  EXPECT_EQ(m[2].depth, 2U);
  EXPECT_EQ(m[3].integer, 5);
  EXPECT_EQ(m[3].text, "5");
  EXPECT_EQ(m[4].depth, 1U);
  EXPECT_EQ(m[4].text, "xy");
}

TEST(RespDecoder, PushesArriveBetweenReplies) {
  EXPECT_EQ(decode("+a\r\n>3\r\n+message\r\n$1\r\nc\r\n$1\r\nm\r\n:1\r\n>1\r\n+x\r\n"),
            (transcript{"simple 'a'", "push(simple 'message', bulk 'c', bulk 'm')", "integer 1", "push(simple 'x')"}));
  decoder d;
  EXPECT_FALSE(d.is_push());
  give(d, ">1\r\n+x\r\n*1\r\n+x\r\n");
  ASSERT_EQ(d.next(), decoder::progress::message);
  EXPECT_TRUE(d.is_push());
  ASSERT_EQ(d.next(), decoder::progress::message);
  EXPECT_FALSE(d.is_push());
  ASSERT_EQ(d.next(), decoder::progress::need_more);
  EXPECT_FALSE(d.is_push());
  EXPECT_TRUE(d.message().empty());
}

TEST(RespDecoder, AttributesAreSkippedWhereverTheyStand) {
  EXPECT_EQ(decode("|1\r\n+ttl\r\n:9\r\n$1\r\na\r\n"), only("bulk 'a'"));
  EXPECT_EQ(decode("*2\r\n|1\r\n+k\r\n*2\r\n:1\r\n:2\r\n:3\r\n|0\r\n:4\r\n"), only("array(integer 3, integer 4)"));
  EXPECT_EQ(decode("%1\r\n|1\r\n+a\r\n+b\r\n+k\r\n|1\r\n+a\r\n+b\r\n+v\r\n"), only("map(simple 'k', simple 'v')"));
  // In front of an aggregate, of another attribute, inside an attribute, in front of a push.
  EXPECT_EQ(decode("|1\r\n+a\r\n%1\r\n:1\r\n_\r\n|1\r\n|1\r\n+b\r\n+c\r\n+d\r\n*0\r\n*1\r\n#t\r\n"), only("array(boolean 1)"));
  EXPECT_EQ(decode("|1\r\n+a\r\n:1\r\n>1\r\n+x\r\n+y\r\n"), (transcript{"push(simple 'x')", "simple 'y'"}));
  // After the last child it belongs to the next message.
  EXPECT_EQ(decode("*1\r\n:1\r\n|1\r\n+a\r\n+b\r\n"), only("array(integer 1)"));
  EXPECT_EQ(decode("|0\r\n"), transcript{});
}

TEST(RespDecoder, AnUnfinishedMessageIsNoMessage) {
  auto const input = "|1\r\n+a\r\n:1\r\n*3\r\n:1\r\n%1\r\n+k\r\n$3\r\nabc\r\n=5\r\ntxt:x\r\n"s;
  for (std::size_t n = 0; n < input.size(); ++n) {
    EXPECT_EQ(decode_whole(input.substr(0, n)), transcript{}) << n;
  }
  EXPECT_EQ(decode(input).size(), 1U);
}

// ---- what is wrong

TEST(RespDecoder, MalformedInputIsRefusedInWords) {
  struct {
    std::string input, error;
  } const cases[] = {
      {"hello\r\n", "unknown type 0x68 at byte 0"},
      {"\r\n", "unknown type 0x0d at byte 0"},
      {"\xff", "unknown type 0xff at byte 0"},
      {"+OK\n", "LF without CR at byte 3"},
      {"+OK\rX", "CR without LF at byte 3"},
      {"+OK\r\r\n", "CR without LF at byte 3"},
      {":1\n", "LF without CR at byte 2"},
      {":1\rX", "CR without LF at byte 2"},
      {"$3\n", "LF without CR at byte 2"},
      {"*1\r:", "CR without LF at byte 2"},
      {":\r\n", "bad integer at byte 0"},
      {":-\r\n", "bad integer at byte 0"},
      {":+\r\n", "bad integer at byte 0"},
      {":+-1\r\n", "bad integer at byte 0"},
      {":--1\r\n", "bad integer at byte 0"},
      {": 1\r\n", "bad integer at byte 0"},
      {":1 \r\n", "bad integer at byte 0"},
      {":1.0\r\n", "bad integer at byte 0"},
      {":0x1\r\n", "bad integer at byte 0"},
      {":9223372036854775808\r\n", "integer beyond 64 bits at byte 0"},
      {":-9223372036854775809\r\n", "integer beyond 64 bits at byte 0"},
      {":+9223372036854775808\r\n", "integer beyond 64 bits at byte 0"},
      {":00000000000000000000000000000000001", "line longer than 32 bytes at byte 0"},
      {"$\r\n", "bad length at byte 0"},
      {"$+3\r\nabc\r\n", "bad length at byte 0"},
      {"$-0\r\n", "bad length at byte 0"},
      {"$-2\r\n", "bad length at byte 0"},
      {"$-01\r\n", "bad length at byte 0"},
      {"$3a\r\n", "bad length at byte 0"},
      {"$99999999999999999999\r\n", "bad length at byte 0"},
      {"*+1\r\n", "bad length at byte 0"},
      {"*-2\r\n", "bad length at byte 0"},
      {"*99999999999999999999\r\n", "bad length at byte 0"},
      {"%-1\r\n", "bad length at byte 0"},
      {"~-1\r\n", "bad length at byte 0"},
      {">-1\r\n", "bad length at byte 0"},
      {"|-1\r\n", "bad length at byte 0"},
      {"!-1\r\n", "bad length at byte 0"},
      {"=-1\r\n", "bad length at byte 0"},
      {"$3\r\nabcd\r\n", "string without CR LF after it at byte 7"},
      {"$3\r\nabc\rx", "string without CR LF after it at byte 7"},
      {"$3\r\nabc\n\n", "string without CR LF after it at byte 7"},
      {"=3\r\ntxt\r\n", "bad verbatim string at byte 0"},
      {"=5\r\ntxtab\r\n", "bad verbatim string at byte 4"},
      {"_x\r\n", "bad null at byte 0"},
      {"#\r\n", "bad boolean at byte 0"},
      {"#T\r\n", "bad boolean at byte 0"},
      {"#true\r\n", "bad boolean at byte 0"},
      {"(\r\n", "bad big number at byte 0"},
      {"(-\r\n", "bad big number at byte 0"},
      {"(12a\r\n", "bad big number at byte 0"},
      {"$?\r\n", "streamed strings and aggregates are not supported, found one at byte 0"},
      {"*?\r\n", "streamed strings and aggregates are not supported, found one at byte 0"},
      {"%?\r\n", "streamed strings and aggregates are not supported, found one at byte 0"},
      {";4\r\n", "streamed strings and aggregates are not supported, found one at byte 0"},
      {".\r\n", "streamed strings and aggregates are not supported, found one at byte 0"},
      {"*1\r\n>1\r\n+x\r\n", "push inside another value at byte 4"},
      {"|1\r\n+a\r\n>1\r\n", "push inside another value at byte 8"},
  };
  for (auto const& c : cases) {
    EXPECT_EQ(decode(c.input), only("failed: " + c.error)) << c.input;
  }
  for (auto const* text : {"", "-", ".", "1.", ".5", "e5", "1e", "1e+", "1.e5", "1x", "--1", "infinity", "in", "nanx", "1 ", "0x10"}) {
    EXPECT_EQ(decode(","s + text + "\r\n"), only("failed: bad double at byte 0")) << text;
  }
}

TEST(RespDecoder, MessagesBeforeTheErrorAreDeliveredAndThePositionCountsThem) {
  EXPECT_EQ(decode("+OK\r\n*1\r\n:5\r\n*2\r\n:1\r\nX"), (transcript{"simple 'OK'", "array(integer 5)", "failed: unknown type 0x58 at byte 21"}));
}

TEST(RespDecoder, AnErrorStaysUntilReset) {
  decoder d;
  EXPECT_EQ(d.error(), "");
  give(d, "+a\r\nX+b\r\n");
  EXPECT_EQ(d.next(), decoder::progress::message);
  EXPECT_EQ(d.error(), "");
  EXPECT_EQ(d.next(), decoder::progress::failed);
  auto const capacity = d.capacity();
  for (int i = 0; i < 100; ++i) {
    give(d, std::string(1000, '+'));
    EXPECT_EQ(d.next(), decoder::progress::failed);
  }
  EXPECT_EQ(d.capacity(), capacity) << "input is hoarded although nobody will read it";
  EXPECT_EQ(d.error(), "unknown type 0x58 at byte 4");
  EXPECT_TRUE(d.message().empty());
  EXPECT_FALSE(d.is_push());
  d.reset();
  EXPECT_EQ(d.error(), "");
  EXPECT_EQ(d.next(), decoder::progress::need_more);
  give(d, ":1\r\nX");
  EXPECT_EQ(d.next(), decoder::progress::message);
  EXPECT_EQ(describe(d), "integer 1");
  EXPECT_EQ(d.next(), decoder::progress::failed);
  EXPECT_EQ(d.error(), "unknown type 0x58 at byte 4");
}

TEST(RespDecoder, ResetForgetsAMessageAtAnyPoint) {
  auto const input = "|1\r\n+a\r\n*1\r\n:1\r\n*2\r\n:12\r\n$3\r\nabc\r\n"s;
  auto const expected = transcript{"array(integer 12, bulk 'abc')", "failed: unknown type 0x58 at byte 34"};
  for (std::size_t n = 0; n <= input.size(); ++n) {
    decoder d({.max_elements = 7});
    transcript out;
    give(d, "+before\r\n");
    drain(d, out);
    give(d, input.substr(0, n));
    drain(d, out);
    (void)d.prepare(1);
    out.clear();
    d.reset();
    give(d, input + 'X');
    drain(d, out);
    EXPECT_EQ(out, expected) << n;
  }
}

// ---- limits

TEST(RespDecoder, NestingEndsAtMaxDepth) {
  limits const bounds{.max_depth = 3};
  EXPECT_EQ(decode("*1\r\n*1\r\n*1\r\n:1\r\n", bounds), only("array(array(array(integer 1)))"));
  EXPECT_EQ(decode("*1\r\n*1\r\n*0\r\n", bounds), only("array(array(array()))"));
  EXPECT_EQ(decode("*1\r\n*1\r\n*1\r\n*0\r\n", bounds), only("failed: nested deeper than 3 at byte 12"));
  EXPECT_EQ(decode("*1\r\n|1\r\n%1\r\n~1\r\n", bounds), only("failed: nested deeper than 3 at byte 12"));
  EXPECT_EQ(decode("*0\r\n", {.max_depth = 0}), only("failed: nested deeper than 0 at byte 0"));
  EXPECT_EQ(decode(":1\r\n", {.max_depth = 0}), only("integer 1"));
  std::string deep;
  for (int i = 0; i < 17; ++i) {
    deep += "*1\r\n";
  }
  EXPECT_EQ(decode(deep), only("failed: nested deeper than 16 at byte 64"));
}

TEST(RespDecoder, ValuesInAMessageEndAtMaxElements) {
  limits const bounds{.max_elements = 5};
  auto const refused = [](int at) { return only("failed: more than 5 values in a message at byte " + std::to_string(at)); };
  EXPECT_EQ(decode("*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", bounds), only("array(integer 1, integer 2, integer 3, integer 4)"));
  EXPECT_EQ(decode("*5\r\n", bounds), refused(0));
  EXPECT_EQ(decode("%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n", bounds), only("map(integer 1, integer 2, integer 3, integer 4)"));
  EXPECT_EQ(decode("%3\r\n", bounds), refused(0));
  EXPECT_EQ(decode("*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n", bounds), only("array(array(integer 1, integer 2), integer 3)"));
  EXPECT_EQ(decode("*2\r\n*3\r\n", bounds), refused(4));
  // Announced children count before they arrive, skipped ones like others.
  EXPECT_EQ(decode("*3\r\n~2\r\n", bounds), refused(4));
  EXPECT_EQ(decode("|1\r\n:1\r\n:2\r\n*1\r\n:1\r\n", bounds), only("array(integer 1)"));
  EXPECT_EQ(decode("|1\r\n:1\r\n:2\r\n*2\r\n", bounds), refused(12));
  EXPECT_EQ(decode("|0\r\n|0\r\n|0\r\n|0\r\n:1\r\n", bounds), only("integer 1"));
  EXPECT_EQ(decode("|0\r\n|0\r\n|0\r\n|0\r\n|0\r\n", bounds), refused(16));
  EXPECT_EQ(decode("|2\r\n", bounds), refused(0));
  // Every message has its own count.
  EXPECT_EQ(decode("*3\r\n:1\r\n:2\r\n:3\r\n*1\r\n*1\r\n*2\r\n:1\r\n:2\r\n", bounds),
            (transcript{"array(integer 1, integer 2, integer 3)", "array(array(array(integer 1, integer 2)))"}));
  EXPECT_EQ(decode(":1\r\n", {.max_elements = 0}), only("integer 1"));
  for (auto const* count : {"*9223372036854775807\r\n", "%9223372036854775807\r\n", "|9223372036854775807\r\n", "*1048576\r\n"}) {
    EXPECT_EQ(decode(count), only("failed: more than 1048576 values in a message at byte 0"));
  }
}

TEST(RespDecoder, StringsEndAtMaxText) {
  limits const bounds{.max_text = 4};
  EXPECT_EQ(decode("$4\r\nabcd\r\n", bounds), only("bulk 'abcd'"));
  EXPECT_EQ(decode("$5\r\n", bounds), only("failed: string longer than 4 bytes at byte 0"));
  EXPECT_EQ(decode("!5\r\n", bounds), only("failed: string longer than 4 bytes at byte 0"));
  EXPECT_EQ(decode("=5\r\n", bounds), only("failed: string longer than 4 bytes at byte 0"));
  for (auto const type : "+-,("s) {
    EXPECT_EQ(decode(type + "1234\r\n"s, bounds).at(0).find("failed"), std::string::npos);
    EXPECT_EQ(decode(type + "12345"s, bounds), only("failed: line longer than 4 bytes at byte 0"));
  }
  EXPECT_EQ(decode("$9223372036854775807\r\n"), only("failed: string longer than 67108864 bytes at byte 0"));
}

TEST(RespDecoder, MessagesEndAtMaxMessage) {
  limits const bounds{.max_message = 12};
  auto const refused = only("failed: message longer than 12 bytes at byte 0");
  EXPECT_EQ(decode("*2\r\n:1\r\n:2\r\n", bounds), only("array(integer 1, integer 2)"));
  EXPECT_EQ(decode("*2\r\n:1\r\n:22\r\n", bounds), refused);
  EXPECT_EQ(decode("*3\r\n:1\r\n:2\r\n", bounds), transcript{});
  EXPECT_EQ(decode("*3\r\n:1\r\n:2\r\n:", bounds), refused);
  EXPECT_EQ(decode("$6\r\nabcdef\r\n", bounds), only("bulk 'abcdef'"));
  EXPECT_EQ(decode("$7\r\n", bounds), refused) << "refused before the string arrives";
  EXPECT_EQ(decode("+123456789\r\n", bounds), only("simple '123456789'"));
  EXPECT_EQ(decode("+1234567890\r\n", bounds), refused);
  EXPECT_EQ(decode("|0\r\n|0\r\n|0\r\n:1\r\n", bounds), refused);
  EXPECT_EQ(decode("*1\r\n:1\r\n*1\r\n$5\r\n", bounds), (transcript{"array(integer 1)", "failed: message longer than 12 bytes at byte 8"}));
  EXPECT_EQ(decode("+", {.max_message = 0}), only("failed: message longer than 0 bytes at byte 0"));
}

TEST(RespDecoder, NothingIsAllocatedForAnnouncedButAbsentData) {
  for (auto const* header : {"*1000000\r\n", "%500000\r\n", "~1000000\r\n", ">1000000\r\n", "|500000\r\n", "$67108864\r\n", "!67108864\r\n"}) {
    decoder d;
    give(d, header);
    ASSERT_EQ(d.next(), decoder::progress::need_more) << header;
    EXPECT_LE(d.capacity(), 20'000U) << header;
  }
}

// ---- cost

std::string big_message(std::string_view what) {
  constexpr std::size_t size = 1'000'000;
  std::string out;
  if (what == "bulk string") {
    return "$1000000\r\n" + std::string(size, 'x') + "\r\n";
  }
  if (what == "simple string") {
    return "+" + std::string(size, 'x') + "\r\n";
  }
  if (what == "big number") {
    return "(" + std::string(size, '1') + "\r\n";
  }
  if (what == "integers") {
    for (std::size_t i = 0; i < size / 4; ++i) {
      out += ":7\r\n";
    }
    return "*250000\r\n" + out;
  }
  if (what == "long integers") {
    for (std::size_t i = 0; i < size / 20; ++i) {
      out += ":-12345678901234567\r\n";
    }
    return "*50000\r\n" + out;
  }
  if (what == "small strings") {
    for (std::size_t i = 0; i < size / 10; ++i) {
      out += "$3\r\nabc\r\n";
    }
    return "*100000\r\n" + out;
  }
  for (std::size_t i = 0; i < size / 20; ++i) {
    out += "|1\r\n+k\r\n*1\r\n_\r\n:1\r\n";  // attributes
  }
  return "*50000\r\n" + out;
}

constexpr char const* big_messages[] = {"bulk string", "simple string", "big number", "integers", "long integers", "small strings", "attributes"};

TEST(RespDecoder, WorkIsLinearEvenOneByteAtATime) {
  for (auto const* what : big_messages) {
    auto const input = big_message(what);
    for (std::size_t const room : {1U, 4096U, 100'000U}) {
      decoder d;
      for (std::size_t i = 0; i < input.size(); ++i) {
        ASSERT_EQ(d.next(), decoder::progress::need_more);
        d.prepare(room)[0] = input[i];
        d.commit(1);
      }
      ASSERT_EQ(d.next(), decoder::progress::message) << what;
      EXPECT_LE(d.work(), 6 * input.size()) << what << ", prepared " << room;
      EXPECT_EQ(only(describe(d)), decode_whole(input)) << what;
    }
  }
}

TEST(RespDecoder, WorkIsLinearWhenABacklogIsTakenOneMessageAtATime) {
  std::string input;
  for (int i = 0; i < 100'000; ++i) {
    input += "*1\r\n:1\r\n";
  }
  decoder d;
  give(d, input);
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_EQ(d.next(), decoder::progress::message);
    give(d, "+", 4096);  // more keeps coming
  }
  EXPECT_LE(d.work(), 6 * input.size());
}

TEST(RespDecoder, MemoryShrinksBackAfterAHugeMessage) {
  for (auto const* what : big_messages) {
    decoder d;
    give(d, big_message(what));
    ASSERT_EQ(d.next(), decoder::progress::message);
    EXPECT_GE(d.capacity(), 1'000'000U);
    (void)d.prepare(4096);
    EXPECT_LE(d.capacity(), 300'000U) << what;
    give(d, ":1\r\n");
    ASSERT_EQ(d.next(), decoder::progress::message);
    EXPECT_EQ(describe(d), "integer 1");
  }
}

TEST(RespDecoder, OrdinaryTrafficSettlesWithoutAllocations) {
  auto const reply = "*5\r\n:1\r\n$8\r\nconch:ab\r\n:9876543210\r\n*2\r\n:3\r\n_\r\n$2\r\nok\r\n"s;
  auto const traffic = reply + reply + reply.substr(0, 17);
  auto const rest = reply.substr(17);
  decoder d;
  transcript out;
  std::size_t capacity = 0;
  char const* buffer = nullptr;
  node const* nodes = nullptr;
  for (int round = 0; round < 1000; ++round) {
    give(d, traffic, 4096);
    while (d.next() == decoder::progress::message) {
      nodes = round == 0 ? d.message().data() : nodes;
    }
    auto const room = d.prepare(4096);
    std::copy(rest.begin(), rest.end(), room.begin());
    d.commit(rest.size());
    ASSERT_EQ(d.next(), decoder::progress::message);
    ASSERT_EQ(d.message().data(), nodes);
    if (round == 0) {
      capacity = d.capacity();
      buffer = d.prepare(4096).data();
    }
    ASSERT_EQ(d.capacity(), capacity);
    ASSERT_EQ(d.prepare(4096).data(), buffer);
  }
}

TEST(RespDecoder, ResetKeepsTheMemory) {
  decoder d;
  give(d, "*3\r\n:1\r\n:2\r\n", 4096);
  ASSERT_EQ(d.next(), decoder::progress::need_more);
  auto const capacity = d.capacity();
  d.reset();
  EXPECT_EQ(d.capacity(), capacity);
}

TEST(RespDecoder, TheRoomStaysWhereItIsWhileMessagesAreTaken) {
  decoder d;
  give(d, "+a\r\n+b\r\n*2\r\n:1\r\n");
  auto const room = d.prepare(64);  // a read into it is under way from here
  transcript out;
  drain(d, out);
  std::string_view const arrived = ":2\r\n+c\r\n";
  std::copy(arrived.begin(), arrived.end(), room.begin());
  d.commit(3);
  drain(d, out);
  d.commit(arrived.size() - 3);
  drain(d, out);
  EXPECT_EQ(out, (transcript{"simple 'a'", "simple 'b'", "array(integer 1, integer 2)", "simple 'c'"}));
}

TEST(RespDecoder, PrepareGivesAtLeastWhatWasAskedFor) {
  decoder d;
  for (std::size_t const n : {0U, 1U, 7U, 8192U, 8193U, 1'000'000U, 1U}) {
    EXPECT_GE(d.prepare(n).size(), std::max<std::size_t>(n, 1));
  }
  EXPECT_THROW((void)d.prepare(~std::size_t{0}), std::length_error);
  transcript out;
  give(d, "+still fine\r\n");
  drain(d, out);
  EXPECT_EQ(out, only("simple 'still fine'"));
}

// ---- random

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
