// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/process.hpp"

#include "cli/exit_code.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

namespace conch::cli {

namespace {

/// No signal reaches this thread while one of these lives.
class signals_blocked {
 public:
  signals_blocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~signals_blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  signals_blocked(signals_blocked const&) = delete;
  signals_blocked& operator=(signals_blocked const&) = delete;

 private:
  sigset_t before_{};
};

[[noreturn]] void cannot(char const* what) {
  throw failure{exit_code::internal, std::string{what} + ": " + std::strerror(errno)};
}

void kill_group(pid_t group) noexcept {
  if (group > 1) ::kill(-group, SIGKILL);
}

/// Calls f(fd) for each descriptor that is open, as far as the system lists them. Allocates nothing: it also runs after
/// a fork.
template <class F>
bool for_each_open(F const& f) noexcept {
  int const folder = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  alignas(dirent64) char buffer[4096];
  for (;;) {
    auto const size = ::syscall(SYS_getdents64, folder, buffer, sizeof buffer);
    if (size <= 0) {
      ::close(folder);
      return size == 0;
    }
    for (long begin = 0; begin < size;) {
      dirent64 entry{};
      std::size_t const most = std::min(sizeof entry, static_cast<std::size_t>(size - begin));
      std::memcpy(&entry, buffer + begin, most);
      int const fd = std::atoi(entry.d_name);  // 0 of "." and ".."
      if (fd > 0 && fd != folder) f(fd);
      begin += entry.d_reclen;
    }
  }
}

/// What close_range(first, last, flags) does, also where that system call is missing (Linux before 5.9; 5.11 for
/// CLOSE_RANGE_CLOEXEC) or refused (a seccomp filter).
void end_descriptors(unsigned first, unsigned last, bool at_exec) noexcept {
  if (first > last) return;
#ifdef SYS_close_range
  constexpr unsigned cloexec = 1U << 2U;  // CLOSE_RANGE_CLOEXEC
  if (::syscall(SYS_close_range, first, last, at_exec ? cloexec : 0U) == 0) return;
#endif
  auto const end = [&](int fd) {
    if (static_cast<unsigned>(fd) < first || static_cast<unsigned>(fd) > last) return;
    if (at_exec) {
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    } else {
      ::close(fd);
    }
  };
  if (for_each_open(end)) return;
  // No /proc either. No descriptor is above the limit, which may be very large.
  rlimit limit{};
  constexpr rlim_t most = 1U << 20U;
  rlim_t const all = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? std::min(limit.rlim_cur, most) : most;
  for (unsigned fd = first; fd < all && fd <= last; ++fd) end(static_cast<int>(fd));
}

}  // namespace

void fill_standard_streams() {
  // Each open takes the lowest number that is free. Standard output that is closed cannot be written, which a command
  // must notice.
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF)
      ::open("/dev/null", (fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) | O_CLOEXEC);
  }
}

sigset_t const& let_signals_in() noexcept {
  static sigset_t const before = [] {
    sigset_t none, old;
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, &old);
    return old;
  }();
  return before;
}

void keep_signals_out() noexcept {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

std::vector<int> inherited_descriptors() {
  std::vector<int> all;
  for_each_open([&](int fd) {
    int const flags = fd > 2 ? ::fcntl(fd, F_GETFD) : -1;
    if (flags != -1 && (flags & FD_CLOEXEC) == 0) all.push_back(fd);
  });
  return all;
}

// ----------------------------------------------------------------------------------------------- the terminal

terminal::terminal() : fd_{::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)} {}

terminal::~terminal() {
  if (fd_ >= 0) ::close(fd_);
}

bool terminal::is_mine() const noexcept { return is_of(::getpgrp()); }

bool terminal::is_of(pid_t group) const noexcept { return fd_ >= 0 && ::tcgetpgrp(fd_) == group; }

void terminal::give_to(pid_t group) const noexcept {
  if (fd_ < 0) return;
  signals_blocked const quiet;  // a group in the background would be stopped by TTOU
  ::tcsetpgrp(fd_, group);
}

void terminal::stop_here(bool group_too, bool wants_terminal) const noexcept {
  pid_t const target = group_too ? 0 : ::getpid();
  // The stop waits until the signals are let in again, and a shell that continues the group from here on takes it back.
  signals_blocked const quiet;
  ::kill(target, SIGTSTP);
  if (wants_terminal && is_mine()) ::kill(target, SIGCONT);
}

// ----------------------------------------------------------------------------------------------- the guardian

struct guardian::shared {
  explicit shared(time_point t) : deadline{t.time_since_epoch().count()} {}

  std::atomic<duration::rep> deadline;
  std::atomic<pid_t> group{0};
  std::atomic<bool> has_killed{false};
};

