// std::scoped_lock over two locks, in two processes that name them in opposite orders.

#include "integration/fixture.hpp"
#include "integration/places.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <sstream>

namespace conch::test {
namespace {

/// A running conch-scoped-locks.
class locking_process {
 public:
  locking_process(std::string const& url, char const* first, char const* second, std::chrono::seconds length,
                  std::string const& file) {
    int from[2];
    if (::pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error{"pipe2"};
    std::string const seconds = std::to_string(length.count());
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(from[1], STDOUT_FILENO);
      ::execl(scoped_locks_program, scoped_locks_program, url.c_str(), first, second, seconds.c_str(), file.c_str(),
              nullptr);
      ::_exit(127);
    }
    ::close(from[1]);
    out_ = from[0];
  }
  locking_process(locking_process const&) = delete;
  locking_process& operator=(locking_process const&) = delete;
  ~locking_process() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(out_);
  }

  /// All that it says.
  std::string result() {
    std::string text;
    char buffer[256];
    for (ssize_t n = 0; (n = ::read(out_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(n));
    return text;
  }

 private:
  pid_t pid_ = 0;
  int out_ = -1;
};

struct told_by_process {
  long times = 0, stale = 0, invalid = 0, longest_wait_us = 0, busy_tries = 0;
};

void lock_in_opposite_orders(std::chrono::seconds length) {
  redis_server server;
  std::string const file = (server.directory() / "guarded").string();
  std::ofstream{file} << "";
  std::int64_t times = 0;
  {
    locking_process forwards{server.url(), "left", "right", length, file},
        backwards{server.url(), "right", "left", length, file};
    for (locking_process* const one : {&forwards, &backwards}) {
      std::string const said = one->result();
      std::istringstream words{said};
      told_by_process told;
      ASSERT_TRUE(words >> told.times >> told.stale >> told.invalid >> told.longest_wait_us >> told.busy_tries) << said;
      std::cout << "both locks " << told.times << " times, longest wait " << told.longest_wait_us << " us, "
                << told.busy_tries << " busy tries\n";
      EXPECT_GT(told.times, 0);
      EXPECT_EQ(told.stale, 0) << "a token was not greater than the last one";
      EXPECT_EQ(told.invalid, 0);
      times += told.times;
    }
  }
  std::int64_t counted = 0;
  std::ifstream{file, std::ios::binary}.read(reinterpret_cast<char*>(&counted), sizeof counted);
  EXPECT_EQ(counted, times) << "two were inside together";
}

TEST(BlockingProcesses, ScopedLocksInOppositeOrdersNeitherDeadlockNorMeet) { lock_in_opposite_orders(3s); }

TEST(SlowBlockingProcesses, ScopedLocksInOppositeOrdersForAMinute) { lock_in_opposite_orders(60s); }

}  // namespace
}  // namespace conch::test
