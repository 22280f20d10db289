// `conch run`: what CMD sees, exit codes, signals. Losses and kills: run_loss_process_test.cpp.

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/command.hpp"

namespace conch::test {
namespace {

using namespace std::chrono_literals;

class Run : public Command {};

TEST_F(Run, ExitsWithTheCodeOfTheCommandAndReleases) {
  EXPECT_EQ(run({"a"}, "exit 3").wait_for_end(), 3);
  EXPECT_FALSE(is_held("a"));
  EXPECT_EQ(run({"a"}, "kill -KILL $$").wait_for_end(), 128 + SIGKILL);
  EXPECT_EQ(result_of({"run", "a", "--", "no-such-program"}), 127);
  EXPECT_EQ(result_of({"run", "a", "--", "/etc/passwd"}), 126);
  EXPECT_FALSE(is_held("a"));
}

TEST_F(Run, TellsTheCommandItsLockAndItsFence) {
  program p = run({"--keep-connection", "stock:1"},
                  "echo \"[$CONCH_LOCK] [$CONCH_SEGMENT]\"; echo fence $CONCH_FENCE; $CONCH status stock:1");
  EXPECT_EQ(p.wait_for("["), "[stock:1] []");
  std::string const fence = p.wait_for("fence ").substr(6);
  EXPECT_NE(p.wait_for("  sh@").find(fence), std::string::npos);
  EXPECT_EQ(p.wait_for_end(), 0);
}

TEST_F(Run, HoldsEachKindOfLock) {
  program striped = run({"--kind", "striped=2", "g"}, "echo segment $CONCH_SEGMENT; sleep 600");
  long const segment = number_behind(striped.wait_for("segment "), "segment ");
  EXPECT_TRUE(segment == 1 || segment == 2);
  EXPECT_EQ(run({"--kind", "striped=2", "g", "-n"}, "exit $((CONCH_SEGMENT + " + std::to_string(segment) + "))")
                .wait_for_end(),
            3);

  auto const status_inside = [&](std::string const& kind, std::string const& name) {
    program p = run({"--keep-connection", "--kind", kind, name}, "$CONCH status " + name);
    std::string const line = p.wait_for(name + ": ");
    EXPECT_EQ(p.wait_for_end(), 0);
    return line;
  };
  EXPECT_EQ(status_inside("semaphore=3", "s"), "s: semaphore, 1 of 3 permits held, 0 waiting");
  EXPECT_EQ(status_inside("shared", "r"), "r: shared_mutex, held by 1 reader, 0 waiting");
  EXPECT_EQ(status_inside("exclusive", "w"), "w: shared_mutex, held by a writer, 0 waiting");
  EXPECT_EQ(status_inside("mutex", "m"), "m: mutex, held, 0 waiting");
}

TEST_F(Run, TakesSeveralMutexesOrNone) {
  program p =
      run({"--keep-connection", "b", "a"},
          "echo names $CONCH_LOCK; set -- $CONCH_FENCE; echo fences $#; $CONCH run -n c a -- true; echo code $?");
  EXPECT_EQ(p.wait_for("names"), "names b a");
  EXPECT_EQ(p.wait_for("fences"), "fences 2");
  EXPECT_EQ(p.wait_for("code"), "code 75");
  EXPECT_EQ(p.wait_for_end(), 0);
  EXPECT_FALSE(is_held("a") || is_held("b") || is_held("c"));
}

TEST_F(Run, SaysWithACodeOfItsOwnThatTheLockIsNotFree) {
  program holder = run({"a"}, "echo held; sleep 600");
  holder.wait_for("held");
  EXPECT_EQ(result_of({"run", "--no-wait", "a", "--", "true"}), 75);
  EXPECT_NE(output_.find("a: not free"), std::string::npos);
  // long enough to connect on a busy machine: else it would be 69
  EXPECT_EQ(result_of({"run", "--wait", "1s", "-E", "7", "a", "--", "true"}), 7);
}

TEST_F(Run, CountsExactlyWithFiftyAtATime) {
  constexpr int processes = 50;
  std::string const script =
      "echo 0 > $FILE; i=0; while [ $i -lt 50 ]; do i=$((i + 1)); "
      "$CONCH run counter -- /bin/sh -c 'read n < $FILE; echo $((n + 1)) > $FILE' & done; wait; echo counted $(cat "
      "$FILE)";
  program all = shell(script);
  EXPECT_EQ(number_behind(all.wait_for("counted ", 100s), "counted "), processes);
}

// ---------------------------------------------------------------------------------------- signals

TEST_F(Run, PassesASignalOnAndReleases) {
  program p = run({"a"}, "trap 'echo told; exit 4' TERM; echo ready; while :; do sleep 0.05; done");
  p.wait_for("ready");
  p.signal(SIGTERM);
  p.wait_for("told");
  EXPECT_EQ(p.wait_for_end(), 4);
  EXPECT_FALSE(is_held("a"));

  program usr = run({"a"}, "trap 'echo usr; exit 5' USR1; echo ready; while :; do sleep 0.05; done");
  usr.wait_for("ready");
  usr.signal(SIGUSR1);
  EXPECT_EQ(usr.wait_for_end(), 5);
}

TEST_F(Run, EndsTheCommandByTermAtTheSecondInterruptAndByKillAfterTheGrace) {
  program p = run({"a"}, "trap 'echo interrupted' INT; echo ready; while :; do sleep 0.05; done");
  p.wait_for("ready");
  p.signal(SIGINT);
  p.wait_for("interrupted");
  EXPECT_TRUE(is_held("a"));
  p.signal(SIGINT);
  EXPECT_EQ(p.wait_for_end(), 128 + SIGTERM);
  EXPECT_FALSE(is_held("a"));

  program stubborn = run({"a", "--grace", "100ms"}, "trap '' INT TERM; echo ready; while :; do sleep 0.05; done");
  stubborn.wait_for("ready");
  stubborn.signal(SIGINT);
  stubborn.signal(SIGTERM);
  EXPECT_EQ(stubborn.wait_for_end(), 128 + SIGKILL);
  EXPECT_FALSE(is_held("a"));
}

TEST_F(Run, LeavesTheLineWhenItIsToldToEnd) {
  program holder = run({"a"}, "echo held; sleep 600");
  holder.wait_for("held");
  program waiting = run({"a"}, "echo never");
  wait_until_in_line("a");
  waiting.signal(SIGINT);
  EXPECT_EQ(waiting.wait_for_end(), 128 + SIGINT);
  EXPECT_EQ(waiting.output().find("never"), std::string::npos);
  EXPECT_EQ(probe_.integer({"ZCARD", "conch:{a}:q"}), 0);
}

TEST_F(Run, LeavesASignalIgnoredThatItWasToldToIgnore) {
  program p =
      shell("trap '' HUP; exec $CONCH run a -- /bin/sh -c 'echo ready; kill -HUP $$; kill -HUP $PPID; echo alive'");
  p.wait_for("alive");
  EXPECT_EQ(p.wait_for_end(), 0);
}

// ---------------------------------------------------------------------------------------- the child's surroundings

TEST_F(Run, PassesStandardInputOnAndLeavesItClosedWhereItIs) {
  program with = shell("echo hello | $CONCH run a -- cat");
  EXPECT_EQ(with.wait_for("hello"), "hello");
  EXPECT_EQ(with.wait_for_end(), 0);
  // A closed one stays closed, and does not become a socket of conch.
  program without = shell("$CONCH run a -- /bin/sh -c 'ls /proc/self/fd; cat; echo code $?' <&-");
  EXPECT_EQ(without.wait_for("code"), "code 1");
  EXPECT_EQ(without.wait_for_end(), 0);
  program nothing = shell("exec $CONCH run a -- /bin/sh -c 'echo lost; exit 6' <&- >&- 2>&-");
  EXPECT_EQ(nothing.wait_for_end(), 6);
}

TEST_F(Run, GivesTheCommandNoDescriptorOfItsOwn) {
  program p = run({"a"}, "echo open $(ls /proc/self/fd | wc -w)");
  program bare = shell("/bin/sh -c 'echo open $(ls /proc/self/fd | wc -w)'");
  EXPECT_EQ(p.wait_for("open"), bare.wait_for("open"));
  // But what conch itself was given: as the job server of make.
  program given = shell("$CONCH run a -- /bin/sh -c 'echo through 7 >&7' 7>&1");
  EXPECT_EQ(given.wait_for("through"), "through 7");
  EXPECT_EQ(given.wait_for_end(), 0);
}

TEST_F(Run, EndsWhatTheCommandLeavesBehindBeforeItReleases) {
  program p = run({"a"},
                  "(trap 'exit 0' TERM; echo pid $(exec sh -c 'echo $PPID'); while :; do echo $CONCH_FENCE >> $FILE; "
                  "sleep 0.01; done) & sleep 0.1; exit 2");
  pid_t const left = static_cast<pid_t>(number_behind(p.wait_for("pid "), "pid "));
  program next = run({"a"}, "echo $CONCH_FENCE >> $FILE");
  EXPECT_EQ(p.wait_for_end(), 2);
  EXPECT_TRUE(is_gone(left));
  EXPECT_EQ(next.wait_for_end(), 0);
  expect_fences_in_order(2);
}

TEST_F(Run, AsProcessOneOfAContainerWaitsForOrphansAndTakesSignals) {
  if (::system("unshare --fork --pid --mount-proc true 2>/dev/null") != 0)
    GTEST_SKIP() << "this user may not make a process namespace";
  std::ofstream{file("script")} << R"(
trap 'exit 8' TERM
orphan=$( (setsid /bin/sh -c 'echo $$; exec sleep 0.1 >/dev/null' & ) )   # its parent has ended at once
while [ -e /proc/$orphan ]; do sleep 0.02; done                           # it is not even a zombie
echo parent $PPID
kill -TERM 1
while :; do sleep 0.02; done
)";
  program p = shell("exec unshare --fork --pid --mount-proc $CONCH run a -- /bin/sh " + file("script"));
  EXPECT_EQ(number_behind(p.wait_for("parent "), "parent "), 1);
  EXPECT_EQ(p.wait_for_end(), 8);
  EXPECT_FALSE(is_held("a"));
}

TEST_F(Run, LeavesNoProcessBehind) {
  // It has its name a moment after it was made.
  constexpr char const* children =
      "for p in $(cat /proc/$PPID/task/$PPID/children); do echo $(cat /proc/$p/comm) $p; done";
  program p = run({"a"}, std::string{"until "} + children + " | grep conch-guard; do :; done");
  pid_t const guard = static_cast<pid_t>(number_behind(p.wait_for("conch-guard "), "conch-guard "));
  EXPECT_EQ(p.wait_for_end(), 0);
  EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(guard))) << "not even a zombie";
}

}  // namespace
}  // namespace conch::test
