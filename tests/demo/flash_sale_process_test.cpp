// The real conch-flash-sale on a real server: what it sells adds up, under one lock and in segments.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "demo/program.hpp"
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
  std::string const proof =
      "90 of 90 are gone from the stock; the buyers have 90; nothing sold twice, nothing lost, never below zero";
  auto const first = e.words.find(proof);
  EXPECT_NE(first, std::string::npos) << e.words;
  EXPECT_NE(e.words.find(proof, first + 1), std::string::npos) << e.words;
  redis_probe probe{server};
  EXPECT_EQ(probe.command({"KEYS", "flash-sale*"}), "[]");
}

// Before they told each other, nearly each of them visited each segment when nothing was left: 96 in 100 of these
// visits, which took longer than the sale.
TEST(FlashSale, ItsBuyersDoNotAllVisitEverySegmentToLearnThatItIsEmpty) {
  redis_server server;
  ended const e = run(std::string{CONCH_FLASH_SALE} + " --url " + server.url() +
                      " --items 200 --order-ms 5 --segments 20 --processes 3 --buyers 30 --only segments 2>&1");
  EXPECT_EQ(e.code, 0) << e.words;
  std::smatch found;
  ASSERT_TRUE(std::regex_search(e.words, found, std::regex{R"((\d+) times a segment had too little)"})) << e.words;
  EXPECT_LT(std::stoi(found[1]), 3 * 30 * 20 / 2) << e.words;
}

/// The words of every process that is `pid` or a child of it, each on a line of its own.
std::string command_lines_of(pid_t pid) {
  std::string all;
  for (auto const& entry : std::filesystem::directory_iterator{"/proc"}) {
    std::ifstream stat{entry.path() / "stat"};
    std::string number, name, state, parent;
    stat >> number >> name >> state >> parent;
    if (number != std::to_string(pid) && parent != std::to_string(pid)) continue;
    std::ifstream words{entry.path() / "cmdline"};
    all.append(std::istreambuf_iterator<char>{words}, {}).append("\n");
  }
  return all;
}

TEST(FlashSale, ShowsNobodyThePassword) {
  redis_server server{{.tcp = true}};
  redis_probe probe{server};
  ASSERT_EQ(probe.command({"ACL", "SETUSER", "sale", "on", ">sesame", "~*", "&*", "+@all"}), "OK");
  std::string const url = "redis://sale:sesame@127.0.0.1:" + std::to_string(server.port());
  ASSERT_EQ(::setenv("CONCH_URL", url.c_str(), 1), 0);
  program sale{
      {CONCH_FLASH_SALE, "--items", "200", "--order-ms", "20", "--processes", "2", "--buyers", "2", "--only", "one"}};
  pid_t const pid = sale.pid();
  std::string seen;
  while (std::count(seen.begin(), seen.end(), '\n') < 3) {  // its two processes are there
    seen = command_lines_of(pid);
    ASSERT_TRUE(sale.is_running());
  }
  EXPECT_NE(seen.find("conch-flash-sale"), std::string::npos);
  EXPECT_EQ(seen.find("sesame"), std::string::npos) << seen;
  EXPECT_EQ(sale.wait_for_end(), 0) << sale.output();
  EXPECT_EQ(sale.output().find("sesame"), std::string::npos) << sale.output();
  EXPECT_NE(sale.output().find("nothing sold twice"), std::string::npos) << sale.output();
  ::unsetenv("CONCH_URL");
  ended const e = run(std::string{CONCH_FLASH_SALE} + " --url " + url + " 2>&1");
  EXPECT_EQ(e.code, 2);
  EXPECT_NE(e.words.find("CONCH_URL"), std::string::npos) << e.words;
  EXPECT_EQ(e.words.find("sesame"), std::string::npos) << e.words;
}

/// A Redis may have a password. What a script passes on, it passes by the environment.
TEST(FlashSale, NoScriptGivesTheUrlOfTheRedisAsAnArgument) {
  std::regex const as_argument{R"re(.*bin/[a-z-]+".*\$\{?(url|CONCH_URL)\b.*)re"};
  std::size_t looked_at = 0;
  for (auto const& entry : std::filesystem::directory_iterator{CONCH_SCRIPTS}) {
    std::ifstream file{entry.path()};
    for (std::string line; std::getline(file, line); ++looked_at) {
      EXPECT_FALSE(std::regex_match(line, as_argument)) << entry.path() << ": " << line;
    }
  }
  EXPECT_GT(looked_at, 500u);
}

TEST(FlashSale, RefusesWhatMakesNoSense) {
  for (std::string const options : {"--url memory://", "--url ''", "--segments 1", "--items 0", "--buyers 0"}) {
    EXPECT_EQ(run(std::string{CONCH_FLASH_SALE} + " " + options + " 2>&1").code, 2) << options;
  }
}

}  // namespace
}  // namespace conch::test
