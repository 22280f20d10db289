#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace conch::test {

/// A program at a terminal of its own, whose session it leads. Killed by its process id, at the latest by the
/// destructor.
class on_terminal {
 public:
  explicit on_terminal(std::vector<std::string> words);
  ~on_terminal();
  on_terminal(on_terminal const&) = delete;
  on_terminal& operator=(on_terminal const&) = delete;

  /// As if it came from the keyboard: "\x03" is Ctrl-C, "\x1a" is Ctrl-Z.
  void type(std::string const& text) const;

  /// Reads until the text comes, behind what was found before. Throws, with all that was written, when it does not come
  /// in time.
  void wait_for(std::string const& text, std::chrono::milliseconds bound = std::chrono::seconds(60));

  /// The exit code, or 128 + the signal.
  int wait_for_end(std::chrono::milliseconds bound = std::chrono::seconds(60));

  std::string const& output() const noexcept { return output_; }
  pid_t pid() const noexcept { return pid_; }

 private:
  bool read_more(std::chrono::steady_clock::time_point until);

  pid_t pid_ = 0;
  int fd_ = -1;
  std::string output_;
  std::size_t looked_at_ = 0;
};

}  // namespace conch::test
