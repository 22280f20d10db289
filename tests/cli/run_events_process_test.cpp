// `conch run --json` and --events-fd: what a program is told while the command runs.

#include <fstream>
#include <sstream>

#include "cli/command.hpp"

namespace conch::test {
namespace {

using namespace std::chrono_literals;

class RunEvents : public Command {
 protected:
  /// The lines with that event, and all events by name.
  static std::vector<std::string> lines_with(std::string const& text, std::string const& event) {
    std::vector<std::string> found;
    std::istringstream lines{text};
    for (std::string line; std::getline(lines, line);) {
      if (line.find("{\"event\":\"" + event + "\",\"unix_ms\":") == 0) found.push_back(line);
    }
    return found;
  }
  static std::string story_of(std::string const& text) {
    std::string all;
    std::istringstream lines{text};
    for (std::string line; std::getline(lines, line);) {
      std::string const begin = "{\"event\":\"";
      if (line.starts_with(begin))
        all += (all.empty() ? "" : " ") + line.substr(begin.size(), line.find('"', begin.size()) - begin.size());
    }
    return all;
  }
  static bool has(std::string const& line, std::string const& part) { return line.find(part) != std::string::npos; }
};

TEST_F(RunEvents, TellOfAHoldFromTheWaitToTheEnd) {
  program p = run({"--json", "stock:1"}, "echo fence $CONCH_FENCE; echo pid $$; exit 3");
  std::string const fence = p.wait_for("fence ").substr(6);
  std::string const pid = p.wait_for("pid ").substr(4);
  EXPECT_EQ(p.wait_for_end(60s), 3);
  std::string const& all = p.output();
  ASSERT_EQ(story_of(all), "waiting granted child_started child_exit released exit") << all;
  EXPECT_TRUE(has(lines_with(all, "waiting")[0], R"("names":["stock:1"])")) << all;
  EXPECT_TRUE(
      has(lines_with(all, "granted")[0], R"("locks":[{"name":"stock:1","fence":")" + fence + R"("}],"waited_ms":)"))
      << all;
  EXPECT_TRUE(has(lines_with(all, "child_started")[0], "\"pid\":" + pid + '}')) << all;
  EXPECT_TRUE(has(lines_with(all, "child_exit")[0], "\"code\":3}")) << all;
  EXPECT_TRUE(has(lines_with(all, "released")[0], "\"confirmed\":true}")) << all;
  EXPECT_TRUE(has(lines_with(all, "exit")[0], "\"exit_code\":3}")) << all;
}

TEST_F(RunEvents, NameSeveralLocksAndASegment) {
  EXPECT_EQ(result_of({"run", "--json", "b", "a", "--", "true"}), 0);
  EXPECT_TRUE(has(lines_with(output_, "granted").at(0), R"([{"name":"b","fence":")")) << output_;
  EXPECT_TRUE(has(lines_with(output_, "granted").at(0), R"({"name":"a","fence":")")) << output_;
  EXPECT_EQ(result_of({"run", "--json", "--kind", "striped=1", "g", "--", "true"}), 0);
  EXPECT_TRUE(has(lines_with(output_, "granted").at(0), R"("segment":1)")) << output_;
}

TEST_F(RunEvents, GoToNoDescriptorOfConchItself) {
  for (int fd = 3; fd < 10; ++fd) {
    std::string const number = std::to_string(fd);
    program p = shell("exec " + number + ">&-; $CONCH run a --events-fd " + number + " -- true; echo code $?");
    EXPECT_EQ(p.wait_for("code "), "code 64") << number;
    EXPECT_NE(p.output().find("no such descriptor is open"), std::string::npos) << p.output();
  }
}

/// Another client has the lock from that moment on: nothing may keep the job from its end.
TEST_F(RunEvents, AStoppedReaderOfStandardErrorKeepsNoJobRunning) {
  std::ofstream{file("job")}
      << "exec 2>/dev/null\ntrap 'echo got TERM; exit' TERM\necho held\nwhile :; do sleep 0.05; done\n";
  std::ofstream{file("start.py")} << "import fcntl, os, subprocess, sys\n"
                                     "r, w = os.pipe()\n"
                                     "fcntl.fcntl(w, 1031, 4096)\n"  // F_SETPIPE_SZ
                                     "os.write(w, bytes(4096))\n"
                                     "code = subprocess.call(sys.argv[1:], stderr=w)\n"
                                     "print('code', code)\n";
  program p = shell("/usr/bin/python3 " + file("start.py") + " $CONCH run a --grace 5s -- /bin/sh " + file("job"));
  p.wait_for("held");
  EXPECT_EQ(result_of({"unlock", "a", "--yes"}), 0) << output_;
  p.wait_for("got TERM", 20s);
  EXPECT_EQ(p.wait_for("code"), "code 79");
}

/// A pipe for 4 KiB, the program of the arguments with the end to write as descriptor 7, and what the reader does.
constexpr char const* with_a_small_pipe = R"(import fcntl, os, subprocess, sys, time
r, w = os.pipe()
fcntl.fcntl(w, 1031, 4096)  # F_SETPIPE_SZ
os.dup2(w, 7, inheritable=True)
os.close(w)
p = subprocess.Popen(sys.argv[2:], pass_fds=[7])
os.close(7)
if sys.argv[1] == 'stopped':
    print('code', p.wait())
    sys.exit()
while True:
    some = os.read(r, 1000)
    if not some: break
    os.write(1, some)
    time.sleep(0.01)
print('code', p.wait())
)";

TEST_F(RunEvents, ALineLongerThanThePipeKeepsNobodyWaiting) {
  std::ofstream{file("start.py")} << with_a_small_pipe;
  std::string names;
  for (int n = 0; n < 30; ++n) names += ' ' + std::to_string(n) + std::string(500, 'x');
  program p = shell("/usr/bin/python3 " + file("start.py") + " stopped $CONCH run --events-fd 7" + names +
                    " -- /bin/sh -c 'echo ran; exit 5'");
  p.wait_for("ran");
  EXPECT_EQ(p.wait_for("code"), "code 5");
}

TEST_F(RunEvents, ALineLongerThanThePipeReachesASlowReaderWhole) {
  std::ofstream{file("start.py")} << with_a_small_pipe;
  std::string names;
  for (int n = 0; n < 30; ++n) names += ' ' + std::to_string(n) + std::string(500, 'x');
  program p =
      shell("/usr/bin/python3 " + file("start.py") + " slow $CONCH run --events-fd 7" + names + " -- /bin/sleep 2");
  EXPECT_EQ(p.wait_for("code"), "code 0");
  std::string const& all = p.output();
  EXPECT_EQ(story_of(all), "waiting granted child_started child_exit released exit") << all;
  EXPECT_TRUE(lines_with(all, "waiting").at(0).ends_with("x\"]}")) << all;
  EXPECT_TRUE(has(lines_with(all, "granted").at(0), ",\"waited_ms\":")) << all;
}

TEST_F(RunEvents, AnErrorOfTheCommandLineIsJsonToo) {
  EXPECT_EQ(result_of({"run", "--json", "a", "--lease", "soon", "--", "true"}), 64);
  EXPECT_TRUE(output_.starts_with("{\"error\":\"--lease: ")) << output_;
  EXPECT_EQ(result_of({"status", "--bogus", "--json"}), 64);
  EXPECT_TRUE(output_.starts_with("{\"error\":")) << output_;
  EXPECT_EQ(result_of({"run", "a", "--lease", "soon", "--", "--json"}), 64);
  EXPECT_TRUE(output_.starts_with("conch: --lease: ")) << output_;
}

TEST_F(RunEvents, ALockThatIsNotFreeIsOneLineThatIsAnErrorToo) {
  program holder = run({"a"}, "echo held; sleep 600");
  holder.wait_for("held");
  EXPECT_EQ(result_of({"run", "--json", "--no-wait", "a", "--", "true"}), 75);
  EXPECT_EQ(story_of(output_), "waiting not_granted exit") << output_;
  EXPECT_TRUE(has(lines_with(output_, "not_granted")[0], R"("error":"a: not free (held by sh@)")) << output_;
  EXPECT_TRUE(has(lines_with(output_, "not_granted")[0], R"(","exit_code":75})")) << output_;
}

TEST_F(RunEvents, AWaitThatASignalEndsIsNotGranted) {
  program holder = run({"a"}, "echo held; sleep 600");
  holder.wait_for("held");
  program p = run({"--json", "a"}, "echo never");
  p.wait_for("{\"event\":\"waiting\"");
  wait_until_in_line("a");
  p.signal(SIGTERM);
  EXPECT_EQ(p.wait_for_end(60s), 128 + SIGTERM);
  EXPECT_EQ(story_of(p.output()), "waiting not_granted exit") << p.output();
  EXPECT_TRUE(has(lines_with(p.output(), "exit")[0], "\"exit_code\":143}")) << p.output();
}

TEST_F(RunEvents, ALossComesBeforeTheEndOfTheChild) {
  program p = run({"--json", "a"}, "echo held; sleep 600");
  p.wait_for("held");
  EXPECT_EQ(result_of({"unlock", "a", "--yes"}), 0) << output_;
  EXPECT_EQ(p.wait_for_end(60s), 79);
  std::string const& all = p.output();
  EXPECT_EQ(story_of(all), "waiting granted child_started lost child_exit exit") << all;
  EXPECT_TRUE(has(lines_with(all, "lost").at(0), R"("error":"a: the lock is lost: it is not this client's any more)"))
      << all;
  EXPECT_TRUE(has(lines_with(all, "lost").at(0), R"(,"exit_code":79})")) << all;
  EXPECT_TRUE(has(lines_with(all, "child_exit").at(0), "\"signal\":15}")) << all;
}

TEST_F(RunEvents, AWaitForReplicasIsToldOnce) {
  EXPECT_EQ(result_of({"run", "--json", "--sync-replicas", "1", "--wait", "3s", "a", "--", "true"}), 80) << output_;
  EXPECT_EQ(story_of(output_), "waiting short_of_replicas not_granted exit") << output_;
}

TEST_F(RunEvents, ACommandThatIsNotThereIsNotStarted) {
  EXPECT_EQ(result_of({"run", "--json", "a", "--", "no-such-program"}), 127);
  EXPECT_EQ(story_of(output_), "waiting granted not_started released exit") << output_;
}

TEST_F(RunEvents, GoToADescriptorThatTheCommandDoesNotGet) {
  program p = shell(
      "$CONCH run --events-fd 7 a -- /bin/sh -c 'if (echo mine >&7) 2>/dev/null; then exit 9; fi; echo no descriptor' "
      "7> $FILE; echo code $?");
  p.wait_for("no descriptor");
  EXPECT_EQ(p.wait_for("code "), "code 0");
  EXPECT_EQ(p.wait_for_end(60s), 0);
  std::string const told = text_of(file("written"));
  EXPECT_EQ(story_of(told), "waiting granted child_started child_exit released exit") << told;
  EXPECT_FALSE(has(told, "mine"));
  EXPECT_EQ(story_of(p.output()), "") << p.output();
}

TEST_F(RunEvents, ThatGoElsewhereLeaveTheWordsForPeopleAsTheyAre) {
  program holder = run({"a"}, "echo held; sleep 600");
  holder.wait_for("held");
  program p = shell("$CONCH run -n --events-fd 7 a -- true 7> $FILE; echo code $?");
  EXPECT_TRUE(p.wait_for("conch: ").starts_with("conch: a: not free (held by sh@"));
  EXPECT_EQ(p.wait_for("code "), "code 75");
  EXPECT_EQ(story_of(text_of(file("written"))), "waiting not_granted exit");
}

TEST_F(RunEvents, NeedAnOpenDescriptor) {
  EXPECT_EQ(result_of({"run", "--events-fd", "77", "a", "--", "true"}), 64);
  EXPECT_TRUE(has(output_, "--events-fd 77: no such descriptor is open")) << output_;
  EXPECT_EQ(result_of({"run", "--events-fd", "0", "a", "--", "true"}), 64);
}

// A pipe without a reader, which ends other programs by SIGPIPE; and CMD does not ignore that signal either.
TEST_F(RunEvents, AReaderThatHasGoneEndsNothing) {
  program p = shell(
      "mkfifo $FILE; exec 4<> $FILE; exec 7> $FILE; exec 4>&-; $CONCH run --events-fd 7 a -- /bin/sh -c 'kill -PIPE "
      "$$; exit 5'; echo code $?");
  EXPECT_EQ(p.wait_for("code ", 60s), "code " + std::to_string(128 + SIGPIPE));
  EXPECT_FALSE(is_held("a"));
}

TEST_F(RunEvents, AReaderThatDoesNotReadKeepsNobodyWaiting) {
  program p = shell(
      "mkfifo $FILE; exec 7<> $FILE; head -c 65536 /dev/zero >&7; $CONCH run --events-fd 7 a -- /bin/sh -c 'exit 5'; "
      "echo code $?");
  EXPECT_EQ(p.wait_for("code ", 60s), "code 5");
  EXPECT_FALSE(is_held("a"));
}

}  // namespace
}  // namespace conch::test
