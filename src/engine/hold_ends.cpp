// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/hold_ends.hpp"

#include <algorithm>
#include <utility>

namespace conch::engine {

void hold_ends::end(acquisition& a, bool reports, time_point now) {
  if (a.phase == acquisition_phase::holding && now >= a.deadline())
    watchdog_.report_lost(a, watchdog_.end_of(*a.lock, now), now);
  bool const was_held = a.phase == acquisition_phase::holding;
  bool const was_endangered = a.endangered;
  bool const was_lost = a.phase == acquisition_phase::lost;
  if (a.is_extending())
    watchdog_.end_extension(
        a, false, reporter_.explain(failed_task::kind::extending, make_error_code(errc::not_held), a.lock->name));
  lock_entry* const e = a.lock;
  bool const owns = e != nullptr && e->holder == &a;
  a.lock = nullptr;
  if (was_held) {
    ++on_.stats.releases;
    reporter_.count_end(a, observation::kind::released, e->name, {}, now);
    reporter_.set_deadline(a, time_point::min());
  }
  if (owns) e->holder = nullptr;

  if (was_held && line_.can_hand_off(*e, now)) {
    enter(a, acquisition_phase::over);
    if (reports) on_.shell.on_released(a, true, {});
    if (was_endangered) e->watch.cancel();  // the next holder was not told
    if (line_.is_proved(*e, now)) line_.hand_off(*e, now);
    else line_.prove(*e, now);
    return;
  }
  // The release of a valid hold waits for the server's answer. A release that comes too late has nothing to wait for.
  bool const answer = reports && was_held && owns;
  enter(a, answer ? acquisition_phase::releasing : acquisition_phase::over);
  if (answer) on_.timers.arm(a.due, now + on_.settings.command_timeout);
  if (reports && !answer) on_.shell.on_released(a, was_held, {});
  if (owns && was_lost) line_.give_back_lost(*e, now);
  else if (owns) line_.give_back(*e, answer ? &a : nullptr, now);
}

void hold_ends::watch(lock_entry& e, time_point now) {
  if (e.proving) {
    line_.continue_proving(e, now);
    return;
  }
  if (e.holder == nullptr) return;
  acquisition& a = *e.holder;
  place& p = *e.place;
  time_point const lose_at = watchdog_.lose_at(e);
  if (a.phase == acquisition_phase::detaching && now >= lose_at) {
    end_detaching(a, make_error_code(errc::lost), now);
    return;
  }
  if (a.phase == acquisition_phase::lost || now >= lose_at) {
    if (a.phase == acquisition_phase::holding) watchdog_.report_lost(a, watchdog_.end_of(e, now), now);
    if (now < deadline_of(e)) {
      on_.timers.arm(e.watch, deadline_of(e));
      return;
    }
    // The hold has ended, after its body had the margin. A renewal that was under way may have prolonged the lease: end
    // it.
    e.holder = nullptr;
    a.lock = nullptr;
    line_.give_back_lost(e, now);
    return;
  }
  if (watchdog::is_over_after_lease(a, p)) p.renewable = false;
  if (now >= p.renew_until) p.renewable = false;
  if (p.renewable && now >= e.renew_at) {
    if (!watchdog_.comes_later(e)) watchdog_.renew_soon(&p);
    e.renew_at = now + std::max<duration>(p.lease / 30, milliseconds{20});
  }
  if (p.renewable && watchdog_.is_early(e)) {  // every renewal that goes out in time
    on_.timers.arm(e.watch, std::min(e.renew_at, lose_at));
    return;
  }
  if (!a.endangered && watchdog_.is_endangered(e, now)) watchdog_.report_endangered(e, now);
  on_.timers.arm(e.watch, watchdog_.look_again_at(e, now));
}

void hold_ends::detach(acquisition& a, time_point now) {
  if (a.phase == acquisition_phase::holding && now >= a.deadline())
    watchdog_.report_lost(a, watchdog_.end_of(*a.lock, now), now);
  if (a.phase != acquisition_phase::holding) {
    bool const lost = a.phase == acquisition_phase::lost;
    end(a, false, now);
    on_.shell.on_detached(a, make_error_code(lost ? errc::lost : errc::not_held));
    return;
  }
  watchdog_.end_extension(a, false, make_error_code(errc::not_held));
  lock_entry& e = *a.lock;
  place& p = *e.place;
  enter(a, acquisition_phase::detaching);
  reporter_.count_end(a, observation::kind::detached, e.name, {}, now);
  reporter_.set_deadline(a, time_point::min());
  a.detached_at = now;
  on_.timers.arm(a.due, now + on_.settings.command_timeout);
  e.ends = time_point::max();
  p.renewable = true;  // once more, so that the next holder gets the whole lease
  p.renew_until = std::max(p.renew_until, a.due.at());
  continue_detaching(e, now);
}

/// The hold leaves when a renewal that was written after the call was answered. So nothing that this connection has
/// still under way renews it later, and a claim is a hold by then. One of the same moment may have been written before,
/// with an earlier lease.
void hold_ends::continue_detaching(lock_entry& e, time_point now) {
  acquisition& a = *e.holder;
  place& p = *e.place;
  bool const renewed =
      p.confirmed && p.heard_from >= a.detached_at && p.deadline >= a.detached_at + on_.servers->validity(p.lease);
  if (!renewed) {
    e.renew_at = now;
    on_.timers.arm(e.watch, now);
    return;
  }
  if (now >= p.deadline) {  // after a pause of this process
    end_detaching(a, make_error_code(errc::lost), now);
    return;
  }
  e.watch.cancel();
  watchdog_.not_due(&p);
  a.due.cancel();
  p.renewable = false;
  e.holder = nullptr;
  enter(a, acquisition_phase::over);
  on_.shell.on_detached(a, {});
  a.lock = nullptr;
  on_.servers->detach(p, now);
  line_.ask_if_needed(e, now);
}

void hold_ends::end_detaching(acquisition& a, error_code why, time_point now) {
  BOOST_ASSERT_MSG(a.phase == acquisition_phase::detaching, "a hold that does not detach ends so");
  lock_entry* const e = a.lock;
  a.due.cancel();
  e->holder = nullptr;
  a.lock = nullptr;
  enter(a, acquisition_phase::over);
  on_.shell.on_detached(a, reporter_.explain(failed_task::kind::detaching, why, e->name));
  if (e->place->state != place_state::owned) return;
  if (why == errc::lost) line_.give_back_lost(*e, now);
  else line_.give_back(*e, nullptr, now);
}

}  // namespace conch::engine
