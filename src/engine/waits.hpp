// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/local_line.hpp"

namespace conch::engine {

/// The end of a wait that was not granted: cancelled, timed out, or ended with the client.
class waits {
 public:
  waits(cohort_environment& on, lock_entries& entries, reporter& reports, local_line& line) noexcept
      : on_{on},
        entries_{entries},
        reporter_{reports},
        line_{line} {}

  void cancel(acquisition& a, cancel_type type, time_point now);
  void stop_waiting(acquisition& a, error_code why, cancel_type type, time_point now);
  /// It is not known yet whether the lock was granted meanwhile. The place is left in the background.
  void give_up_staying(acquisition& a, time_point now);

 private:
  time_point given_up_at(acquisition const& a, time_point now) const;
  error_code why_given_up(acquisition const& a, time_point now) const;

  cohort_environment& on_;
  lock_entries& entries_;
  reporter& reporter_;
  local_line& line_;
};

}  // namespace conch::engine
