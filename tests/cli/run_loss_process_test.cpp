// `conch run` where the lock is lost, or conch or its child is killed. The judge is a file to which the children write
// their fences: none may be written behind a later one.

#include <csignal>
#include <cstdlib>

#include "cli/command.hpp"

namespace conch::test {
namespace {

using namespace std::chrono_literals;

/// Processes that are killed where a test ends early.
class RunLoss : public Command {
 protected:
  /// Waits for the line "pid N".
  static pid_t child_of(program& p) { return static_cast<pid_t>(number_behind(p.wait_for("pid "), "pid ")); }

  void wait_until_written(std::size_t writes = 1) {
    wait_until([&] { return lines_of("written").size() >= writes; }, "nothing was written");
  }

  /// Another one that wants the lock, and writes once it has it.
  program next(std::string const& name = "a") {
    return run({name, "--lease", "1s"}, "for i in 1 2 3; do echo $CONCH_FENCE >> $FILE; sleep 0.05; done");
  }

  static void wait_until_gone(pid_t pid) {
    wait_until([=] { return is_gone(pid); }, "process " + std::to_string(pid) + " is there still");
  }
};

std::string const stubborn_writer = std::string{"trap '' TERM INT HUP; "} + writer;

TEST_F(RunLoss, ByAnOperatorIsToldByTermAndHasACodeOfItsOwn) {
  program p = run({"a"}, "trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.05; done");
  p.wait_for("ready");
  EXPECT_EQ(result_of({"unlock", "a", "--yes"}), 0);
  EXPECT_EQ(output_, "a: taken from 1 holder\n");
  p.wait_for("told");
  EXPECT_EQ(p.wait_for_end(), 79);
  EXPECT_NE(p.output().find("a: the lock is lost"), std::string::npos);
}

TEST_F(RunLoss, ByAnOperatorEndsByKillAfterTheGrace) {
  program p = run({"a", "--grace", "200ms"}, stubborn_writer);
  pid_t const child = child_of(p);
  EXPECT_EQ(result_of({"unlock", "a", "--yes"}), 0);
  EXPECT_EQ(p.wait_for_end(), 79);
  EXPECT_TRUE(is_gone(child));
}

TEST_F(RunLoss, OfAStoppedServerEndsTheChildBeforeAnotherCanBeGranted) {
  program p = run({"a", "--lease", "1s"}, stubborn_writer);  // TERM does not end it: KILL must come in time
  pid_t const child = child_of(p);
  wait_until_written();
  program other = next();
  wait_until_in_line("a");
  server_.stop();
  wait_until_gone(child);
  server_.cont();
  EXPECT_EQ(p.wait_for_end(60s), 79);
  EXPECT_EQ(other.wait_for_end(60s), 0);
  expect_fences_in_order(2);
}

TEST_F(RunLoss, OfTheServerEndsTheChildWithTerm) {
  program p = run({"a", "--lease", "1s"}, "trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.05; done");
  p.wait_for("ready");
  server_.kill();
  p.wait_for("told");
  EXPECT_EQ(p.wait_for_end(60s), 79);
}

TEST_F(RunLoss, OfALeaseThatIsNotRenewed) {
  program p = run({"a", "--lease", "500ms", "--fixed-lease"}, stubborn_writer);
  pid_t const child = child_of(p);
  program other = next();
  EXPECT_EQ(p.wait_for_end(60s), 79);
  EXPECT_TRUE(is_gone(child));
  EXPECT_EQ(other.wait_for_end(60s), 0);
  expect_fences_in_order(2);
  EXPECT_EQ(run({"a", "--lease", "300ms", "--max-hold", "200ms"}, "sleep 600").wait_for_end(60s), 79);
}

TEST_F(RunLoss, OfAConchThatStandsStillForLongerThanTheLease) {
  program p = run({"a", "--lease", "1s"}, stubborn_writer);
  pid_t const child = child_of(p);
  wait_until_written();
  program other = next();
  wait_until_in_line("a");
  p.signal(SIGSTOP);
  EXPECT_EQ(other.wait_for_end(60s), 0);
  wait_until_gone(child);
  p.signal(SIGCONT);
  EXPECT_EQ(p.wait_for_end(60s), 79);
  expect_fences_in_order(2);
}

TEST_F(RunLoss, OfAConchThatIsKilledEndsTheChildAndWhatTheChildHasStarted) {
  // The child's own child writes; both ignore what can be ignored.
  program p = run({"a", "--lease", "1s"},
                  "trap '' TERM HUP INT; echo pid $$; /bin/sh -c 'echo grandchild $$; while :; do echo $CONCH_FENCE >> "
                  "$FILE; sleep 0.01; done' & wait");
  pid_t const child = child_of(p);
  pid_t const grandchild = static_cast<pid_t>(number_behind(p.wait_for("grandchild "), "grandchild "));
  wait_until_written();
  program other = next();
  wait_until_in_line("a");
  p.signal(SIGKILL);
  wait_until_gone(child);
  wait_until_gone(grandchild);
  EXPECT_EQ(other.wait_for_end(60s), 0) << "the lock goes with the lease";
  expect_fences_in_order(2);
}

TEST_F(RunLoss, OfAConchThatIsKilledKeepsTheChildWhereThatIsWanted) {
  program p = run({"a", "--no-kill-child", "--lease", "300ms"},
                  "echo pid $$; while [ ! -e $FILE ]; do sleep 0.02; done; echo done > $FILE.done");
  pid_t const child = child_of(p);
  p.signal(SIGKILL);
  wait_until([&] { return !is_held("a"); }, "the lock did not go with its lease");
  EXPECT_FALSE(is_gone(child));
  EXPECT_EQ(run({"a"}, "echo > $FILE").wait_for_end(60s), 0);
  wait_until([&] { return text_of(file("written.done")) == "done\n"; }, "the child did not go on");
}

TEST_F(RunLoss, OfAChildThatIsKilledReleasesAtOnce) {
  program p = run({"a", "--lease", "10m"}, writer);
  pid_t const child = child_of(p);
  program other = next();
  wait_until_in_line("a");
  ::kill(child, SIGKILL);
  EXPECT_EQ(p.wait_for_end(), 128 + SIGKILL);
  EXPECT_EQ(other.wait_for_end(), 0);
  expect_fences_in_order(2);
}

TEST_F(RunLoss, EndsAllOfTheGroup) {
  program p = run({"a", "--lease", "1s"},
                  "trap '' TERM; (trap '' TERM; while :; do echo $CONCH_FENCE >> $FILE; sleep 0.01; done) & " +
                      std::string{writer});
  pid_t const child = child_of(p);
  wait_until_written(4);
  program other = next();
  wait_until_in_line("a");
  server_.stop();
  wait_until_gone(child);
  server_.cont();
  EXPECT_EQ(p.wait_for_end(60s), 79);
  EXPECT_EQ(other.wait_for_end(60s), 0);
  expect_fences_in_order(2);
}

TEST_F(RunLoss, OfATermedConchStillReleases) {
  program p = run({"a", "--lease", "10m"}, writer);
  child_of(p);
  program other = next();
  wait_until_in_line("a");
  p.signal(SIGTERM);
  EXPECT_EQ(p.wait_for_end(), 128 + SIGTERM);
  EXPECT_EQ(other.wait_for_end(), 0);
  expect_fences_in_order(2);
}

}  // namespace
}  // namespace conch::test
