// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <chrono>

namespace conch {

using duration = std::chrono::nanoseconds;  ///< A length of time.

/// The clock of every deadline: it goes on while the machine sleeps (CLOCK_BOOTTIME on Linux,
/// std::chrono::steady_clock elsewhere), so a suspended laptop wakes up to holds that have expired.
struct clock {
  using duration = conch::duration;                             ///< As of any clock: nanoseconds,
  using rep = duration::rep;                                    ///< how they are counted,
  using period = duration::period;                              ///< their unit,
  using time_point = std::chrono::time_point<clock, duration>;  ///< a moment,
  static constexpr bool is_steady = true;                       ///< and that it never goes back.

  CONCH_API static time_point now() noexcept;  ///< The present moment. Thread-safe.
};

using time_point = clock::time_point;  ///< A moment by conch::clock; not to be compared with another machine.

namespace detail {

/// `t + d`, or the end of time on the side where that lies beyond it: a user may wait for duration::max().
constexpr time_point later_by(time_point t, duration d) noexcept {
  if (d > duration::zero() && t > time_point::max() - d) return time_point::max();
  if (d < duration::zero() && t < time_point::min() - d) return time_point::min();
  return t + d;
}

}  // namespace detail

}  // namespace conch
