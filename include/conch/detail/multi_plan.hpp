// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace conch::detail {

/// What a multi_lock does next: no I/O, no clock. The operation in multi_lock.hpp carries it out, and so does the simulator.
class multi_plan {
 public:
  enum class step : std::uint8_t {
    wait,    // for waits_for(), until until(); one attempt only: tries it alone, which says why it was not to be had
    done,    // all are held
    busy,    // one attempt only, and not all were to be had: what is held is given back
    failed,  // with failure(); what is held is given back
  };

  /// Places in `names` in the order in which they are acquired, whoever asks: that of their bytes, each name once. Two that want
  /// the same locks never wait for each other.
  static std::vector<std::size_t> in_order(std::vector<std::string_view> const& names);

  /// Begins with a try of all of them, none of which waits: so nobody waits for us. `once`: and that is all, but for a try of
  /// the first that was not taken, alone: an error inside the script of all of them is no answer.
  multi_plan(std::size_t count, std::optional<time_point> until, bool once = false);

  /// One end for all tries and waits.
  std::optional<time_point> until() const noexcept;

  /// Which of them were granted. Answers which are to be given back: all behind the first that was busy. Holding them while it
  /// waits could make two wait for each other.
  std::vector<bool> tried(std::vector<bool> const& granted);
  /// What was waited for is held.
  void granted();
  /// After the tries, and after each wait. `why`: of what failed; `valid`: all that are held.
  step next(error_code why, bool cancelled, bool valid);

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
