// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/failure.hpp"
#include "engine/cohort_environment.hpp"
#include "engine/lock_entry.hpp"

#include <string_view>

namespace conch::engine {

/// Reports to the shell, the statistics and observers what has become of an acquisition, and words its error.
class reporter {
 public:
  explicit reporter(cohort_environment& on) noexcept : on_{on} {}

  void begin(acquisition& a, cohort& in, std::string_view name, time_point now);
  void observe(acquisition& a, observation const& what) {
    if (on_.is_observed) on_.shell.on_observed(a, what);
  }
  /// Ends an acquire that has not been granted, and has an entry.
  void finish(acquisition& a, acquired how, error_code why, time_point now);
  /// The same for one that has no entry yet.
  void refuse(acquisition& a, acquired how, error_code why, std::string_view name, time_point now);
  void observe_refusal(acquisition& a, error_code why, std::string_view name, time_point now);
  /// For a hold that is released, detached or lost.
  void count_end(acquisition& a, observation::kind how, std::string_view name, error_code why, time_point now);
  /// The only way to set the deadline of a hold. A later deadline is reported to all that keep a copy of it.
  void set_deadline(acquisition& a, time_point until) {
    bool const is_later = until > a.deadline();
    a.valid_until.store(until.time_since_epoch().count(), std::memory_order_release);
    if (is_later) on_.shell.on_renewed(a);
  }

  /// The one place where the cohort words an error.
  error_code explain(failed_task::kind what, error_code why, std::string_view name, duration after = duration::zero(),
                     std::string_view holder = {}) const;
  error_code refusal(acquisition const& a, error_code why, std::string_view name, time_point now) const;

 private:
  void end_ungranted(acquisition& a, acquired how, error_code why);

  cohort_environment& on_;
};

}  // namespace conch::engine
