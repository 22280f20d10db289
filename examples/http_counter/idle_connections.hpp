#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace http_counter {

/// A pool of open connections. Thread-safe.
template <class Connection>
class idle_connections {
 public:
  using pointer = std::shared_ptr<Connection>;

  /// Returns the most recently used connection that is still open, or null.
  pointer take() {
    std::scoped_lock const guard(mutex_);
    while (!idle_.empty()) {
      pointer const last = std::move(idle_.back());
      idle_.pop_back();
      if (last->is_open()) {
        return last;
      }
    }
    return nullptr;
  }

  void give_back(pointer connection) {
    std::scoped_lock const guard(mutex_);
    idle_.push_back(std::move(connection));
  }

  void drop_all() {
    std::vector<pointer> dropped;
    {
      std::scoped_lock const guard(mutex_);
      dropped.swap(idle_);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<pointer> idle_;
};

}  // namespace http_counter
