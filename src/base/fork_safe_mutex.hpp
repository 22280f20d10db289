// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <mutex>

namespace conch {

/// A mutex that a child of a fork needs too, because what it guards belongs to the whole process. It is locked while
/// the process is copied: otherwise another thread of the parent could hold it then, and would not exist in the child
/// to unlock it. While a thread holds one, it must lock, make or destroy no other.
class fork_safe_mutex {
 public:
  CONCH_API fork_safe_mutex();
  CONCH_API ~fork_safe_mutex();
  fork_safe_mutex(fork_safe_mutex const&) = delete;
  fork_safe_mutex& operator=(fork_safe_mutex const&) = delete;

  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace conch
