// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <memory>
#include <string>
#include <utility>

namespace conch {

namespace detail {
struct owner_state;
using owner_ptr = std::shared_ptr<owner_state>;
}  // namespace detail

/// The identity that holds a reentrant_mutex or a reentrant_shared_mutex. A coroutine has no identity of its own as a
/// thread has: it may move between threads, and several may work on one task. So the owner is an object, which the code
/// under the lock passes on.
///
/// Copies are the same owner. For a reentrant_mutex the same id in another process is the same owner, too. For a
/// reentrant_shared_mutex it is another owner, as is another object with the same id.
///
/// Thread safety: distinct objects and copies: safe.
class owner {
 public:
  /// A new owner: its id is 128 random bits.
  CONCH_API owner();
  /// `id`: 1 to 64 bytes of any value. Throws boost::system::system_error: errc::invalid_name.
  CONCH_API explicit owner(std::string id);
  owner(owner const&) = default;             ///< A move copies: an owner that was moved from is still that owner.
  owner& operator=(owner const&) = default;  ///< The same.

  CONCH_API std::string const& id() const noexcept;  ///< Unique, or as given.

  explicit owner(detail::owner_ptr state) noexcept : state_{std::move(state)} {}  ///< Used by the locks.
  detail::owner_ptr const& state() const noexcept { return state_; }              ///< Used by the locks.

  friend bool operator==(owner const& a, owner const& b) noexcept { return a.id() == b.id(); }  ///< Are they one owner?

 private:
  detail::owner_ptr state_;
};

}  // namespace conch
