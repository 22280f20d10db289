// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/lock_entry.hpp"
#include "engine/reporter.hpp"

#include <string>
#include <vector>

namespace conch::engine {

/// A hold while it lasts: when it is renewed, when its loss is reported, and another lease.
class watchdog {
 public:
  /// So many holds of a client are renewed before all later ones.
  static constexpr std::uint64_t renewed_first = 1'000;

  watchdog(cohort_environment& on, reporter& reports) noexcept : on_{on}, reporter_{reports} {}

  /// A hold that begins: one of the first of this client, or a later one? If it has more than can be renewed in time,
  /// it loses of the later ones.
  void rank(lock_entry& e) const noexcept {
    auto const r = on_.stats.held <= renewed_first ? timer::rank::first : timer::rank::second;
    if (e.watch.has_rank(r)) return;
    e.watch.cancel();
    e.watch.rank_is(r);
  }
  /// Must this hold postpone its renewal? Yes for a later hold while the server has enough to do: behind more, renewals
  /// of the first holds would be answered too late.
  bool comes_later(lock_entry const& e) const;
  /// Sets when to look at this hold again.
  void schedule(lock_entry& e, time_point now);
  /// When the loss is reported, if the hold is not renewed before.
  time_point lose_at(lock_entry const& e) const;
  /// Is this hold endangered? A renewal is due and has not succeeded, and half of the time from then to the report of
  /// the loss has passed. A hold that is not renewed ends as its holder has asked, and is never endangered.
  bool is_endangered(lock_entry const& e, time_point now) const;
  /// Is its next attempt surely before this hold can be endangered? Cheaper than to compute when that is: each renewal
  /// of many holds asks this.
  bool is_early(lock_entry const& e) const noexcept {
    // A hold is late at 0.51 of its validity or after, with `renew_every` at 0.34. The validity ends at the deadline,
    // and is not longer than what was granted.
    duration const granted = deadline_of(e) - e.place->valid_from;
    return e.renew_at <= e.place->valid_from + granted / (on_.settings.renew_every > duration::zero() ? 4 : 2);
  }
  /// When to look at this hold again while a renewal is due.
  time_point look_again_at(lock_entry const& e, time_point now) const;
  void report_endangered(lock_entry& e, time_point now);
  void report_safe_again(lock_entry& e, time_point now);
  /// When the watchdog stops renewing a hold.
  static time_point ends(acquisition const& a);
  /// Is this a fixed lease that has begun? Then it is not renewed.
  static bool is_over_after_lease(acquisition const& a, place const& p);

  /// To be renewed at the end of this tick.
  void renew_soon(place* s) { due_.push_back(s); }
  void not_due(place* s) { std::erase(due_, s); }
  void renew_due(time_point now);

  void extend(acquisition& a, milliseconds lease, time_point now);
  /// Ends the extension if the deadline has been reached. Otherwise a renewal is due: none is under way, or one that
  /// was written too early.
  void continue_extending(lock_entry& e, time_point now);
  void end_extension(acquisition& a, bool is_held, error_code why);
  void watch_requests(acquisition& a, time_point now);
  void report_lost(acquisition& a, error_code why, time_point now);
  /// Why the hold whose watch has just fired was not renewed in time.
  /// The error of a hold of ours that has reached its end, with the cause.
  error_code end_of(lock_entry const& e, time_point now) const;

 private:
  duration validity_of(lock_entry const& e) const;
  time_point due_at(lock_entry const& e) const;
  time_point late_at(lock_entry const& e) const;
  bool renews(lock_entry const& e, time_point now) const;

  cohort_environment& on_;
  reporter& reporter_;
  std::vector<place*> due_;
};

}  // namespace conch::engine
