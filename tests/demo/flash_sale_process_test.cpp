// The real conch-flash-sale on a real server: what it sells adds up, under one lock and in segments.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include "support/redis_server.hpp"

namespace conch::test {
namespace {

struct ended {
  int code = -1;
  std::string words;
};

ended run(std::string const& command) {
  ended e;
  std::FILE* const out = ::popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  while (std::size_t const size = std::fread(buffer.data(), 1, buffer.size(), out)) e.words.append(buffer.data(), size);
  int const status = ::pclose(out);
  e.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return e;
}

TEST(FlashSale, SellsEverythingOnceUnderOneLockAndInSegments) {
  redis_server server;
  ended const e = run(std::string{CONCH_FLASH_SALE} + " --url " + server.url() +
                      " --items 90 --order-ms 3 --segments 6 --processes 3 --buyers 8 2>&1");
  EXPECT_EQ(e.code, 0) << e.words;
  std::string const proof = "sold 90 + left 0 = 90 of 90; the buyers have 90; nothing sold twice, nothing lost, never below zero";
  auto const first = e.words.find(proof);
  EXPECT_NE(first, std::string::npos) << e.words;
  EXPECT_NE(e.words.find(proof, first + 1), std::string::npos) << e.words;
  redis_probe probe{server};
  EXPECT_EQ(probe.command({"KEYS", "flash-sale*"}), "[]");
}

TEST(FlashSale, RefusesWhatMakesNoSense) {
  for (std::string const options : {"--url memory://", "--segments 1", "--items 0", "--buyers 0"}) {
    EXPECT_EQ(run(std::string{CONCH_FLASH_SALE} + " " + options + " 2>&1").code, 2) << options;
  }
}

}  // namespace
}  // namespace conch::test
