#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

namespace conch::test {

/// A program that a test runs: what it writes (both streams, in one) is kept. Killed by its process
/// id, at the latest by the destructor; and by the kernel if the thread that started it ends.
class program {
 public:
  explicit program(std::vector<std::string> words);
  ~program();
  program(program const&) = delete;
  program& operator=(program const&) = delete;

  /// Reads until a line begins with `beginning` and returns that line. Throws, with everything that
  /// was written, when it does not come in time or the program ends before.
  std::string wait_for(std::string const& beginning, std::chrono::milliseconds bound = std::chrono::seconds(20));

  /// Waits for the end: the exit code, or 128 + the signal. Throws when it does not come in time.
  int wait_for_end(std::chrono::milliseconds bound = std::chrono::seconds(20));

  /// Until `wait_for_end` has seen its end.
  bool is_running() const noexcept { return pid_ != 0; }
  pid_t pid() const noexcept { return pid_; }

  void signal(int number) const { ::kill(pid_, number); }

  /// All that was written and read so far.
  std::string const& output() const noexcept { return output_; }

 private:
  /// False at the end of the output. Throws when `until` is over.
  bool read_more(std::chrono::steady_clock::time_point until);

  pid_t pid_ = 0;
  int out_ = -1;
  std::string output_;
  std::size_t looked_at_ = 0;
};

}  // namespace conch::test
