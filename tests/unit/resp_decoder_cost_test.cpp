// What decoding costs, in work and in memory.
#include "unit/resp_decoder_fixture.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace conch::resp::test {

namespace {

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

constexpr char const* big_messages[] = {"bulk string",   "simple string", "big number", "integers",
                                        "long integers", "small strings", "attributes"};

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

}  // namespace

}  // namespace conch::resp::test
