// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/line_sink.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

namespace conch::cli {

namespace {

/// CMD must not inherit that SIGPIPE is ignored, so it is blocked while this exists, and taken if it has come.
class no_sigpipe {
 public:
  no_sigpipe() noexcept {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) != 0;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  no_sigpipe(no_sigpipe const&) = delete;
  no_sigpipe& operator=(no_sigpipe const&) = delete;
  ~no_sigpipe() {
    int const error = errno;
    timespec const at_once{};
    if (!was_pending_) ::sigtimedwait(&pipe_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

/// The same pipe or terminal with flags of its own; -1: this process may not open it.
int opened_again(int fd) noexcept {
  char path[32] = "/proc/self/fd/";
  char* end = path + sizeof "/proc/self/fd/" - 1;
  char digits[12];
  int size = 0;
  for (int rest = fd; rest != 0 || size == 0; rest /= 10) digits[size++] = static_cast<char>('0' + rest % 10);
  std::reverse_copy(digits, digits + size, end);
  end[size] = '\0';
  return ::open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

}  // namespace

line_sink::line_sink(int fd) noexcept : fd_{fd} {
  struct stat about {};
  if (fd < 0 || ::fstat(fd, &about) != 0) return;
  if (S_ISSOCK(about.st_mode)) {
    kind_ = kind::socket;
  } else if (S_ISFIFO(about.st_mode) || ::isatty(fd) != 0) {
    int const own = opened_again(fd);
    if (own < 0) return;
    fd_ = own;
    kind_ = kind::non_blocking;
  } else {
    kind_ = kind::file;
  }
}

line_sink::~line_sink() {
  if (kind_ == kind::non_blocking) ::close(fd_);
}

long line_sink::write_some(std::string_view text) const noexcept {
  // A pipe with any room has room for this much. Another writer could still fill it first and make this wait, but only
  // if opened_again fails.
  if (kind_ == kind::in_pieces) {
    pollfd room{fd_, POLLOUT, 0};
    if (::poll(&room, 1, 0) <= 0) return 0;
    text = text.substr(0, PIPE_BUF);
  }
  no_sigpipe const blocked;
  ssize_t written = 0;
  do {
    written = kind_ == kind::socket ? ::send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                                    : ::write(fd_, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  return written;
}

bool line_sink::flush() noexcept {
  std::size_t done = 0;
  while (!has_gone_ && done < waiting_.size()) {
    long const written = write_some(std::string_view{waiting_}.substr(done));
    has_gone_ = written < 0;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  waiting_.erase(0, has_gone_ ? std::string::npos : done);
  return !has_gone_;
}

bool line_sink::write(std::string_view line) {
  if (!flush()) return false;
  if (waiting_.size() + line.size() > std::max(most_waiting, line.size())) return true;
  waiting_ += line;
  return flush();
}

line_sink& line_sink::of_standard_error() noexcept {
  static line_sink sink{STDERR_FILENO};
  return sink;
}

}  // namespace conch::cli
