// `conch run` with its default settings against real servers: it waits for the lock, and then works for longer than a
// claim. A claim is 3 s; over several servers 0.5 s.

#include <csignal>

#include "cli/command.hpp"

namespace conch::test {
namespace {

using namespace std::chrono_literals;

class RunDefault : public Command {};

constexpr char const* longer_than_a_claim = "echo begun; sleep 4; echo worked";

TEST_F(RunDefault, WorksForLongerThanAClaimAfterItHasWaited) {
  program holder = run({"a"}, "echo held; while [ ! -e $FILE ]; do sleep 0.02; done");
  holder.wait_for("held");
  program waiting = run({"a"}, longer_than_a_claim);
  wait_until_in_line("a");
  EXPECT_EQ(shell("echo go > $FILE").wait_for_end(), 0);
  EXPECT_EQ(holder.wait_for_end(60s), 0);
  waiting.wait_for("worked", 60s);
  EXPECT_EQ(waiting.wait_for_end(60s), 0);
}

TEST_F(RunDefault, EachOfSeveralWorksForLongerThanAClaimAfterItHasWaited) {
  program holder = run({"a", "b"}, "echo held; while [ ! -e $FILE ]; do sleep 0.02; done");
  holder.wait_for("held");
  program waiting = run({"b", "a"}, longer_than_a_claim);
  wait_until_in_line("a");
  EXPECT_EQ(shell("echo go > $FILE").wait_for_end(), 0);
  EXPECT_EQ(holder.wait_for_end(60s), 0);
  waiting.wait_for("worked", 60s);
  EXPECT_EQ(waiting.wait_for_end(60s), 0);
}

TEST_F(RunDefault, OverSeveralServersWorksForLongerThanAClaim) {
  redis_server_options const tcp{.tcp = true};
  redis_server one{tcp}, two{tcp}, three{tcp};
  std::string url = "redlock://";
  for (redis_server const* s : {&one, &two, &three})
    url += (s == &one ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(s->port());
  program free = run({"--url", url, "a"}, longer_than_a_claim);
  free.wait_for("begun", 60s);
  program waiting = run({"--url", url, "a"}, longer_than_a_claim);
  EXPECT_EQ(free.wait_for_end(60s), 0);
  waiting.wait_for("worked", 60s);
  EXPECT_EQ(waiting.wait_for_end(60s), 0);
}

TEST_F(RunDefault, AServerThatDoesNotAnswerIsNotALockThatIsNotFree) {
  server_.stop();
  for (char const* wait : {"1s", "200ms"}) {
    EXPECT_EQ(result_of({"run", "--wait", wait, "-E", "0", "a", "--", "echo", "never"}), 69) << output_;
    EXPECT_NE(output_.find("conch: a: the lock server cannot be reached: "), std::string::npos) << output_;
    EXPECT_EQ(output_.find("never"), std::string::npos);
  }
  server_.cont();
}

TEST_F(RunDefault, APlainServerBehindATlsUrlIsNotALockThatIsNotFree) {
  redis_server plain{redis_server_options{.tcp = true}};
  std::string const url = "rediss://127.0.0.1:" + std::to_string(plain.port());
  int const code = result_of({"run", "--url", url, "--wait", "2s", "-E", "0", "a", "--", "echo", "never"});
  EXPECT_TRUE(code == 69 || code == 78) << code;
  EXPECT_NE(output_.find("TLS"), std::string::npos) << output_;
  EXPECT_EQ(output_.find("never"), std::string::npos);
}

TEST_F(RunDefault, ALockThatIsHeldIsNotFreeWithinTheWait) {
  program holder = run({"a"}, "echo held; sleep 600");
  holder.wait_for("held");
  EXPECT_EQ(result_of({"run", "--wait", "1s", "a", "--", "true"}), 75) << output_;
  EXPECT_NE(output_.find("conch: a: not free within 1 s (held by sh@"), std::string::npos) << output_;
  EXPECT_EQ(result_of({"run", "--wait", "1s", "a", "b", "--", "true"}), 75) << output_;
  program reader = run({"--kind", "shared", "r"}, "echo held; sleep 600");
  reader.wait_for("held");
  EXPECT_EQ(result_of({"run", "--kind", "exclusive", "--wait", "1s", "r", "--", "true"}), 75) << output_;
}

// ---------------------------------------------------------------------------------------- what the parent leaves
// behind

constexpr char const* blocked =
    "/usr/bin/python3 -c 'import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals)); "
    "os.execvp(sys.argv[1], "
    "sys.argv[1:])' ";

TEST_F(RunDefault, EndsWithItsCommandThoughItsParentHasBlockedAllSignals) {
  program p = shell(std::string{"exec "} + blocked + "$CONCH run a -- /bin/sh -c 'exit 3'");
  EXPECT_EQ(p.wait_for_end(60s), 3);
  EXPECT_FALSE(is_held("a"));
}

TEST_F(RunDefault, HearsSignalsThoughItsParentHasBlockedThem) {
  program p =
      shell(std::string{"exec "} + blocked + "$CONCH run a --grace 100ms -- /bin/sh -c 'echo ready; sleep 600'");
  p.wait_for("ready");
  p.signal(SIGTERM);
  p.signal(SIGINT);
  int const code = p.wait_for_end(60s);  // the shell may have let TERM in, as some do; else KILL ends it
  EXPECT_TRUE(code == 128 + SIGTERM || code == 128 + SIGINT || code == 128 + SIGKILL) << code;
  EXPECT_FALSE(is_held("a"));
}

TEST_F(RunDefault, EndsWithItsCommandThoughItsParentHasIgnoredChildren) {
  program p = shell(
      "exec /usr/bin/python3 -c 'import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
      "os.execvp(sys.argv[1], sys.argv[1:])' "
      "$CONCH run a -- /usr/bin/python3 -c 'import signal, sys; sys.exit(3 if signal.getsignal(signal.SIGCHLD) == "
      "signal.SIG_IGN else 4)'");
  EXPECT_EQ(p.wait_for_end(60s), 3) << "its command ignores them too, as it would without conch";
}

TEST_F(RunDefault, SaysWhyAServerThatAnswersGrantsNothing) {
  probe_.command({"CONFIG", "SET", "min-replicas-to-write", "1"});
  EXPECT_EQ(result_of({"run", "a", "--wait", "500ms", "--", "true"}), 69);
  EXPECT_NE(output_.find("NOREPLICAS"), std::string::npos) << output_;
}

TEST_F(RunDefault, KeepsTheWayToTheServerAndTheSocketsOfSystemdToItself) {
  std::string const show = "-- /usr/bin/env";
  probe_.command({"CONFIG", "SET", "requirepass", "abracadabra"});
  program with_password = shell(
      "CONCH_USER=default CONCH_PASSWORD=abracadabra LISTEN_PID=1 LISTEN_FDS=2 LISTEN_FDNAMES=x WATCHDOG_PID=1 "
      "OTHER=stays $CONCH run a " +
      show);
  EXPECT_EQ(with_password.wait_for_end(60s), 0);
  std::string const& output = with_password.output();
  EXPECT_NE(output.find("OTHER=stays"), std::string::npos) << output;
  EXPECT_NE(output.find("CONCH_LOCK=a"), std::string::npos) << output;
  for (char const* name : {"abracadabra", "CONCH_URL", "CONCH_USER", "CONCH_PASSWORD", "LISTEN_", "WATCHDOG_PID"}) {
    EXPECT_EQ(output.find(name), std::string::npos) << name << " in " << output;
  }
  program kept =
      shell("CONCH_USER=default CONCH_PASSWORD=abracadabra LISTEN_PID=1 $CONCH run --keep-connection a " + show);
  EXPECT_EQ(kept.wait_for_end(60s), 0);
  EXPECT_NE(kept.output().find("CONCH_PASSWORD=abracadabra"), std::string::npos);
  EXPECT_EQ(kept.output().find("LISTEN_"), std::string::npos);
}

}  // namespace
}  // namespace conch::test
