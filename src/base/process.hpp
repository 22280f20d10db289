// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <atomic>
#include <cstdint>

#include <sys/types.h>

// What a fork copies and a child must not use: connections, timers, holds. The parent keeps all of it; the child leaves
// alone what it has inherited.
namespace conch {

/// A number for this process. A child of a fork has another one than its parent.
CONCH_API std::uint64_t this_process() noexcept;

/// Remembers the process that made something.
class made_here {
 public:
  made_here() noexcept : process_{this_process()} {}
  /// False in a child that has inherited it. One load: every operation of a client asks several times.
  bool is_here() const noexcept { return process_ == number_of_process.load(std::memory_order_relaxed); }

 private:
  friend std::uint64_t this_process() noexcept;
  friend class fork_registry;
  // each child has a greater one, if this_process() was called before the fork
  CONCH_API static std::atomic<std::uint64_t> number_of_process;

  std::uint64_t process_;
};

/// A descriptor of a connection or a timer that the parent alone may use. The child's copy is replaced, before fork()
/// returns there, by one that is connected to nothing: later reads and writes reach no peer.
class own_descriptor {
 public:
  own_descriptor() noexcept = default;
  own_descriptor(own_descriptor const&) = delete;
  own_descriptor& operator=(own_descriptor const&) = delete;
  ~own_descriptor() { is(-1); }

  /// From now on it is this one; -1: none. To be called before the old one is closed.
  CONCH_API void is(int fd) noexcept;

 private:
  friend class fork_registry;

  int fd_ = -1;
  dev_t device_ = 0;  // what the number meant: it may be another file by the time of the fork
  ino_t file_ = 0;
  own_descriptor* next_ = nullptr;
  own_descriptor* previous_ = nullptr;
};

/// Keeps what a child has inherited and must not destroy, since threads that do not exist there may be at work on it.
/// Checkers of leaks find it here.
void leave_alone(void const* what) noexcept;

/// A socket that a program which is executed does not inherit; -1 with errno set. Its flag is there from the beginning:
/// another thread may fork and execute at any moment.
CONCH_API int open_socket(int family, int type, int protocol) noexcept;

}  // namespace conch
