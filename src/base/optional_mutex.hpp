// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <mutex>

namespace conch {

/// A mutex, unless the settings say that one thread does everything.
class optional_mutex {
 public:
  explicit optional_mutex(bool needed) noexcept : needed_{needed} {}
  void lock() {
    if (needed_) mutex_.lock();
  }
  void unlock() {
    if (needed_) mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  bool const needed_;
};

}  // namespace conch
