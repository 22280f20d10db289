// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/local_line.hpp"

namespace conch::engine {

/// The end of a hold: released, dropped, detached or lost.
class hold_ends {
 public:
  hold_ends(cohort_environment& on, reporter& reports, watchdog& dog, local_line& line) noexcept
      : on_{on},
        reporter_{reports},
        watchdog_{dog},
        line_{line} {}

  /// `tell`: a caller waits for on_released.
  void end(acquisition& a, bool reports, time_point now);
  void detach(acquisition& a, time_point now);
  void continue_detaching(lock_entry& e, time_point now);
  /// It could not be detached, or it is not known whether it is still ours.
  void end_detaching(acquisition& a, error_code why, time_point now);
  /// The timer of an entry: a renewal is due, or the hold is about to be lost, or has ended.
  void watch(lock_entry& e, time_point now);

 private:
  cohort_environment& on_;
  reporter& reporter_;
  watchdog& watchdog_;
  local_line& line_;
};

}  // namespace conch::engine
