// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstdint>
#include <string>

namespace conch::engine {

/// A lock with several owners: each has a part of a limit (lua/lib/permits.lua).
enum class permit_kind : char {
  none = 0,  // a mutex
  semaphore = 's',
  shared = 'r',     // a reader takes 1, a writer everything
  segments = 'g',   // each owner has a segment of its own
  reentrant = 'e',  // all parts are of one conch::owner, in whatever process
};

/// Of what comes from outside.
constexpr bool is_lock_kind(std::int64_t letter) noexcept { return letter == 0 || letter == 's' || letter == 'r' || letter == 'g' || letter == 'e'; }

/// What one acquire wants of such a lock.
struct permit {
  permit_kind kind = permit_kind::none;
  std::uint32_t limit = 0;              // of all parts together, for a lock that nobody owns
  std::uint32_t weight = 0;             // the size of this part
  std::uint32_t start = 0;              // where to begin to look for a free segment
  std::string excluded_segments = "-";  // segments that are not wanted, as ",3,7,"; of a reentrant lock: for whom

  explicit operator bool() const noexcept { return kind != permit_kind::none; }
};

}  // namespace conch::engine
