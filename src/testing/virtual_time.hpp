// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/random.hpp"

#include <cstdint>
#include <ctime>
#include <limits>
#include <vector>

namespace conch::testing {

/// The time of a world, in nanoseconds since its beginning, and its random numbers. While it exists, its thread sees
/// them instead of the system's: clock_gettime (and with it all clocks of std::chrono and of conch), timerfd_settime
/// (the timers of Asio and of conch), getentropy and std::random_device. Other threads see the system's.
class virtual_time {
 public:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  /// Throws std::logic_error: the thread has one already, or the program is linked so that others do not see these
  /// functions.
  explicit virtual_time(std::uint64_t seed);
  ~virtual_time();
  virtual_time(virtual_time const&) = delete;
  virtual_time& operator=(virtual_time const&) = delete;

  std::int64_t now() const noexcept { return now_; }
  void advance_to(std::int64_t t) noexcept { now_ = t > now_ ? t : now_; }
  /// When the next timer is due.
  std::int64_t next_timer() const noexcept;
  /// Makes the descriptors of due timers readable.
  void fire_due();
  std::uint64_t next_number() noexcept { return random_.next(); }

  // ---- what the thread sees instead of the system
  static virtual_time* of_this_thread() noexcept;
  bool shows(clockid_t clock, timespec& t) const noexcept;
  void set_timer(int fd, std::int64_t value, bool is_absolute);
  void forget_timer(int fd);

 private:
  struct timer {
    int fd;
    std::int64_t at;
  };

  std::int64_t now_ = 0;
  random_numbers random_;
  std::vector<timer> timers_;  // in the order in which they were set: the numbers of descriptors decide nothing
};

}  // namespace conch::testing
