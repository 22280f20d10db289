#include "demo/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace conch::test {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

program::program(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (auto& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  int from[2];
  if (::pipe2(from, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe2");
  }
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(from[1], STDOUT_FILENO);
    ::dup2(from[1], STDERR_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(from[1]);
  out_ = from[0];
}

program::~program() {
  if (pid_ != 0) {
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(out_);
}

std::string program::wait_for(std::string const& beginning, std::chrono::milliseconds bound) {
  auto const until = steady::now() + bound;
  while (true) {
    for (auto end = output_.find('\n', looked_at_); end != output_.npos; end = output_.find('\n', looked_at_)) {
      std::string const line = output_.substr(looked_at_, end - looked_at_);
      looked_at_ = end + 1;
      if (line.starts_with(beginning)) {
        return line;
      }
    }
    if (!read_more(until)) {
      int const code = wait_for_end(5s);
      throw std::runtime_error("the program ended with " + std::to_string(code) + ", without '" + beginning +
                               "': " + output_);
    }
  }
}

int program::wait_for_end(std::chrono::milliseconds bound) {
  auto const until = steady::now() + bound;
  while (read_more(until)) {
  }
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) != pid_) {
    if (steady::now() > until) {
      throw std::runtime_error("the program did not end: " + output_);
    }
    std::this_thread::sleep_for(2ms);
  }
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool program::read_more(steady::time_point until) {
  auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(until - steady::now());
  pollfd ready{out_, POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(std::max(left, 0ms).count())) <= 0) {
    throw std::runtime_error("the program took too long: " + output_);
  }
  char buffer[4096];
  auto const size = ::read(out_, buffer, sizeof buffer);
  if (size <= 0) {
    return false;
  }
  output_.append(buffer, static_cast<std::size_t>(size));
  return true;
}

}  // namespace conch::test
