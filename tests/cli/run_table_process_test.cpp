// Every exit and every kill of `conch run`, under a library that tells a story (fake_locks.hpp). The processes are
// real. Each row says what must come out; the last test puts faults into the library and expects the row that it names
// to notice.

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "demo/program.hpp"

#include <conch/clock.hpp>

namespace conch::test {
namespace {

using namespace std::chrono_literals;

using words = std::vector<std::string>;

/// A run under the fake library.
class fake_run {
 public:
  fake_run(words story, words const& options, words const& command)
      : program_{all_words(std::move(story), options, command)} {}

  program& of() { return program_; }
  void wait_for(std::string const& beginning) { program_.wait_for(beginning, bound); }
  void signal(int number) const { program_.signal(number); }

  /// The process id that the command has told in a line "pid N".
  pid_t child() {
    for (;;) {
      // It may have been read while something else was waited for.
      auto const line = program_.output().find("pid ", children_);
      if (line == std::string::npos || program_.output().find('\n', line) == std::string::npos) {
        program_.wait_for("pid ", bound);
        continue;
      }
      children_ = line + 4;
      return static_cast<pid_t>(std::stol(program_.output().substr(children_)));
    }
  }
  /// By conch::clock.
  time_point granted() {
    return time_point{duration{std::stoll(program_.wait_for("call granted ", bound).substr(13))}};
  }
  int code() { return program_.wait_for_end(bound); }

  /// What was asked of the library, in order, but for the grant and for who follows the deadline.
  std::string calls() const {
    std::istringstream in{program_.output()};
    std::string all;
    for (std::string line; std::getline(in, line);) {
      if (!line.starts_with("call ") || line.starts_with("call granted") || line == "call follows") continue;
      all += (all.empty() ? "" : " ") + line.substr(5);
    }
    return all;
  }