namespace {

/// The code of the guardian's process. Only what is safe after a fork with other threads.
template <class Shared>
[[noreturn]] void guard(Shared& page, int pipe) noexcept {
  ::prctl(PR_SET_NAME, "conch-guard");
  ::setsid();  // out of reach of the terminal, and of a kill of conch's group
  if (pipe > 0) end_descriptors(0, static_cast<unsigned>(pipe) - 1, false);
  end_descriptors(static_cast<unsigned>(pipe) + 1, UINT_MAX, false);
  int const timer = ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);  // as conch::clock
  for (;;) {
    duration const until{page.deadline.load()};
    if (pid_t const group = page.group.load(); group > 1 && conch::clock::now().time_since_epoch() >= until) {
      page.has_killed.store(true);  // first: conch may see the end of the group at once
      kill_group(group);
    }
    itimerspec when{};
    bool const passed = conch::clock::now().time_since_epoch() >= until;
    if (!passed) {
      when.it_value.tv_sec = until.count() / 1'000'000'000;
      when.it_value.tv_nsec = until.count() % 1'000'000'000;
    }
    // look again
    if (passed)
      when.it_value.tv_sec = static_cast<time_t>(conch::clock::now().time_since_epoch().count() / 1'000'000'000) + 1;
    ::timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, nullptr);
    pollfd wait[2]{{pipe, POLLIN, 0}, {timer, POLLIN, 0}};
    if (::poll(wait, 2, -1) < 0) continue;
    if (wait[0].revents != 0) {  // conch has ended
      kill_group(page.group.load());
      ::_exit(0);
    }
  }
}

}  // namespace

guardian::guardian(time_point deadline) {
  void* const page = ::mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) cannot("mmap");
  page_ = new (page) shared{deadline};
  static_assert(std::atomic<duration::rep>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) cannot("pipe");
  {
    signals_blocked const quiet;  // and for all of the guardian's life
    pid_ = ::fork();
    if (pid_ == 0) guard(*page_, ends[0]);
  }
  ::close(ends[0]);
  pipe_ = ends[1];
  if (pid_ < 0) cannot("fork");
}

guardian::~guardian() {
  ::close(pipe_);
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  ::munmap(page_, sizeof(shared));
}

void guardian::watch(pid_t group) noexcept { page_->group.store(group); }

bool guardian::has_killed() const noexcept { return page_->has_killed.load(); }

void guardian::set_deadline(time_point t) noexcept { page_->deadline.store(t.time_since_epoch().count()); }

// ----------------------------------------------------------------------------------------------- the child

namespace {

/// In the child, until it is another program. `report`: takes errno if that fails.
[[noreturn]] void become(char* const* command, child_options const& options, pid_t parent, int tty_of_group,
                         int report) noexcept {
  if (options.dies_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(exit_code::internal);  // it has ended before
  }
  ::setpgid(0, 0);
  // Here and not after the fork in conch: that may be killed when the command runs already, and has started others.
  if (options.watched_by != nullptr) options.watched_by->watch(::getpid());
  if (tty_of_group >= 0) ::tcsetpgrp(tty_of_group, ::getpid());
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction now {};
    // What conch was told to ignore, as by nohup, stays ignored. Handlers must not run in this process: they are
    // conch's.
    if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) ::signal(number, SIG_DFL);
  }
  if (options.ignores_children) ::signal(SIGCHLD, SIG_IGN);  // conch itself must not
  // Asio's sockets would be inherited: the server would keep the connection of a conch that is dead.
  end_descriptors(3, UINT_MAX, true);
  for (int const fd : options.descriptors) ::fcntl(fd, F_SETFD, 0);
  ::pthread_sigmask(SIG_SETMASK, &options.blocked, nullptr);
  ::execvp(command[0], command);
  int const why = errno;
  [[maybe_unused]] auto const written = ::write(report, &why, sizeof why);
  ::_exit(exit_code::not_found);
}

int exec_failure_of(int report) {
  int why = 0;
  ssize_t size = 0;
  do {
    size = ::read(report, &why, sizeof why);
  } while (size < 0 && errno == EINTR);
  return size == sizeof why ? why : 0;
}

}  // namespace

pid_t start_child(child_options const& options, terminal const& tty) {
  for (auto const& [name, value] : options.environment) {
    if (value.empty()) {
      ::unsetenv(name.c_str());
    } else {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  std::vector<char*> command;
  for (std::string const& word : options.command) command.push_back(const_cast<char*>(word.c_str()));
  command.push_back(nullptr);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) cannot("pipe");
  int const terminal_fd = options.gets_terminal ? ::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY) : -1;
  pid_t const parent = ::getpid();
  pid_t child = 0;
  {
    signals_blocked const quiet;
    child = ::fork();
    if (child == 0) become(command.data(), options, parent, terminal_fd, report[1]);
  }
  int const fork_failure = errno;
  ::close(report[1]);
  if (terminal_fd >= 0) ::close(terminal_fd);
  if (child < 0) {
    ::close(report[0]);
    errno = fork_failure;
    cannot("fork");
  }
  ::setpgid(child, child);  // as the child does: either may be first
  int const why = exec_failure_of(report[0]);
  ::close(report[0]);
  if (why == 0) return child;
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (tty.is_of(child)) tty.give_to(::getpgrp());
  int const code = why == ENOENT || why == ENOTDIR ? exit_code::not_found : exit_code::not_executable;
  throw failure{code, options.command.front() + ": " + std::strerror(why)};
}

int signal_group(pid_t group, int signal) noexcept { return ::kill(-group, signal) == 0 ? 0 : errno; }

bool group_is_there(pid_t group) noexcept { return ::kill(-group, 0) == 0 || errno == EPERM; }

void adopt_orphans() noexcept { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

}  // namespace conch::cli
