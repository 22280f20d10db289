// The incidents of docs/incidents.md, with real processes. The second is that of why_process_test.cpp.

#include <signal.h>

#include "cli/command.hpp"

namespace conch::test {
namespace {

class Incidents : public Command {
 protected:
  bool says(std::string const& words) const { return output_.find(words) != std::string::npos; }
};

TEST_F(Incidents, NobodyGetsTheLockAndTheErrorSaysWhoHasIt) {
  program holder = run({"stock"}, "echo held; sleep 600");
  holder.wait_for("held");
  EXPECT_EQ(result_of({"run", "--wait", "1s", "stock", "--", "true"}), 75);
  EXPECT_TRUE(output_.starts_with("conch: stock: not free within 1 s (held by sh@")) << output_;
  std::string const label = output_.substr(output_.find("sh@"), output_.find(')') - output_.find("sh@"));
  EXPECT_EQ(result_of({"status", "stock"}), 0);
  EXPECT_TRUE(says("\n  " + label + ", client ")) << output_;
  holder.signal(SIGKILL);
  EXPECT_EQ(holder.wait_for_end(), 128 + SIGKILL);
  EXPECT_EQ(result_of({"run", "--no-wait", "stock", "--", "true"}), 75);
  EXPECT_TRUE(says("not free (held by " + label + ')')) << "a label outlives its process: " << output_;
}

TEST_F(Incidents, AJobHasTheLabelAndTheNoteThatItIsGiven) {
  program holder = run({"stock", "--label", "nightly backup", "--note", "order 17"}, "echo held; sleep 600");
  holder.wait_for("held");
  EXPECT_EQ(result_of({"run", "--no-wait", "stock", "--", "true"}), 75);
  EXPECT_EQ(output_, "conch: stock: not free (held by nightly backup (order 17))\n");
  EXPECT_EQ(result_of({"run", "stock", "--note", std::string(129, 'x'), "--", "true"}), 64);
  EXPECT_TRUE(says("note must have at most 128 bytes of printable UTF-8, and has 129")) << output_;
  EXPECT_EQ(result_of({"run", "stock", "--label", std::string(65, 'x'), "--", "true"}), 64);
  EXPECT_TRUE(says("label must have at most 64 bytes of printable UTF-8, and has 65")) << output_;
  EXPECT_EQ(result_of({"run", "stock", "--label", "a\x1b[2J", "--", "true"}), 64);
  EXPECT_TRUE(says("label must have at most 64 bytes of printable UTF-8, and is a\\x1b[2J")) << output_;
}

TEST_F(Incidents, AHoldIsAboutToBeLostAndTheWarningIsWithdrawn) {
  program job = run({"stock", "--lease", "9s", "--warn", "USR1", "--json"},
                    "trap 'echo warned' USR1; echo ready; while :; do sleep 0.05; done");
  job.wait_for("ready");
  server_.stop();
  job.wait_for("warned", std::chrono::seconds{60});
  server_.cont();
  job.wait_for("{\"event\":\"safe_again\"", std::chrono::seconds{60});
  EXPECT_EQ(result_of({"status", "stock"}), 0);
  EXPECT_TRUE(output_.starts_with("stock: mutex, held")) << output_;
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait_for_end(), 128 + SIGTERM) << job.output();
}

}  // namespace
}  // namespace conch::test
