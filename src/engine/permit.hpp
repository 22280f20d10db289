// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <boost/assert.hpp>

#include <cstdint>
#include <string>

namespace conch::engine {

/// The kind of a lock with several owners. Each owner has a permit: a share of a limit (lua/lib/permits.lua).
enum class permit_kind : char {
  none = 0,  // a mutex
  semaphore = 's',
  shared = 'r',     // a reader takes 1, a writer everything
  segments = 'g',   // each owner has its own segment
  reentrant = 'e',  // all permits belong to one conch::owner, in any process
};

/// Is this the letter of a kind? For numbers that come from outside.
constexpr bool is_lock_kind(std::int64_t letter) noexcept {
  return letter == 0 || letter == 's' || letter == 'r' || letter == 'g' || letter == 'e';
}

inline constexpr std::uint32_t most_permits = 1'000'000;  // also the greatest limit

/// The permit that one acquire wants or has.
struct permit {
  permit_kind kind = permit_kind::none;
  std::uint32_t limit = 0;   // of all permits together; it counts when the lock has no owner yet
  std::uint32_t weight = 0;  // the size of this permit
  std::uint32_t start = 0;   // where to begin to look for a free segment
  std::string detail = "-";  // for the server: see excluded_segments() and owner()
  bool all_free = false;     // of a semaphore: wants all that is free; the weight is 0 until it is known

  /// The segments that a striped lock must not choose, as ",3,7,"; "-": it may choose all.
  std::string const& excluded_segments() const noexcept {
    BOOST_ASSERT_MSG(kind != permit_kind::reentrant, "a reentrant lock has no segments");
    return detail;
  }
  /// The conch::owner that a reentrant lock is for, in hex.
  std::string const& owner() const noexcept {
    BOOST_ASSERT_MSG(kind == permit_kind::reentrant, "only a reentrant lock is for an owner");
    return detail;
  }

  explicit operator bool() const noexcept { return kind != permit_kind::none; }
  bool operator==(permit const&) const = default;
};

}  // namespace conch::engine
