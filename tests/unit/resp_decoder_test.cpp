#include "unit/resp_decoder_fixture.hpp"

#include <cstddef>
#include <string>

namespace conch::resp::test {

namespace {

// ---- types

TEST(RespDecoder, SimpleStringsAndErrorsAreTheirLine) {
  EXPECT_EQ(decode("+OK\r\n"), only("simple 'OK'"));
  EXPECT_EQ(decode("+\r\n"), only("simple ''"));
  EXPECT_EQ(decode("-ERR no such thing\r\n"), only("error 'ERR no such thing'"));
  EXPECT_EQ(decode("-\r\n"), only("error ''"));
}

TEST(RespDecoder, IntegersSpanAll64Bits) {
  EXPECT_EQ(decode(":0\r\n:7\r\n:-7\r\n:+7\r\n"),
            (transcript{"integer 0", "integer 7", "integer -7", "integer 7 '+7'"}));
  EXPECT_EQ(decode(":9223372036854775807\r\n"), only("integer 9223372036854775807"));
  EXPECT_EQ(decode(":-9223372036854775808\r\n"), only("integer -9223372036854775808"));
  EXPECT_EQ(decode(":999999999999999999\r\n:1000000000000000000\r\n"),
            (transcript{"integer 999999999999999999", "integer 1000000000000000000"}));
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
  for (auto const* text :
       {"1", "-1", "+1", "10.25", "1e9", "1E-9", "-1.5e+300", "inf", "-inf", "nan", "-nan", "INF", "+inf"}) {
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
  EXPECT_EQ(decode("|1\r\n+a\r\n%1\r\n:1\r\n_\r\n|1\r\n|1\r\n+b\r\n+c\r\n+d\r\n*0\r\n*1\r\n#t\r\n"),
            only("array(boolean 1)"));
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
  for (auto const* text :
       {"", "-", ".", "1.", ".5", "e5", "1e", "1e+", "1.e5", "1x", "--1", "infinity", "in", "nanx", "1 ", "0x10"}) {
    EXPECT_EQ(decode(","s + text + "\r\n"), only("failed: bad double at byte 0")) << text;
  }
}

TEST(RespDecoder, MessagesBeforeTheErrorAreDeliveredAndThePositionCountsThem) {
  EXPECT_EQ(decode("+OK\r\n*1\r\n:5\r\n*2\r\n:1\r\nX"),
            (transcript{"simple 'OK'", "array(integer 5)", "failed: unknown type 0x58 at byte 21"}));
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
  auto const refused = [](int at) {
    return only("failed: more than 5 values in a message at byte " + std::to_string(at));
  };
  EXPECT_EQ(decode("*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", bounds),
            only("array(integer 1, integer 2, integer 3, integer 4)"));
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
  for (auto const* count :
       {"*9223372036854775807\r\n", "%9223372036854775807\r\n", "|9223372036854775807\r\n", "*1048576\r\n"}) {
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
  EXPECT_EQ(decode("*1\r\n:1\r\n*1\r\n$5\r\n", bounds),
            (transcript{"array(integer 1)", "failed: message longer than 12 bytes at byte 8"}));
  EXPECT_EQ(decode("+", {.max_message = 0}), only("failed: message longer than 0 bytes at byte 0"));
}

TEST(RespDecoder, NothingIsAllocatedForAnnouncedButAbsentData) {
  for (auto const* header : {"*1000000\r\n", "%500000\r\n", "~1000000\r\n", ">1000000\r\n", "|500000\r\n",
                             "$67108864\r\n", "!67108864\r\n"}) {
    decoder d;
    give(d, header);
    ASSERT_EQ(d.next(), decoder::progress::need_more) << header;
    EXPECT_LE(d.capacity(), 20'000U) << header;
  }
}

}  // namespace

}  // namespace conch::resp::test
