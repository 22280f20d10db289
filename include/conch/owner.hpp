// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <memory>
#include <string>

namespace conch {

namespace detail {
struct owner_state;
using owner_ptr = std::shared_ptr<owner_state>;
}  // namespace detail

/// Who holds a reentrant_mutex. A coroutine has no identity of its own, as a thread has: it may move between threads, and
/// several may work on one thing. So the owner is an object that is handed on to whatever works under the lock.
///
/// Copies are the same owner. The same id in another process is the same owner as well.
///
/// Thread safety: distinct objects and copies: safe.
class owner {
 public:
  /// Nobody else: 128 random bits.
  owner();
  /// `id`: 1 to 64 bytes of any value. Throws boost::system::system_error: errc::invalid_name.
  explicit owner(std::string id);

  std::string const& id() const noexcept;

  /// Used by reentrant_mutex.
  detail::owner_ptr const& state() const noexcept { return state_; }

  friend bool operator==(owner const& a, owner const& b) noexcept { return a.id() == b.id(); }

 private:
  detail::owner_ptr state_;
};

}  // namespace conch
