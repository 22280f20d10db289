// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/watchdog.hpp"

#include "base/duration_text.hpp"

#include <algorithm>
#include <utility>

namespace conch::engine {

time_point watchdog::ends(acquisition const& a) {
  bool const is_bounded = a.max_hold < time_point::max() - std::max(a.granted, time_point{});
  return is_bounded ? a.granted + a.max_hold : time_point::max();
}

bool watchdog::is_over_after_lease(acquisition const& a, place const& p) {
  return a.fixed && p.confirmed && !a.is_extending() && a.phase != acquisition_phase::detaching;
}

/// The whole validity of the present grant. A lease that is shorter than the previous one (of another coroutine, or the
/// claim) has not moved the deadline. Its validity counts back from the deadline.
duration watchdog::validity_of(lock_entry const& e) const {
  place const& p = *e.place;
  duration const granted = deadline_of(e) - p.valid_from;
  return p.confirmed ? std::min(granted, on_.servers->validity(p.lease)) : granted;
}

time_point watchdog::lose_at(lock_entry const& e) const {
  time_point const deadline = deadline_of(e);
  return deadline - std::min(on_.settings.stop_margin, validity_of(e) / 4);
}

bool watchdog::comes_later(lock_entry const& e) const {
  return e.watch.has_rank(timer::rank::second) && !on_.servers->has_room_for_renewal(*e.place);
}

namespace {

/// Rounds down to 1/64 of the validity, so that what is due together is done together.
time_point on_grid(time_point when, duration validity) {
  return when - when.time_since_epoch() % std::max<duration>(validity / 64, milliseconds{1});
}

}  // namespace

/// A hold is renewed after a third of its validity, or with a full lease after `renew_every`. A claim of 3 s is thus
/// confirmed after 1 s: most holds have ended by then and cost no second script.
time_point watchdog::due_at(lock_entry const& e) const {
  duration const validity = validity_of(e);
  bool const full = e.place->confirmed && on_.settings.renew_every > duration::zero();
  duration const after = full ? std::min(on_.settings.renew_every, validity / 2) : validity / 3;
  return on_grid(deadline_of(e) - validity + after, validity);
}

void watchdog::schedule(lock_entry& e, time_point now) {
  e.renew_at = std::max(due_at(e), now);
  on_.timers.arm(e.watch, std::min(e.renew_at, lose_at(e)));
}

/// The first half of the time that is left is for more attempts, the other half for the holder.
time_point watchdog::late_at(lock_entry const& e) const {
  time_point const due = due_at(e);
  return on_grid(due + (lose_at(e) - due) / 2, validity_of(e));
}

/// Does the watchdog itself renew this hold? An extension has any hold renewed once, which is not the watchdog's.
bool watchdog::renews(lock_entry const& e, time_point now) const {
  acquisition const& a = *e.holder;
  bool const is_only_extended = a.is_extending() && (a.fixed || now >= ends(a));
  return a.phase == acquisition_phase::holding && e.place->renewable && !is_only_extended;
}

bool watchdog::is_endangered(lock_entry const& e, time_point now) const { return renews(e, now) && now >= late_at(e); }

time_point watchdog::look_again_at(lock_entry const& e, time_point now) const {
  time_point const end = lose_at(e);
  if (!e.place->renewable) return end;
  bool const may_be_late = renews(e, now) && !e.holder->endangered;
  return std::min({end, e.renew_at, may_be_late ? late_at(e) : end});
}

void watchdog::report_endangered(lock_entry& e, time_point now) {
  acquisition& a = *e.holder;
  BOOST_ASSERT_MSG(!a.endangered, "a hold that is endangered is reported as endangered again");
  place const& p = *e.place;
  duration const left = lose_at(e) - now;
  a.endangered = true;
  ++on_.stats.warnings;
  ++on_.stats.endangered;
  reporter_.observe(a, {.what = observation::kind::endangered, .name = e.name, .at = now, .took = left});
  on_.shell.on_endangered(a, {left, now - p.valid_from, on_.servers->why_not_renewed(p, now)});
}

void watchdog::report_safe_again(lock_entry& e, time_point now) {
  acquisition& a = *e.holder;
  BOOST_ASSERT_MSG(a.endangered, "a hold that was not endangered is safe again");
  a.endangered = false;
  --on_.stats.endangered;
  reporter_.observe(a, {.what = observation::kind::safe_again, .name = e.name, .at = now});
  on_.shell.on_safe_again(a);
}

error_code watchdog::end_of(lock_entry const& e, time_point now) const {
  acquisition const& a = *e.holder;
  place const& p = *e.place;
  auto const lost = [](std::string const& why) { return make_error_code(errc::lost, why); };
  if (!p.renewable || now >= p.renew_until)
    return lost(a.fixed ? "its lease is fixed, and has ended" : "max_hold has passed");
  // It could not be renewed while this process did not run.
  duration const late = now - e.watch.at();
  if (late < validity_of(e) / 4) {
    std::string const why = on_.servers->why_not_renewed(p, now);
    return lost(why.empty()
                    ? "its last confirmation is " + std::to_string(whole_ms(now - p.valid_from).count()) + " ms old"
                    : why);
  }
  return lost("this process had no time to renew it for " + ms_text(late));
}

void watchdog::extend(acquisition& a, milliseconds lease, time_point now) {
  if (a.phase == acquisition_phase::holding && now >= a.deadline()) report_lost(a, end_of(*a.lock, now), now);
  if (a.phase != acquisition_phase::holding) {
    on_.shell.on_extended(a, false, {});
    return;
  }
  lock_entry& e = *a.lock;
  place& p = *e.place;
  a.lease = p.lease = lease;
  time_point const until = now + on_.servers->validity(lease);
  a.extend_to = std::max(a.extend_to, until);
  on_.timers.arm(a.due, now + on_.settings.command_timeout);
  p.renewable = true;
  p.renew_until = std::max(p.renew_until, a.due.at());  // max_hold limits the watchdog, and this is asked for
  continue_extending(e, now);
}

void watchdog::watch_requests(acquisition& a, time_point now) {
  if (a.phase != acquisition_phase::holding) return;
  if (a.lock->requested) {
    on_.shell.on_requested(a);
  } else {
    on_.servers->watch_requests(*a.lock->place, now);
  }
}

void watchdog::continue_extending(lock_entry& e, time_point now) {
  acquisition& a = *e.holder;
  if (e.place->deadline >= a.extend_to) {
    if (a.fixed) e.ends = std::max(deadline_of(e), a.extend_to);
    reporter_.set_deadline(a, deadline_of(e));
    end_extension(a, true, {});
    schedule(e, now);
    return;
  }
  e.renew_at = now;
  on_.timers.arm(e.watch, now);
}

void watchdog::end_extension(acquisition& a, bool is_held, error_code why) {
  if (!a.is_extending()) return;
  a.extend_to = time_point::min();
  a.due.cancel();
  if (is_held) {
    place& p = *a.lock->place;
    p.renew_until = ends(a);
    if (a.fixed && (p.confirmed || p.deadline >= a.lock->ends)) p.renewable = false;  // as in line_.deliver()
  }
  on_.shell.on_extended(a, is_held, why);
}

void watchdog::report_lost(acquisition& a, error_code why, time_point now) {
  BOOST_ASSERT_MSG(a.lock != nullptr, "only a holder loses its lock");
  enter(a, acquisition_phase::lost);
  reporter_.set_deadline(a, time_point::min());
  a.lock->place->renewable = false;
  why = reporter_.explain(failed_task::kind::holding, why, a.lock->name);
  // A late answer may still extend the lease at the server. That time is not used.
  a.lock->ends = deadline_of(*a.lock);
  ++on_.stats.losses;
  reporter_.count_end(a, observation::kind::lost, a.lock->name, why, now);
  on_.shell.on_lost(a, why);
  end_extension(a, false, {});
}

void watchdog::renew_due(time_point now) {
  if (due_.empty()) return;
  std::sort(due_.begin(), due_.end(), [](place* a, place* b) { return a->deadline < b->deadline; });
  std::vector<place*> const due = std::move(due_);
  due_.clear();
  on_.servers->renew(due, now);
}

}  // namespace conch::engine
