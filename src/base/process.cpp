// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/process.hpp"

#include "base/fork_safe_mutex.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace conch {

constinit std::atomic<std::uint64_t> made_here::number_of_process{1};

/// One for the whole process. It is never destroyed: a child may be made while the statics are.
class fork_registry {
 public:
  static fork_registry& of_this_process() {
    static fork_registry& one = *new fork_registry;
    return one;
  }

  void add(fork_safe_mutex& one) {
    std::lock_guard const guard{mutex_};
    held_.push_back(&one);
  }

  void remove(fork_safe_mutex& one) noexcept {
    std::lock_guard const guard{mutex_};
    std::erase(held_, &one);
  }

  void set(own_descriptor& d, int fd) noexcept {
    struct stat found {};
    bool const is_open = fd >= 0 && ::fstat(fd, &found) == 0;
    std::lock_guard const guard{mutex_};
    if (d.fd_ >= 0) unlink(d);
    d.fd_ = is_open ? fd : -1;
    if (!is_open) return;
    d.device_ = found.st_dev;
    d.file_ = found.st_ino;
    d.next_ = first_;
    if (first_ != nullptr) first_->previous_ = &d;
    first_ = &d;
  }

 private:
  fork_registry() { ::pthread_atfork(&before, &in_parent, &in_child); }

  void unlink(own_descriptor& d) noexcept {
    if (d.next_ != nullptr) d.next_->previous_ = d.previous_;
    if (d.previous_ != nullptr) d.previous_->next_ = d.next_;
    else first_ = d.next_;
    d.next_ = d.previous_ = nullptr;
  }

  static void before() {
    fork_registry& all = of_this_process();
    all.mutex_.lock();
    // cppcheck-suppress localMutex ; it points to another object's mutex, which both processes unlock after the fork
    for (fork_safe_mutex* const one : all.held_) one->lock();
  }
  static void in_parent() {
    fork_registry& all = of_this_process();
    for (fork_safe_mutex* const one : all.held_) one->unlock();
    all.mutex_.unlock();
  }
  static void in_child() {
    made_here::number_of_process.fetch_add(1, std::memory_order_relaxed);
    of_this_process().replace_all();
    in_parent();
  }

  /// Calls only what a child of a process with many threads may call.
  void replace_all() noexcept {
    int nothing = -1;
    for (own_descriptor const* d = first_; d != nullptr; d = d->next_) {
      struct stat found {};
      if (::fstat(d->fd_, &found) != 0 || found.st_dev != d->device_ || found.st_ino != d->file_) continue;
      if (nothing < 0) nothing = open_socket(AF_UNIX, SOCK_STREAM, 0);
      if (nothing < 0 || ::dup2(nothing, d->fd_) < 0) {
        ::close(d->fd_);
        continue;
      }
      ::fcntl(d->fd_, F_SETFD, FD_CLOEXEC);
      ::fcntl(d->fd_, F_SETFL, O_NONBLOCK);
    }
    if (nothing >= 0) ::close(nothing);
  }

  std::mutex mutex_;                 // guards what follows
  own_descriptor* first_ = nullptr;  // all that are open
  std::vector<fork_safe_mutex*> held_;
};

void leave_alone(void const* what) noexcept {
  static std::vector<void const*>& all = *new std::vector<void const*>;
  static fork_safe_mutex& guard = *new fork_safe_mutex;
  std::lock_guard const guarded{guard};
  all.push_back(what);
}

std::uint64_t this_process() noexcept {
  static bool const watches = (fork_registry::of_this_process(), true);
  (void)watches;
  return made_here::number_of_process.load(std::memory_order_relaxed);
}

void own_descriptor::is(int fd) noexcept {
  if (fd < 0 && fd_ < 0) return;
  fork_registry::of_this_process().set(*this, fd);
}

fork_safe_mutex::fork_safe_mutex() { fork_registry::of_this_process().add(*this); }

fork_safe_mutex::~fork_safe_mutex() { fork_registry::of_this_process().remove(*this); }

int open_socket(int family, int type, int protocol) noexcept {
#ifdef SOCK_CLOEXEC
  return ::socket(family, type | SOCK_CLOEXEC, protocol);
#else
  int const fd = ::socket(family, type, protocol);
  if (fd >= 0) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return fd;
#endif
}

}  // namespace conch
