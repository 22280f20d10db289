// Histories for Jepsen's checkers: the format, line by line.
#include "support/history/edn.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace conch::history {
namespace {

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

operation acquire(std::uint64_t hold, outcome how, nanoseconds from, nanoseconds to, std::int64_t fence = 0,
                  nanoseconds deadline = 0) {
  operation o;
  o.how = how;
  o.lock = "stock";
  o.process = "c" + std::to_string(hold);
  o.hold = hold;
  o.invoked = from;
  o.completed = to;
  o.fence = fence;
  o.deadline = deadline;
  return o;
}

operation release(std::uint64_t hold, outcome how, nanoseconds from, nanoseconds to) {
  operation o = acquire(hold, how, from, to);
  o.what = action::release;
  return o;
}

TEST(Edn, AHoldIsAnAcquireAndARelease) {
  auto const lines =
      lines_of(to_edn({acquire(1, outcome::granted, 10, 20, 7, 100), release(1, outcome::held, 30, 40)}));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], R"({:process 0, :type :invoke, :f :acquire, :value nil, :time 10, :lock "stock", :client "c1"})");
  EXPECT_EQ(lines[1], R"({:process 0, :type :ok, :f :acquire, :value 7, :time 20, :lock "stock", :client "c1"})");
  EXPECT_EQ(lines[2], R"({:process 0, :type :invoke, :f :release, :value nil, :time 30, :lock "stock", :client "c1"})");
  EXPECT_EQ(lines[3], R"({:process 0, :type :ok, :f :release, :value nil, :time 40, :lock "stock", :client "c1"})");
}

TEST(Edn, AHoldThatNobodyReleasedMayEndFromItsDeadlineOn) {
  auto const lines =
      lines_of(to_edn({acquire(1, outcome::granted, 10, 20, 7, 100), acquire(2, outcome::granted, 30, 150, 8, 200)}));
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[3],
            R"({:process 1, :type :invoke, :f :release, :value nil, :time 100, :lock "stock", :client "c1"})");
  EXPECT_EQ(lines[6], R"({:process 1, :type :info, :f :release, :value nil, :time 200, :lock "stock", :client "c1"})");
}

TEST(Edn, WhatHadNoEffectFailsAndWhatNobodyHeardOfIsUnknown) {
  std::string const text = to_edn({acquire(1, outcome::busy, 10, 20), acquire(2, outcome::refused, 10, 30),
                                   acquire(3, outcome::unknown, 15, never)});
  auto const lines = lines_of(text);
  EXPECT_EQ(lines[4], R"({:process 0, :type :fail, :f :acquire, :value nil, :time 20, :lock "stock", :client "c1"})")
      << text;
  EXPECT_NE(text.find(R"(:type :fail, :f :acquire, :value nil, :time 30)"), std::string::npos) << text;
  EXPECT_NE(text.find(R"(:type :info, :f :acquire)"), std::string::npos) << text;
}

TEST(Edn, EachLineIsOneMapAndEachProcessDoesOneThingAtATime) {
  operations all;
  for (std::uint64_t i = 1; i < 50; ++i) {
    nanoseconds const from = static_cast<nanoseconds>(i) * 10;
    all.push_back(acquire(i, outcome::granted, from, from + 35, static_cast<std::int64_t>(i), from + 100));
    all.push_back(release(i, i % 5 == 0 ? outcome::unknown : outcome::held, from + 40, from + 50));
  }
  std::regex const map{
      R"re(\{:process (\d+), :type :(invoke|ok|fail|info), :f :(acquire|release), :value (nil|\d+), :time \d+, :lock "[^"]*", :client "[^"]*"\})re"};
  std::vector<int> state(1000);  // 0: idle, 1: busy, 2: never heard of again
  for (std::string const& line : lines_of(to_edn(all))) {
    std::smatch found;
    ASSERT_TRUE(std::regex_match(line, found, map)) << line;
    int& of_process = state[static_cast<std::size_t>(std::stoi(found[1]))];
    ASSERT_EQ(of_process, found[2] == "invoke" ? 0 : 1) << line;
    of_process = found[2] == "invoke" ? 1 : found[2] == "info" ? 2 : 0;
  }
}

TEST(Edn, NamesAreQuoted) {
  operation o = acquire(1, outcome::busy, 1, 2);
  o.lock = R"(a "b" \c)";
  EXPECT_NE(to_edn({o}).find(R"(:lock "a \"b\" \\c")"), std::string::npos);
}

}  // namespace
}  // namespace conch::history
