// What the errors of waits know of holders: one question for all that wait for a lock, and few at a time.
#include "client/holder_names.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace conch::detail {
namespace {

using namespace std::chrono_literals;

struct HolderNames : testing::Test {
  time_point const begin{1h};
  std::vector<std::string> asked;
  holder_names names{[this](std::string const& lock) { asked.push_back(lock); }};
};

TEST_F(HolderNames, AllThatWaitForALockShareOneQuestion) {
  for (duration const later : {0ms, 1ms, 999ms}) names.ask("stock", begin + later);
  names.ask("ledger", begin);
  EXPECT_EQ(asked, (std::vector<std::string>{"stock", "ledger"}));
  EXPECT_EQ(names.holder_of("stock", begin), "") << "it is not answered yet";
  names.answered("stock", "billing");
  EXPECT_EQ(names.holder_of("stock", begin + 1s), "billing");
  EXPECT_EQ(names.holder_of("ledger", begin), "");
  EXPECT_EQ(names.holder_of("other", begin), "");
}

TEST_F(HolderNames, AnOldAnswerIsNotTold) {
  names.ask("stock", begin);
  names.answered("stock", "billing");
  EXPECT_EQ(names.holder_of("stock", begin + 2s), "billing");
  EXPECT_EQ(names.holder_of("stock", begin + 2001ms), "");
  names.ask("stock", begin + 1s);
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_EQ(names.holder_of("stock", begin + 1s), "") << "it may be another holder by now";
}

TEST_F(HolderNames, AThousandLocksAtOnceAreNoBurst) {
  for (int i = 0; i < 1000; ++i) names.ask(std::to_string(i), begin);
  EXPECT_EQ(asked.size(), 100u);
  names.ask("later", begin + 1s);
  EXPECT_EQ(asked.size(), 101u) << "and the old ones are forgotten";
  names.answered("0", "billing");
  EXPECT_EQ(names.holder_of("0", begin + 1s), "");
}

}  // namespace
}  // namespace conch::detail
