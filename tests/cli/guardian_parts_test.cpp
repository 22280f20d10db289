// What kills the command when `conch` cannot.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "cli/process.hpp"

namespace conch::cli {
namespace {

using namespace std::chrono_literals;

/// A process that does nothing, in a group of its own.
pid_t start_group() {
  child_options sleeper;
  sleeper.command = {"sleep", "60"};
  return start_child(sleeper, terminal{});
}

int signal_that_ended(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(Guardian, KillsAtTheDeadlineItIsMadeWith) {
  time_point const deadline = clock::now() + 200ms;
  guardian g{deadline};
  ::usleep(50'000);  // it looks at its deadline for the first time, and sleeps
  pid_t const group = start_group();
  g.watch(group);
  EXPECT_EQ(signal_that_ended(group), SIGKILL);
  EXPECT_GE(clock::now(), deadline);
}

TEST(Guardian, KillsAtTheLastDeadlineItIsTold) {
  guardian g{clock::now() + 500ms};
  pid_t const group = start_group();
  time_point const deadline = clock::now() + 800ms;
  g.set_deadline(deadline);
  g.watch(group);
  EXPECT_EQ(signal_that_ended(group), SIGKILL);
  EXPECT_GE(clock::now(), deadline);
}

TEST(Guardian, KillsNobodyWhoIsNotWatched) {
  pid_t const group = start_group();
  {
    guardian g{clock::now() + 20ms};
    g.watch(group);
    g.watch(0);
    ::usleep(100'000);
  }
  EXPECT_EQ(::waitpid(group, nullptr, WNOHANG), 0);
  ::kill(group, SIGKILL);
  EXPECT_EQ(signal_that_ended(group), SIGKILL);
}

}  // namespace
}  // namespace conch::cli
