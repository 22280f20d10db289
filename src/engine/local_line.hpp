// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/lock_entries.hpp"
#include "engine/reporter.hpp"
#include "engine/watchdog.hpp"

namespace conch::engine {

/// The order of the waiters of one client: which one is asked for, which one gets a grant, and whether it is handed on
/// in memory.
class local_line {
 public:
  local_line(cohort_environment& on, lock_entries& entries, reporter& reports, watchdog& dog) noexcept
      : on_{on},
        entries_{entries},
        reporter_{reports},
        watchdog_{dog} {}

  void ask_if_needed(lock_entry& e, time_point now);
  /// The client owns the lock: gives it to the first waiter in line.
  void deliver(lock_entry& e, grant_path how, time_point now);
  void give_back(lock_entry& e, receipt* r, time_point now);
  /// After a loss: gives it back, or leaves it at the server for config::lock_delay.
  void give_back_lost(lock_entry& e, time_point now);

  /// May the next waiter get the lock in memory, without the server?
  bool can_hand_off(lock_entry& e, time_point now);
  /// Has the server just confirmed that the lock is ours?
  bool is_proved(lock_entry const& e, time_point now) const;
  /// The next in the local line holds the lock from now on, by the grant that there is.
  void hand_off(lock_entry& e, time_point now);
  /// Asks the server first whether the lock is still ours. No coroutine holds it meanwhile.
  void prove(lock_entry& e, time_point now);
  /// The question is due, or its answer late.
  void continue_proving(lock_entry& e, time_point now);
  /// The server has confirmed that the lock is ours.
  void proved(lock_entry& e, time_point now);

 private:
  void end_watch(lock_entry& e);

  cohort_environment& on_;
  lock_entries& entries_;
  reporter& reporter_;
  watchdog& watchdog_;
};

}  // namespace conch::engine
