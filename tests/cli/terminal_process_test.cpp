// `conch` at a terminal: which process group has it, what Ctrl-C and Ctrl-Z do.

#include <csignal>

#include "cli/command.hpp"
#include "cli/on_terminal.hpp"

namespace conch::test {
namespace {

using namespace std::chrono_literals;

class RunAtTerminal : public Command {
 protected:
  std::vector<std::string> words(std::vector<std::string> const& behind) const {
    std::vector<std::string> all{"/usr/bin/env", "HOME=" + folder_.string(), "FILE=" + file("written"),
                                 "CONCH=" CONCH_COMMAND, "CONCH_URL=" + server_.url()};
    all.insert(all.end(), behind.begin(), behind.end());
    return all;
  }
  on_terminal run(std::string const& script) const {
    return on_terminal{words({CONCH_COMMAND, "run", "a", "--", "/bin/sh", "-c", script})};
  }
  /// A shell with job control, as a user has it.
  on_terminal shell(std::string const& script) const {
    return on_terminal{words({"/bin/sh", "-c", "set -m; " + script})};
  }
};

TEST_F(RunAtTerminal, TheCommandReadsFromIt) {
  on_terminal t = run("echo ready; read x; echo \"got $x.\"");
  t.wait_for("ready");
  t.type("hello\n");
  t.wait_for("got hello.");
  EXPECT_EQ(t.wait_for_end(), 0);
}

TEST_F(RunAtTerminal, InterruptsGoToTheCommandAlone) {
  on_terminal t = run("trap 'echo told; exit 9' INT; echo ready; while :; do sleep 0.05; done");
  t.wait_for("ready");
  t.type("\x03");
  t.wait_for("told");
  EXPECT_EQ(t.wait_for_end(), 9);
  EXPECT_FALSE(is_held("a"));
}

TEST_F(RunAtTerminal, AScriptDoesNotGoOnBehindAnInterrupt) {
  on_terminal t{words({"/bin/sh", "-c", "$CONCH run a -- /bin/sh -c 'echo ready; exec sleep 600'; echo went on"})};
  t.wait_for("ready");
  t.type("\x03");
  EXPECT_EQ(t.wait_for_end(), 128 + SIGINT);
  EXPECT_EQ(t.output().find("went on"), std::string::npos);
  EXPECT_FALSE(is_held("a"));
}

TEST_F(RunAtTerminal, AStoppedOneGoesOnWhereTheLockIsHeld) {
  on_terminal t =
      shell("$CONCH run a -- /bin/sh -c 'echo ready; read x; echo \"got $x.\"'; echo stopped; fg; echo ended $?");
  t.wait_for("ready");
  t.type("\x1a");
  t.wait_for("stopped");
  t.type("hello\n");
  t.wait_for("got hello.");
  t.wait_for("ended 0");
  EXPECT_EQ(t.wait_for_end(), 0);
}

TEST_F(RunAtTerminal, AStoppedOneDoesNotGoOnWhereTheLockIsLost) {
  on_terminal t = shell(
      "$CONCH run a -- /bin/sh -c 'trap \"echo went on > $FILE\" TERM; echo ready; read x; echo went on > $FILE'; echo "
      "stopped; read y; fg; echo "
      "ended $?");
  t.wait_for("ready");
  t.type("\x1a");
  t.wait_for("stopped");
  EXPECT_EQ(result_of({"unlock", "a", "--yes"}), 0);
  t.type("now\n");
  t.wait_for("ended 79");
  EXPECT_EQ(t.wait_for_end(), 0);
  EXPECT_EQ(text_of(file("written")), "");
}

TEST_F(RunAtTerminal, AStoppedOneIsKilledWhenItsLeaseEnds) {
  on_terminal t = shell(
      "$CONCH run a --lease 300ms -- /bin/sh -c 'echo pid $$.; read x; echo went on > $FILE'; echo stopped; read y; "
      "fg; echo ended $?");
  t.wait_for("pid ");
  t.wait_for(".");
  t.type("\x1a");
  t.wait_for("stopped");
  pid_t const child = static_cast<pid_t>(number_behind(t.output(), "pid "));
  wait_until([=] { return is_gone(child); }, "the child is there still");
  EXPECT_EQ(conch({"run", "a", "--", "true"}).wait_for_end(), 0);
  t.type("now\n");
  t.wait_for("ended 79");
  EXPECT_EQ(text_of(file("written")), "");
}

TEST_F(RunAtTerminal, InTheBackgroundTheCommandGetsItWhenTheJobDoes) {
  on_terminal t =
      shell("$CONCH run a -- /bin/sh -c 'echo ready; read x; echo \"got $x.\"' & read y; fg; echo ended $?");
  t.wait_for("ready");
  t.type("go\n");
  t.type("hello\n");
  t.wait_for("got hello.");
  t.wait_for("ended 0");
}

TEST_F(RunAtTerminal, UnlockAsks) {
  program holder = Command::run({"a"}, "echo held; sleep 600");
  holder.wait_for("held");
  on_terminal no{words({CONCH_COMMAND, "unlock", "a"})};
  no.wait_for("Take a from all of its holders? [y/N]");
  no.type("n\n");
  EXPECT_EQ(no.wait_for_end(), 1);
  EXPECT_TRUE(is_held("a"));
  on_terminal yes{words({CONCH_COMMAND, "unlock", "a"})};
  yes.wait_for("fence ");
  yes.wait_for("[y/N]");
  yes.type("y\n");
  EXPECT_EQ(yes.wait_for_end(), 0);
  EXPECT_FALSE(is_held("a"));
  EXPECT_EQ(holder.wait_for_end(), 79);
}

}  // namespace
}  // namespace conch::test
