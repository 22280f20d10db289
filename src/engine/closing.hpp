// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/hold_ends.hpp"
#include "engine/lock_entries.hpp"
#include "engine/waits.hpp"

namespace conch::engine {

/// The end of a client: ends all waits, then all holds, in turns.
class closing {
 public:
  closing(cohort_environment& on, lock_entries& entries, reporter& reports, watchdog& dog, local_line& line,
          waits& all_waits, hold_ends& ends) noexcept
      : on_{on},
        entries_{entries},
        reporter_{reports},
        watchdog_{dog},
        line_{line},
        waits_{all_waits},
        ends_{ends},
        rest_{this, call<&closing::end_some>} {}

  void close(time_point now);
  void give_back_everything(time_point now);
  bool is_under_way() const noexcept { return end_waits_ || end_holds_; }
  /// Are no new waits accepted?
  bool is_closed() const noexcept { return closed_; }

 private:
  void end_some(time_point now);
  bool end_one(time_point now);
  bool end_something(lock_entry& e, time_point now);

  cohort_environment& on_;
  lock_entries& entries_;
  reporter& reporter_;
  watchdog& watchdog_;
  local_line& line_;
  waits& waits_;
  hold_ends& ends_;
  bool closed_ = false;
  bool end_waits_ = false, end_holds_ = false;
  timer rest_;
};

}  // namespace conch::engine
