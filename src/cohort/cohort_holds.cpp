// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
// The life of a hold: renewals, its loss, another lease, and how it leaves for another process.
#include "cohort/cohort.hpp"

#include <algorithm>
#include <utility>

namespace conch::engine {

/// The only way to set the deadline of a hold. Whoever has a copy of it is told of each later one.
void cohort::set_deadline(acquisition& a, time_point until) {
  bool const is_later = until > a.deadline();
  a.valid_until.store(until.time_since_epoch().count(), std::memory_order_release);
  if (is_later) shell_.on_renewed(a);
}

/// The whole validity of the present grant. A lease that is shorter than the one before it (of another coroutine, or the claim) has not
/// moved the deadline. Its validity counts back from the deadline.
duration cohort::validity_of(lock_entry const& e) const {
  place const& s = *e.place;
  duration const granted = deadline_of(e) - s.valid_from;
  return s.confirmed ? std::min(granted, backend_->validity(s.lease)) : granted;
}

time_point cohort::lose_at(lock_entry const& e) const {
  time_point const deadline = deadline_of(e);
  return deadline - std::min(settings_.stop_margin, validity_of(e) / 4);
}

/// Sets when to look at this hold again. A hold is renewed after a third of its validity, or with a full lease after `renew_every`. A claim
/// of 3 s is thus confirmed after 1 s: most holds are over by then and cost no second script. The time is rounded down to a grid of 1/64 of
/// the validity, so that renewals that are due together go together.
void cohort::schedule(lock_entry& e, time_point now) {
  place const& s = *e.place;
  duration const validity = validity_of(e);
  bool const full = s.confirmed && settings_.renew_every > duration::zero();
  duration const after = full ? std::min(settings_.renew_every, validity / 2) : validity / 3;
  duration const grid = std::max<duration>(validity / 64, milliseconds{1});
  time_point at = deadline_of(e) - validity + after;
  at -= at.time_since_epoch() % grid;
  e.renew_at = std::max(at, now);
  timers_.arm(e.watch, std::min(e.renew_at, lose_at(e)));
}

/// Why the hold whose watch has just fired was not renewed in time. Nobody could have done that while this process did not run.
std::string cohort::why_not_renewed(lock_entry const& e, time_point now) const {
  duration const late = now - e.watch.at();
  if (late < validity_of(e) / 4) return backend_->why_not_renewed(*e.place, now);
  return "this process had no time to renew it for " + std::to_string(whole_ms(late).count()) + " ms";
}

void cohort::watch(lock_entry& e, time_point now) {
  if (e.proving) {
    go_on_proving(e, now);
    return;
  }
  if (e.holder == nullptr) return;
  acquisition& a = *e.holder;
  place& s = *e.place;
  if (a.at == acquisition::phase::detaching && now >= lose_at(e)) {
    end_detaching(a, make_error_code(errc::lost), now);
    return;
  }
  if (a.at == acquisition::phase::lost || now >= lose_at(e)) {
    bool const was_to_last = s.renewable && now < s.renew_until;
    std::string const why = was_to_last ? why_not_renewed(e, now) : std::string{};
    if (a.at == acquisition::phase::holding) tell_lost(a, make_error_code(errc::lost, why), now);
    if (now < deadline_of(e)) {
      timers_.arm(e.watch, deadline_of(e));
      return;
    }
    // The hold is over, after its body had the margin. A renewal that was under way may have prolonged the lease: end it.
    e.holder = nullptr;
    a.lock = nullptr;
    give_back(e, nullptr, now);
    return;
  }
  if (is_over_after_lease(a, s)) s.renewable = false;
  if (now >= s.renew_until) s.renewable = false;
  if (s.renewable && now >= e.renew_at) {
    due_.push_back(&s);
    e.renew_at = now + std::max<duration>(s.lease / 30, milliseconds{20});
  }
  timers_.arm(e.watch, s.renewable ? std::min(e.renew_at, lose_at(e)) : lose_at(e));
}

void cohort::extend(acquisition& a, milliseconds lease, time_point now) {
  if (a.at == acquisition::phase::holding && now >= a.deadline()) tell_lost(a, make_error_code(errc::lost), now);
  if (a.at != acquisition::phase::holding) {
    shell_.on_extended(a, false, {});
    return;
  }
  lock_entry& e = *a.lock;
  place& s = *e.place;
  a.lease = s.lease = lease;
  time_point const until = now + backend_->validity(lease);
  a.extend_to = std::max(a.extend_to, until);
  timers_.arm(a.due, now + settings_.command_timeout);
  s.renewable = true;
  s.renew_until = std::max(s.renew_until, a.due.at());  // max_hold limits the watchdog, and this is asked for
  go_on_extending(e, now);
}

void cohort::watch_requests(acquisition& a, time_point now) {
  if (a.at != acquisition::phase::holding) return;
  if (a.lock->requested) {
    shell_.on_requested(a);
  } else {
    backend_->watch_requests(*a.lock->place, now);
  }
}

/// Ends the extension if the deadline has been reached. Otherwise a renewal is due: none is under way, or one that was written too early.
void cohort::go_on_extending(lock_entry& e, time_point now) {
  acquisition& a = *e.holder;
  if (e.place->deadline >= a.extend_to) {
    if (a.fixed) e.ends = std::max(deadline_of(e), a.extend_to);
    set_deadline(a, deadline_of(e));
    end_extension(a, true, {});
    schedule(e, now);
    return;
  }
  e.renew_at = now;
  timers_.arm(e.watch, now);
}

void cohort::end_extension(acquisition& a, bool is_held, error_code why) {
  if (!a.is_extending()) return;
  a.extend_to = time_point::min();
  a.due.cancel();
  if (is_held) {
    place& s = *a.lock->place;
    s.renew_until = watchdog_ends(a);
    if (a.fixed && (s.confirmed || s.deadline >= a.lock->ends)) s.renewable = false;  // as in deliver()
  }
  shell_.on_extended(a, is_held, why);
}

void cohort::detach(acquisition& a, time_point now) {
  if (a.at == acquisition::phase::holding && now >= a.deadline()) tell_lost(a, make_error_code(errc::lost), now);
  if (a.at != acquisition::phase::holding) {
    bool const lost = a.at == acquisition::phase::lost;
    end_hold(a, false, now);
    shell_.on_detached(a, make_error_code(lost ? errc::lost : errc::not_held));
    return;
  }
  end_extension(a, false, make_error_code(errc::not_held));
  lock_entry& e = *a.lock;
  place& s = *e.place;
  enter(a, acquisition::phase::detaching);
  count_end(a, observation::kind::detached, e.name, {}, now);
  set_deadline(a, time_point::min());
  a.detached_at = now;
  timers_.arm(a.due, now + settings_.command_timeout);
  e.ends = time_point::max();
  s.renewable = true;  // this once: whoever takes it over has the whole lease
  s.renew_until = std::max(s.renew_until, a.due.at());
  go_on_detaching(e, now);
}

/// The hold leaves when a renewal that was written after the call was answered. So nothing that this connection has still under way renews it
/// later, and a claim is a hold by then. One of the same moment may have been written before, with an earlier lease.
void cohort::go_on_detaching(lock_entry& e, time_point now) {
  acquisition& a = *e.holder;
  place& s = *e.place;
  bool const renewed = s.confirmed && s.heard_from >= a.detached_at && s.deadline >= a.detached_at + backend_->validity(s.lease);
  if (!renewed) {
    e.renew_at = now;
    timers_.arm(e.watch, now);
    return;
  }
  if (now >= s.deadline) {  // after a pause of this process
    end_detaching(a, make_error_code(errc::lost), now);
    return;
  }
  e.watch.cancel();
  std::erase(due_, &s);
  a.due.cancel();
  s.renewable = false;
  e.holder = nullptr;
  enter(a, acquisition::phase::over);
  shell_.on_detached(a, {});
  a.lock = nullptr;
  backend_->detach(s, now);
  ask_if_needed(e, now);
}

/// It could not be detached, or it is not known whether it is still ours.
void cohort::end_detaching(acquisition& a, error_code why, time_point now) {
  lock_entry* const e = a.lock;
  a.due.cancel();
  e->holder = nullptr;
  a.lock = nullptr;
  enter(a, acquisition::phase::over);
  shell_.on_detached(a, told(failed_task::kind::detaching, why, e->name));
  if (e->place->at == place::state::owned) give_back(*e, nullptr, now);
}

/// Of a hold, which is released, detached or lost.
void cohort::count_end(acquisition& a, observation::kind how, std::string_view name, error_code why, time_point now) {
  duration const held = now - a.granted;
  --stats_.held;
  stats_.hold.add(held);
  if (is_observed_) shell_.on_observed(a, {.what = how, .name = name, .at = now, .took = held, .why = why});
}

void cohort::tell_lost(acquisition& a, error_code why, time_point now) {
  enter(a, acquisition::phase::lost);
  set_deadline(a, time_point::min());
  a.lock->place->renewable = false;
  why = told(failed_task::kind::holding, why, a.lock->name);
  // What the servers still prolong by a late answer is nobody's.
  a.lock->ends = deadline_of(*a.lock);
  ++stats_.losses;
  count_end(a, observation::kind::lost, a.lock->name, why, now);
  shell_.on_lost(a, why);
  end_extension(a, false, {});
}

}  // namespace conch::engine
