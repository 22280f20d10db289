// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <chrono>

namespace conch {

using duration = std::chrono::nanoseconds;

/// The clock of every deadline: it goes on while the machine sleeps (CLOCK_BOOTTIME on Linux,
/// std::chrono::steady_clock elsewhere), so a suspended laptop wakes up to holds that have expired.
struct clock {
  using duration = conch::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<clock, duration>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept;
};

using time_point = clock::time_point;

namespace detail {

/// `t + d`, or the end of time on the side where that lies beyond it: a user may wait for duration::max().
constexpr time_point later_by(time_point t, duration d) noexcept {
  if (d > duration::zero() && t > time_point::max() - d) return time_point::max();
  if (d < duration::zero() && t < time_point::min() - d) return time_point::min();
  return t + d;
}

}  // namespace detail

}  // namespace conch
