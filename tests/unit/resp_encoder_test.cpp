#include "resp/encoder.hpp"

#include "resp/decoder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace std::string_literals;
using conch::resp::append_command;
using conch::resp::command_writer;
using conch::resp::decoder;
using conch::resp::kind;

template <class T>
std::string one_argument(T value) {
  std::string out;
  command_writer(out, 1).arg(value);
  return out;
}

TEST(RespEncoder, ACommandIsAnArrayOfBulkStrings) {
  std::string out;
  append_command(out, {"SET", "key", ""});
  EXPECT_EQ(out, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");
}

TEST(RespEncoder, CommandsAreAppended) {
  std::string out = "before";
  append_command(out, {"PING"});
  command_writer(out, 2).arg("GET").arg("k");
  EXPECT_EQ(out, "before*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
}

TEST(RespEncoder, TheWriterAndTheListWriteTheSame) {
  std::string by_list;
  append_command(by_list, {"EVALSHA", "abc", "1", "key", "-5", "7"});
  std::string by_writer;
  command_writer(by_writer, 6).arg("EVALSHA"s).arg("abc").arg(1).arg("key").arg(std::int64_t{-5}).arg(std::uint64_t{7});
  EXPECT_EQ(by_writer, by_list);
}

TEST(RespEncoder, NumbersAreDecimal) {
  EXPECT_EQ(one_argument(std::int64_t{0}), "*1\r\n$1\r\n0\r\n");
  EXPECT_EQ(one_argument(std::numeric_limits<std::int64_t>::min()), "*1\r\n$20\r\n-9223372036854775808\r\n");
  EXPECT_EQ(one_argument(std::numeric_limits<std::int64_t>::max()), "*1\r\n$19\r\n9223372036854775807\r\n");
  EXPECT_EQ(one_argument(std::numeric_limits<std::uint64_t>::max()), "*1\r\n$20\r\n18446744073709551615\r\n");
  EXPECT_EQ(one_argument(-1), "*1\r\n$2\r\n-1\r\n");
  EXPECT_EQ(one_argument(1U), "*1\r\n$1\r\n1\r\n");
  EXPECT_EQ(one_argument(-1LL), "*1\r\n$2\r\n-1\r\n");
  EXPECT_EQ(one_argument(~0ULL), "*1\r\n$20\r\n18446744073709551615\r\n");
  EXPECT_EQ(one_argument(std::uint16_t{65535}), "*1\r\n$5\r\n65535\r\n");
}

TEST(RespEncoder, AnArgumentMayBeOfAnyLengthAndHoldAnyBytes) {
  for (std::size_t const size : {0U, 1U, 9U, 10U, 99U, 100U, 127U, 128U, 129U, 1000U, 100'000U}) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) {
      text[i] = static_cast<char>(i * 7);
    }
    EXPECT_EQ(one_argument(std::string_view(text)), "*1\r\n$" + std::to_string(size) + "\r\n" + text + "\r\n");
  }
  EXPECT_EQ(one_argument(std::string_view()), "*1\r\n$0\r\n\r\n");
}

TEST(RespEncoder, ANumberIsWrittenWithItsLengthOnBothSidesOfEachPowerOfTen) {
  auto const expected = [](std::string const& text) {
    return "*1\r\n$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  };
  for (std::uint64_t power = 1; power <= 1'000'000'000'000'000'000U; power *= 10) {
    for (std::uint64_t const value : {power - 1, power, power + 1}) {
      auto const as_signed = static_cast<std::int64_t>(value);
      EXPECT_EQ(one_argument(value), expected(std::to_string(value)));
      EXPECT_EQ(one_argument(as_signed), expected(std::to_string(as_signed)));
      EXPECT_EQ(one_argument(-as_signed), expected(std::to_string(-as_signed)));
    }
  }
}

TEST(RespEncoder, AnArgumentInPiecesIsOne) {
  for (std::size_t const size : {0U, 1U, 255U, 256U, 257U, 511U, 512U, 1000U}) {
    std::string const text(size, 'x');
    std::string out;
    command_writer(out, 2).arg({"a", text, std::string_view(), "b"}).arg("c");
    EXPECT_EQ(out, "*2\r\n$" + std::to_string(size + 2) + "\r\na" + text + "b\r\n$1\r\nc\r\n");
  }
}

TEST(RespEncoder, AnArgumentMayBeWrittenInPlace) {
  for (std::size_t const size :
       {std::size_t{0}, std::size_t{1}, std::size_t{99}, std::size_t{100}, command_writer::longest_in_place}) {
    std::string const text(size, 'x');
    std::string out;
    std::string expected = "*5\r\n";
    command_writer writer(out, 5);
    for (int i = 0; i < 5; ++i) {
      std::copy(text.begin(), text.end(), writer.begin(size));
      writer.end();
      expected += "$" + std::to_string(size) + "\r\n" + text + "\r\n";
    }
    EXPECT_EQ(out, expected);
  }
}

TEST(RespEncoder, APreparedBeginningIsTheSameBytes) {
  for (std::size_t const size : {0U, 5U, 100U, 490U, 512U, 5000U}) {
    std::string const text(size, 'x');
    std::string expected = "before";
    append_command(expected, {"EVAL", text, "1", "key"});
    append_command(expected, {"EVAL", text, "1", ""});
    conch::resp::command_beginning const beginning(4, {"EVAL", text, "1"});
    std::string out = "before";
    command_writer(out, beginning).arg("key");
    command_writer(out, beginning).arg("");
    EXPECT_EQ(out, expected);
  }
}

TEST(RespEncoder, ManyArgumentsAreCountedInFull) {
  std::string out;
  std::string expected = "*1234\r\n";
  command_writer writer(out, 1234);
  for (int i = 0; i < 1234; ++i) {
    writer.arg("x");
    expected += "$1\r\nx\r\n";
  }
  EXPECT_EQ(out, expected);
}

TEST(RespEncoder, RandomCommandsComeBackFromTheDecoder) {
  std::mt19937 random(7);
  std::string wire;
  std::vector<std::vector<std::string>> sent(500);
  for (auto& args : sent) {
    args.resize(1 + random() % 8);
    command_writer writer(wire, args.size());
    for (auto& text : args) {
      if (random() % 3 == 0) {
        auto const value = static_cast<std::int64_t>(static_cast<std::uint64_t>(random()) << (random() % 33));
        text = std::to_string(value);
        writer.arg(value);
      } else {
        text.resize(random() % 200);
        for (auto& c : text) {
          c = static_cast<char>(random());
        }
        writer.arg(text);
      }
    }
  }
  decoder d;
  std::copy(wire.begin(), wire.end(), d.prepare(wire.size()).begin());
  d.commit(wire.size());
  for (auto const& args : sent) {
    ASSERT_EQ(d.next(), decoder::progress::message);
    auto const got = d.message();
    ASSERT_EQ(got.size(), args.size() + 1);
    EXPECT_EQ(got[0].what, kind::array);
    for (std::size_t i = 0; i < args.size(); ++i) {
      EXPECT_EQ(got[i + 1].what, kind::bulk_string);
      EXPECT_EQ(got[i + 1].text, args[i]);
    }
  }
  EXPECT_EQ(d.next(), decoder::progress::need_more);
}

TEST(RespEncoder, AnExceptionBetweenArgumentsIsNotTakenForAMissingOne) {
  std::string out;
  auto const interrupted = [&out] {
    command_writer writer(out, 2);
    writer.arg("GET");
    throw std::runtime_error("no key");
  };
  EXPECT_THROW(interrupted(), std::runtime_error);
}

TEST(RespEncoderDeathTest, AWrongNumberOfArgumentsIsAsserted) {
  std::string out;
  EXPECT_DEBUG_DEATH(command_writer(out, 2).arg("GET"), "missing_");
  EXPECT_DEBUG_DEATH(command_writer(out, 1).arg("GET").arg("k"), "missing_");
  EXPECT_DEBUG_DEATH(command_writer(out, 0), "argc");
  EXPECT_DEBUG_DEATH(conch::resp::command_beginning(1, {"GET"}), "argc");
}

}  // namespace
