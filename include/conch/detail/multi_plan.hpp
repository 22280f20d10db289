// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/detail/api.hpp>
#include <conch/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace conch::detail {

/// The plan of a multi_lock: what it does next. No I/O, no clock. The operation in multi_lock.hpp and the simulator
/// carry it out.
class multi_plan {
 public:
  enum class step : std::uint8_t {
    wait,    // for waits_for(), until until(); with `once`: try it alone, which tells why it was not granted
    done,    // all are held
    busy,    // with `once`: not all were granted; give back what is held
    failed,  // with failure(); give back what is held
  };

  /// Indexes into `names` in the order of acquiring: that of the bytes of the names, each name once. Every multi_lock
  /// has this order, so that two with the same locks never wait for each other.
  CONCH_API static std::vector<std::size_t> in_order(std::vector<std::string_view> const& names);

  /// It begins with a try of all of them, which does not wait. `once`: it ends with that try, and one more of the first
  /// that was not taken, alone: an error inside the script for all of them is not an answer.
  CONCH_API multi_plan(std::size_t count, std::optional<time_point> until, bool once = false);

  /// One end for all tries and waits.
  CONCH_API std::optional<time_point> until() const noexcept;

  /// `granted`: the result of each try. Returns which holds to give back: all after the first busy one. Two multi_locks
  /// that kept them while they wait could wait for each other.
  CONCH_API std::vector<bool> tried(std::vector<bool> const& granted);
  /// The lock that it waited for is held.
  CONCH_API void granted();
  /// To be called after the tries and after each wait. `why`: the error of what failed. `valid`: all holds still are.
  /// After the end nothing more is waited for.
  CONCH_API step next(error_code why, bool cancelled, bool valid, time_point now);

  std::size_t waits_for() const noexcept { return waits_for_; }
  error_code failure() const noexcept { return failure_; }
  bool once() const noexcept { return once_; }

 private:
  std::vector<bool> held_;
  std::optional<time_point> until_;
  bool once_;
  std::size_t waits_for_ = 0;
  error_code failure_;
};

}  // namespace conch::detail
