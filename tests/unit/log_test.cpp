// The ready-made log hook.

#include <conch/log.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace conch {
namespace {

/// What the action writes to standard error.
template <class Action>
std::string written(Action const& action) {
  testing::internal::CaptureStderr();
  action();
  return testing::internal::GetCapturedStderr();
}

TEST(LogToStderr, WritesTheTimeTheLevelAndTheWords) {
  std::string const text = written([] { log_to_stderr()(log_level::warning, "cannot connect to a"); });
  EXPECT_TRUE(std::regex_match(
      text, std::regex{R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z conch warning: cannot connect to a\n)"}))
      << text;
}

TEST(LogToStderr, WritesNothingBelowItsLevel) {
  constexpr log_level all[] = {log_level::debug, log_level::info, log_level::warning, log_level::error};
  auto const lines = [&](log_hook const& hook) {
    std::string const text = written([&] {
      for (log_level const one : all) hook(one, "x");
    });
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(log_to_stderr()), 3) << "from info on";
  EXPECT_EQ(lines(log_to_stderr(log_level::debug)), 4);
  EXPECT_EQ(lines(log_to_stderr(log_level::warning)), 2);
  EXPECT_EQ(lines(log_to_stderr(log_level::error)), 1);
}

TEST(LogToStderr, DoesNotMixTheLinesOfThreads) {
  std::string const text = written([] {
    std::vector<std::thread> threads;
    for (char const c : {'a', 'b', 'c', 'd'}) {
      threads.emplace_back([c] {
        log_hook const hook = log_to_stderr();
        for (int i = 0; i < 200; ++i) hook(log_level::error, std::string(50, c));
      });
    }
    for (std::thread& one : threads) one.join();
  });
  std::istringstream in{text};
  std::string line;
  std::size_t count = 0;
  for (; std::getline(in, line); ++count) {
    ASSERT_GT(line.size(), 50u) << line;
    std::string const words = line.substr(line.size() - 50);
    EXPECT_EQ(words, std::string(50, words[0])) << line;
    EXPECT_NE(line.find(" conch error: "), std::string::npos) << line;
  }
  EXPECT_EQ(count, 800u);
}

}  // namespace
}  // namespace conch
