#pragma once

// A second process that takes part: conch-lock-holder.

#include "integration/fixture.hpp"
#include "integration/places.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace conch::test {

class child {
 public:
  child(redis_server const& server, std::string const& name, std::chrono::milliseconds lease,
        std::chrono::milliseconds claim = 0ms)
      : child{server.url(), name, lease, claim} {}

  /// `url`: of one server, or of several with commas between.
  child(std::string const& url, std::string const& name, std::chrono::milliseconds lease,
        std::chrono::milliseconds claim = 0ms, std::chrono::milliseconds lock_delay = 0ms,
        std::chrono::milliseconds at_least = 0ms) {
    std::vector<std::string> words{lock_holder_program, url, name, std::to_string(lease.count())};
    if (claim > 0ms || lock_delay > 0ms || at_least > 0ms) words.push_back(std::to_string(claim.count()));
    if (lock_delay > 0ms || at_least > 0ms) words.push_back(std::to_string(lock_delay.count()));
    if (at_least > 0ms) words.push_back(std::to_string(at_least.count()));
    std::vector<char*> arguments;
    for (std::string& one : words) arguments.push_back(one.data());
    arguments.push_back(nullptr);
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error{"pipe2"};
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], STDIN_FILENO);
      ::dup2(from[1], STDOUT_FILENO);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = to[1];
    out_ = from[0];
  }
  child(child const&) = delete;
  child& operator=(child const&) = delete;
  ~child() {
    kill();
    ::close(in_);
    ::close(out_);
  }

  void signal(int number) {
    if (pid_ > 0) ::kill(pid_, number);  // 0 would be the whole process group
  }

  /// SIGSTOP, and waits until it has stopped.
  void stop() {
    signal(SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
  }
  void cont() { signal(SIGCONT); }

  void kill() {
    if (pid_ == 0) return;
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  void say(std::string line) {
    line += '\n';
    if (::write(in_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw std::runtime_error{"child is gone"};
  }

  /// The next line; throws when none comes in time.
  std::string line(std::chrono::milliseconds bound = 15s) {
    auto const end = steady::now() + bound;
    for (;;) {
      if (auto const at = text_.find('\n'); at != std::string::npos) {
        std::string const one = text_.substr(0, at);
        text_.erase(0, at + 1);
        return one;
      }
      auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(end - steady::now());
      pollfd p{out_, POLLIN, 0};
      if (left <= 0ms || ::poll(&p, 1, static_cast<int>(left.count())) <= 0) {
        throw std::runtime_error{"the child said nothing in time; so far: '" + text_ + "'"};
      }
      char buffer[512];
      auto const size = ::read(out_, buffer, sizeof buffer);
      if (size <= 0) throw std::runtime_error{"the child has ended"};
      text_.append(buffer, static_cast<std::size_t>(size));
    }
  }

  /// Has it said a line that begins so? Waits for a moment only; other lines are passed over.
  bool says(std::string const& beginning) {
    for (;;) {
      pollfd p{out_, POLLIN, 0};
      if (text_.find('\n') == std::string::npos && ::poll(&p, 1, 1) <= 0) return false;
      if (line().starts_with(beginning)) return true;
    }
  }

  /// Waits for a line that begins so.
  std::string wait_for(std::string const& beginning, std::chrono::milliseconds bound = 15s) {
    std::string one;
    while (!(one = line(bound)).starts_with(beginning)) {
    }
    return one;
  }

 private:
  pid_t pid_ = 0;
  int in_ = -1;
  int out_ = -1;
  std::string text_;
};

}  // namespace conch::test
