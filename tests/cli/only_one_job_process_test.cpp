// The recipe "only one cron job" (docs/recipes.md) with the command.

#include <chrono>

#include "cli/command.hpp"

namespace conch::test {
namespace {

class OnlyOneJob : public Command {};

TEST_F(OnlyOneJob, IsDoneByTheFirstMachineAndTheOthersLeaveWithoutAnError) {
  program first = run({"nightly", "--no-wait", "-E", "0", "--at-least", "1h"}, "echo done >> $FILE");
  EXPECT_EQ(first.wait_for_end(), 0) << "it does not wait for the hour";
  for (int machine = 2; machine <= 3; ++machine) {
    program late = run({"nightly", "--no-wait", "-E", "0"}, "echo done >> $FILE; echo again");
    EXPECT_EQ(late.wait_for_end(), 0);
  }
  EXPECT_EQ(lines_of("written").size(), 1u);
  EXPECT_TRUE(is_held("nightly"));
}

TEST_F(OnlyOneJob, MayBeDoneAgainAfterTheInterval) {
  auto const began = std::chrono::steady_clock::now();
  EXPECT_EQ(run({"nightly", "--at-least", "2s"}, "exit 0").wait_for_end(), 0);
  EXPECT_EQ(run({"nightly"}, "exit 7").wait_for_end(), 7);
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::seconds{2});
}

TEST_F(OnlyOneJob, IsOfOneMutex) {
  EXPECT_EQ(run({"a", "b", "--at-least", "1m"}, "exit 0").wait_for_end(), 64);
  EXPECT_EQ(run({"a", "--kind", "semaphore=2", "--at-least", "1m"}, "exit 0").wait_for_end(), 64);
  EXPECT_FALSE(is_held("a"));
}

}  // namespace
}  // namespace conch::test
