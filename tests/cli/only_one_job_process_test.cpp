// The recipe "only one cron job" (docs/recipes.md) with the command.

#include "cli/command.hpp"

namespace conch::test {
namespace {

class OnlyOneJob : public Command {};

TEST_F(OnlyOneJob, IsDoneByTheFirstMachineAndTheOthersLeaveWithoutAnError) {
  program first = run({"nightly", "--no-wait", "-E", "0"}, "echo done >> $FILE; echo at it; sleep 600");
  first.wait_for("at it");
  // While it works, and while it sleeps after that.
  for (int machine = 2; machine <= 3; ++machine) {
    program late = run({"nightly", "--no-wait", "-E", "0"}, "echo done >> $FILE; echo again");
    EXPECT_EQ(late.wait_for_end(), 0);
  }
  EXPECT_EQ(lines_of("written").size(), 1u);
  EXPECT_TRUE(is_held("nightly"));
}

}  // namespace
}  // namespace conch::test
