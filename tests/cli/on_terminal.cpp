#include "cli/on_terminal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace conch::test {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

on_terminal::on_terminal(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  fd_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (fd_ < 0 || ::grantpt(fd_) != 0 || ::unlockpt(fd_) != 0) throw std::runtime_error{"no terminal"};
  std::string const name = ::ptsname(fd_);
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 100;
  ::ioctl(fd_, TIOCSWINSZ, &size);
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setsid();
  int const mine = ::open(name.c_str(), O_RDWR);  // the first terminal that a session opens becomes its own
  for (int fd = 0; fd <= 2; ++fd) ::dup2(mine, fd);
  if (mine > 2) ::close(mine);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

on_terminal::~on_terminal() {
  if (pid_ != 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(fd_);
}

void on_terminal::type(std::string const& text) const {
  if (::write(fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error{"the terminal takes nothing"};
}

void on_terminal::wait_for(std::string const& text, std::chrono::milliseconds bound) {
  auto const until = steady::now() + bound;
  for (;;) {
    if (auto const found = output_.find(text, looked_at_); found != std::string::npos) {
      looked_at_ = found + text.size();
      return;
    }
    if (!read_more(until)) throw std::runtime_error{"it ended without '" + text + "': " + output_};
  }
}

int on_terminal::wait_for_end(std::chrono::milliseconds bound) {
  auto const until = steady::now() + bound;
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) != pid_) {
    if (steady::now() > until) throw std::runtime_error{"it did not end: " + output_};
    pollfd ready{fd_, POLLIN, 0};
    if (::poll(&ready, 1, 10) > 0 && !read_more(until)) std::this_thread::sleep_for(2ms);
  }
  pid_ = 0;
  for (pollfd ready{fd_, POLLIN, 0}; ::poll(&ready, 1, 0) > 0 && read_more(until);) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool on_terminal::read_more(steady::time_point until) {
  auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(until - steady::now());
  pollfd ready{fd_, POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(std::max(left, 0ms).count())) <= 0)
    throw std::runtime_error{"it took too long: " + output_};
  char buffer[4096];
  auto const size = ::read(fd_, buffer, sizeof buffer);  // fails when nobody has the terminal open any more
  if (size <= 0) return false;
  output_.append(buffer, static_cast<std::size_t>(size));
  return true;
}

}  // namespace conch::test