  static constexpr std::chrono::milliseconds bound{20'000};

 private:
  static words all_words(words story, words const& options, words const& command) {
    // In a session of its own: where a row stops conch and its group, the tests go on.
    story.insert(story.begin(), {"/usr/bin/setsid", CONCH_RUN_FAKE});
    story.insert(story.end(), {"::", "run", "a"});
    story.insert(story.end(), options.begin(), options.end());
    story.emplace_back("--");
    story.insert(story.end(), command.begin(), command.end());
    return story;
  }

  program program_;
  std::size_t children_ = 0;  // up to here their lines were read
};

bool is_gone(pid_t pid) {
  std::ifstream in{"/proc/" + std::to_string(pid) + "/stat"};
  std::ostringstream text;
  text << in.rdbuf();
  std::string const state = text.str();
  auto const name_end = state.rfind(')');
  return name_end == std::string::npos || state.substr(name_end + 2, 1) == "Z";
}

/// When it was gone, or somewhat later.
time_point wait_until_gone(pid_t pid) {
  auto const end = std::chrono::steady_clock::now() + fake_run::bound;
  while (!is_gone(pid)) {
    if (std::chrono::steady_clock::now() > end)
      throw std::runtime_error{"process " + std::to_string(pid) + " is there still"};
    std::this_thread::sleep_for(2ms);
  }
  return clock::now();
}

struct row {
  char const* name;
  words story;
  words options;
  words command;
  std::function<void(fake_run&)> drive;
  int code;
  char const* calls;
  char const* says = "";  // somewhere in what conch and the command write
};

words sh(std::string const& script) { return {"/bin/sh", "-c", script}; }

std::string const waits = "while :; do sleep 0.02; done";
void nothing(fake_run&) {}

auto when(char const* line, int signal) {
  return [=](fake_run& r) {
    r.wait_for(line);
    r.signal(signal);
  };
}

row refused(char const* name, char const* error, int code) {
  return {name,
          {std::string{"refused="} + error},
          {"-E", "0", "--wait", "1s"},
          sh("echo never"),
          nothing,
          code,
          "acquire drop close",
          "conch: a: "};
}

std::vector<row> all_rows() {
  std::string const stubborn = "trap '' TERM INT HUP; echo ready; " + waits;
  std::string const told = "trap 'echo told; exit 0' TERM; echo ready; " + waits;
  return {
      // ---- the command ends
      {"ExitsWithTheCodeOfTheCommand", {}, {}, sh("exit 3"), nothing, 3, "acquire release drop"},
      {"ExitsWithTheSignalThatEndedTheCommand",
       {},
       {},
       sh("kill -KILL $$"),
       nothing,
       128 + SIGKILL,
       "acquire release drop"},
      {"ReleasesWhereThereIsNoSuchCommand",
       {},
       {},
       {"no-such-program"},
       nothing,
       127,
       "acquire release drop",
       "no-such-program: "},
      {"ReleasesWhereTheCommandCannotBeExecuted",
       {},
       {},
       {"/etc/passwd"},
       nothing,
       126,
       "acquire release drop",
       "/etc/passwd: "},
      {"EndsWhatTheCommandHasLeftBehindBeforeTheRelease",
       {},
       {},
       sh("(trap 'echo left; exit 0' TERM; " + waits + ") & sleep 0.2; exit 5"),
       nothing,
       5,
       "acquire release drop",
       "left"},
      {"SaysThatTheReleaseIsNotConfirmed",
       {"release_fails=unreachable"},
       {},
       sh("exit 4"),
       nothing,
       4,
       "acquire release drop close",
       "a: not released yet, so it ends with its lease: "},

      // ---- no lock
      {"SaysThatTheLockIsNotFree",
       {"refused=timed_out"},
       {"-n"},
       sh("echo never"),
       nothing,
       75,
       "acquire drop close",
       "conch: a: not free\n"},
      {"SaysForHowLongItWasNotFree",
       {"refused=timed_out"},
       {"--wait", "2s"},
       sh("echo never"),
       nothing,
       75,
       "acquire drop close",
       "a: not free within 2"},
      {"HasTheCodeForNotFreeThatWasAskedFor",
       {"refused=timed_out"},
       {"-n", "-E", "0"},
       sh("echo never"),
       nothing,
       0,
       "acquire drop close"},
      refused("ThatNoServerAnswersIsNotThatTheLockIsNotFree", "unreachable", 69),
      refused("AClosedClientIsUnreachable", "closed", 69),
      refused("SaysThatAccessIsDenied", "access_denied", 77),
      refused("SaysThatAKeyIsNoLock", "wrong_type", 76),
      refused("SaysThatTheServerRefuses", "server_refused", 76),
      refused("SaysThatTheServerSpeaksSomethingElse", "protocol", 76),
      refused("SaysThatTheNameIsWrong", "invalid_name", 64),
      refused("SaysThatAnOptionIsWrong", "invalid_config", 64),
      refused("SaysThatTheServerDoesNotOfferThat", "not_supported", 64),
      refused("SaysThatTheUrlIsWrong", "invalid_url", 78),
      refused("SaysThatTlsFails", "tls_failed", 78),
      refused("SaysThatTooFewReplicasHaveIt", "not_replicated", 80),
      refused("SaysThatOneOfSeveralWasLostMeanwhile", "lost", 79),
      refused("AnErrorThatCannotBeIsADefect", "would_deadlock", 70),

      // ---- signals while it waits
      {"GivesUpTheWaitAtTerm",
       {"until_stopped"},
       {},
       sh("echo never"),
       when("call acquire", SIGTERM),
       128 + SIGTERM,
       "acquire stop_waiting drop close"},
      {"GivesUpTheWaitAtInterrupt",
       {"until_stopped"},
       {},
       sh("echo never"),
       when("call acquire", SIGINT),
       128 + SIGINT,
       "acquire stop_waiting drop close"},
      {"StartsNothingWhereTheGrantOvertakesTheSignal",
       {"granted_when_stopped"},
       {},
       sh("echo never"),
       when("call acquire", SIGHUP),
       128 + SIGHUP,
       "acquire stop_waiting release drop"},

      // ---- signals while the command runs
      {"PassesTermOn",
       {},
       {},
       sh("trap 'echo told; exit 6' TERM; echo ready; " + waits),
       when("ready", SIGTERM),
       6,
       "acquire release drop",
       "told"},
      {"PassesUsr1On",
       {},
       {},
       sh("trap 'echo told; exit 7' USR1; echo ready; " + waits),
       when("ready", SIGUSR1),
       7,
       "acquire release drop",
       "told"},
      {"EndsTheCommandByTermAtTheSecondInterrupt",
       {},
       {},
       sh("trap 'echo once' INT; echo ready; " + waits),
       [](fake_run& r) {
         when("ready", SIGINT)(r);
         when("once", SIGINT)(r);
       },
       128 + SIGTERM,
       "acquire release drop"},
      {"KillsAfterTheGrace",
       {},
       {"--grace", "100ms"},
       sh(stubborn),
       [](fake_run& r) {
         when("ready", SIGHUP)(r);
         r.signal(SIGTERM);
       },
       128 + SIGKILL,
       "acquire release drop"},

      // ---- a loss
      {"TellsTheCommandOfALossAndReleasesNothing",
       {"lost_at=100ms"},
       {},
       sh(told),
       nothing,
       79,
       "acquire drop close",
       "told"},
      {"KillsACommandThatDoesNotHearOfTheLoss",
       {"lost_at=100ms"},
       {"--grace", "100ms"},
       sh(stubborn),
       nothing,
       79,
       "acquire drop close",
       "a: the lock is lost"},
      {"DoesNotCallWorkDoneThatEndsBehindItsLease",
       {"valid_for=200ms"},
       {"--no-kill-child"},
       sh("sleep 0.5; exit 0"),
       nothing,
       79,
       "acquire drop close",
       "conch: a: the lock is lost: conch saw no renewal in time\n"},
      {"SaysWhyTheGuardianKilledTheCommand",
       {"valid_for=1100ms", "fault=loss_not_told"},
       {},
       sh(stubborn),
       nothing,
       79,
       "acquire drop close",
       "conch: a: the lock is lost: conch saw no renewal in time\n"},
      {"IsLostWhereTheGuardianKilledBeforeItKnewOfTheRenewal",
       {"valid_for=1100ms", "renewal=500ms=1h", "fault=renewals_not_told"},
       {},
       sh(stubborn),
       nothing,
       79,
       "acquire drop close",
       "conch: a: the lock is lost: conch saw no renewal in time\n"},
      {"KillsTheCommandThatWasStoppedAndHasLostTheLockMeanwhile",
       {"not_held_at_check"},
       {},
       sh("echo ready; kill -TSTP $$; echo never"),
       nothing,
       79,
       "acquire check drop close"},
      {"LetsTheCommandThatWasStoppedGoOnWhereTheLockIsHeld",
       {},
       {},
       sh("echo ready; kill -TSTP $$; echo went on; exit 2"),
       nothing,
       2,
       "acquire check release drop",
       "went on"},

      // ---- a warning
      {"WarnsTheCommandEachTimeThatTheLockIsEndangered",
       {"endangered_at=1s", "safe_at=1500ms", "endangered_at=3s", "safe_at=3500ms"},
       {"--warn", "USR1"},
       sh("trap 'n=$((n + 1)); echo warning $n' USR1; trap 'exit 6' TERM; i=0; "
          "while [ $i -lt 250 ]; do sleep 0.02; i=$((i + 1)); done; exit $((n * 10))"),
       nothing,
       20,
       "acquire release drop",
       "warning 2"},
      {"WarnsTheCommandBeforeALoss",
       {"endangered_at=1s", "lost_at=2s"},
       {"--warn", "SIGHUP"},
       sh("trap 'echo warning' HUP; trap 'echo told; exit 0' TERM; " + waits),
       nothing,
       79,
       "acquire drop close",
       "warning\n"},
      {"WarnsNobodyUnlessAsked",
       {"endangered_at=100ms", "safe_at=200ms"},
       {},
       sh("trap 'echo never' USR1 USR2 HUP; sleep 0.5; exit 4"),
       nothing,
       4,
       "acquire release drop"},
      {"ReportsTheDangerToAProgram",
       {"endangered_at=1s", "safe_at=1100ms"},
       {"--json"},
       sh("sleep 2"),
       nothing,
       0,
       "acquire release drop",
       "\"left_ms\":250}\n{\"event\":\"safe_again\""},

      // ---- a short claim
      {"StartsTheCommandWhenAShortClaimIsConfirmed",
       {"valid_for=500ms", "lease=30s", "renewal=300ms=30s"},
       {},
       sh("echo started; exit 3"),
       [](fake_run& r) {
         time_point const granted = r.granted();
         r.wait_for("started");
         if (clock::now() < granted + 300ms) throw std::runtime_error{"the claim was not confirmed"};
       },
       3,
       "acquire release drop"},
      {"StartsNothingWhereThatIsAnotherShortClaim",
       {"valid_for=500ms", "lease=30s", "renewal=20ms=600ms", "renewal=300ms=30s"},
       {},
       sh("echo started; exit 3"),
       [](fake_run& r) {
         time_point const granted = r.granted();
         r.wait_for("started");
         if (clock::now() < granted + 300ms) throw std::runtime_error{"only a short claim was confirmed"};
       },
       3,
       "acquire release drop"},
      {"AsksAgainWhereAShortClaimIsLost",
       {"valid_for=500ms", "lease=30s", "lost_at=200ms"},
       {},
       sh("echo started; exit 3"),
       [](fake_run& r) {
         r.granted();
         r.granted();
         if (r.of().output().find("started") < r.of().output().rfind("call granted"))
           throw std::runtime_error{"it was started under the lost claim"};
       },
       3,
       "acquire acquire release drop"},
      {"EndsWhereTheSignalComesBeforeAShortClaimIsLost",
       {"valid_for=500ms", "lease=30s", "lost_at=3s"},
       {},
       sh("echo never"),
       when("call granted", SIGTERM),
       128 + SIGTERM,
       "acquire stop_waiting drop close"},
      {"StartsNothingWhereTheSignalComesDuringAShortClaim",
       {"valid_for=500ms", "lease=30s", "renewal=3s=30s"},
       {},
       sh("echo never"),
       when("call granted", SIGTERM),
       128 + SIGTERM,
       "acquire stop_waiting release drop"},

      // ---- the deadline moves
      {"LetsTheCommandWorkForLongerThanAClaim",
       {"valid_for=2s", "renewal=0ms=1h"},
       {},
       sh("sleep 3; exit 0"),
       nothing,
       0,
       "acquire release drop"},
      {"FollowsEachLaterDeadline",
       {"valid_for=2s", "renewal=0ms=2100ms", "renewal=200ms=2400ms", "renewal=400ms=1h"},
       {},
       sh("sleep 3; exit 0"),
       nothing,
       0,
       "acquire release drop"},
  };
}

/// What is wrong with the run; empty: nothing.
std::string wrong_with(row const& r, std::string const& fault = {}) {
  words story = r.story;
  if (!fault.empty()) story.push_back("fault=" + fault);
  std::ostringstream wrong;
  try {
    fake_run run{story, r.options, r.command};
    r.drive(run);
    int const code = run.code();
    std::string const& output = run.of().output();
    if (code != r.code) wrong << "exit code " << code << " instead of " << r.code << '\n';
    if (run.calls() != r.calls) wrong << "it has called " << run.calls() << " instead of " << r.calls << '\n';
    if (output.find(r.says) == std::string::npos) wrong << "it does not say " << r.says << '\n';
    if (output.find("never") != std::string::npos) wrong << "the command ran\n";
    if (!wrong.str().empty()) wrong << output;
  } catch (std::exception const& error) {
    wrong << error.what();
  }
  return wrong.str();
}

class RunTable : public testing::TestWithParam<row> {};

TEST_P(RunTable, EndsAsTheRowSays) { EXPECT_EQ(wrong_with(GetParam()), ""); }

INSTANTIATE_TEST_SUITE_P(Rows, RunTable, testing::ValuesIn(all_rows()),
                         [](auto const& of) { return std::string{of.param.name}; });

TEST(RunTableFaults, EachIsSeenByTheRowThatItNames) {
  std::vector<std::pair<std::string, std::string>> const faults{
      {"renewals_not_told", "LetsTheCommandWorkForLongerThanAClaim"},
      {"deadline_stays", "LetsTheCommandWorkForLongerThanAClaim"},
      {"only_one_renewal_told", "FollowsEachLaterDeadline"},
      {"loss_not_told", "TellsTheCommandOfALossAndReleasesNothing"},
      {"danger_not_told", "WarnsTheCommandBeforeALoss"},
      {"danger_told_twice", "WarnsTheCommandEachTimeThatTheLockIsEndangered"},
      {"not_released", "ExitsWithTheCodeOfTheCommand"},
      {"held_without_asking", "KillsTheCommandThatWasStoppedAndHasLostTheLockMeanwhile"},
      {"no_answer_is_not_free", "ThatNoServerAnswersIsNotThatTheLockIsNotFree"},
  };
  std::vector<row> const rows = all_rows();
  for (auto const& [fault, name] : faults) {
    auto const seen_by = std::find_if(rows.begin(), rows.end(), [&](row const& r) { return r.name == name; });
    ASSERT_NE(seen_by, rows.end()) << name;
    row bounded = *seen_by;
    if (fault == "loss_not_told")
      bounded.command = sh("trap 'echo told; exit 0' TERM; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; done");
    EXPECT_NE(wrong_with(bounded, fault), "") << fault << " is not seen by " << name;
  }
}

// ---------------------------------------------------------------------------------------- which process is killed when

class RunKills : public testing::Test {
 protected:
  static words stubborn() { return sh("trap '' TERM INT HUP; echo pid $$; while :; do sleep 0.02; done"); }
};

TEST_F(RunKills, TheGuardianKillsTheCommandOfAConchThatIsStoppedAtTheLastDeadlineAndNotBefore) {
  fake_run r{{"valid_for=2s", "renewal=0ms=4s"}, {}, stubborn()};
  time_point const granted = r.granted();
  for (int i = 0; i < 2; ++i) r.wait_for("call follows");  // it has passed the second deadline on
  pid_t const child = r.child();
  r.signal(SIGSTOP);
  EXPECT_GE(wait_until_gone(child), granted + 4s);
  r.signal(SIGKILL);
}

TEST_F(RunKills, WithoutAGuardianTheCommandOutlivesAConchThatIsStopped) {
  fake_run r{{"valid_for=300ms"}, {"--no-kill-child"}, sh("echo pid $$; sleep 1; echo went on; exit 0")};
  pid_t const child = r.child();
  r.signal(SIGSTOP);
  r.wait_for("went on");
  wait_until_gone(child);
  r.signal(SIGCONT);
  EXPECT_EQ(r.code(), 79);
}

TEST_F(RunKills, TheCommandAndWhatItHasStartedAreKilledWithConch) {
  fake_run r{
      {}, {}, sh("trap '' TERM INT HUP; echo pid $$; /bin/sh -c 'echo pid $$; while :; do sleep 0.02; done' & wait")};
  pid_t const child = r.child(), grandchild = r.child();
  r.signal(SIGKILL);
  wait_until_gone(child);
  wait_until_gone(grandchild);
  EXPECT_EQ(r.code(), 128 + SIGKILL);
}

TEST_F(RunKills, ALossKillsBeforeTheDeadline) {
  fake_run r{{"valid_for=2s", "lost_at=1500ms"}, {"--grace", "10s"}, stubborn()};
  time_point const granted = r.granted();
  pid_t const child = r.child();
  r.wait_for("conch: a: the lock is lost");
  time_point const gone = wait_until_gone(child);
  EXPECT_EQ(r.code(), 79);
  EXPECT_GE(gone, granted + 1500ms);
  EXPECT_LT(gone, granted + 10s) << "the grace is longer than the lease";
}

/// Runs as nobody, and its command, a program with the setuid bit, becomes root.
TEST_F(RunKills, SaysThatACommandOfAnotherUserIsOutOfReach) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a program that becomes root";
  std::string folder = (std::filesystem::temp_directory_path() / "conch-setuid-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  std::string const becomes_root = folder + "/setpriv";
  std::filesystem::copy_file("/usr/bin/setpriv", becomes_root);
  ASSERT_EQ(::chmod(becomes_root.c_str(), 04755), 0);
  for (bool const by_signal : {false, true}) {
    words story{"/usr/bin/setpriv", "--reuid=65534", "--clear-groups", CONCH_RUN_FAKE};
    if (!by_signal) story.insert(story.end(), {"renewal=1s=2h", "renewal=2s=3h", "renewal=3s=4h"});
    words const rest{"::",
                     "run",
                     "--grace",
                     "100ms",
                     "a",
                     "--",
                     becomes_root,
                     "--reuid=0",
                     "/bin/sh",
                     "-c",
                     "echo ready; sleep 4; exit 6"};
    story.insert(story.end(), rest.begin(), rest.end());
    program p{story};
    p.wait_for("ready", fake_run::bound);
    if (by_signal) p.signal(SIGTERM);
    EXPECT_EQ(p.wait_for_end(fake_run::bound), 6);
    EXPECT_NE(p.output().find("runs as another user: neither a signal"), std::string::npos) << p.output();
    EXPECT_NE(p.output().find("sudo conch run"), std::string::npos);
  }
  std::filesystem::remove_all(folder);
}

TEST_F(RunKills, TheThirdSignalKillsWithoutAGrace) {
  fake_run r{{}, {"--grace", "1h"}, stubborn()};
  pid_t const child = r.child();
  for (int const number : {SIGINT, SIGTERM, SIGHUP}) r.signal(number);
  wait_until_gone(child);
  EXPECT_EQ(r.code(), 128 + SIGKILL);
}

}  // namespace
}  // namespace conch::test
