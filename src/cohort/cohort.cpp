// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cohort/cohort.hpp"

#include <algorithm>
#include <utility>

namespace conch::engine {

namespace {

lock_entry& entry_of(place& s) { return *static_cast<lock_entry*>(s.owner); }

}  // namespace

acquisition::acquisition()
    : due{this, [](void* self, time_point now) {
            auto& a = *static_cast<acquisition*>(self);
            a.in->overdue(a, now);
          }} {}

lock_entry::lock_entry(std::string lock_name, cohort& owner, permit const& share, bool is_single)
    : name{std::move(lock_name)}, in{owner}, single{is_single}, place{owner.backend_->make_place(name, share)}, watch{this,
                                                                                                                      [](void* self, time_point now) {
                                                                                                                        auto& e =
                                                                                                                            *static_cast<lock_entry*>(
                                                                                                                                self);
                                                                                                                        e.in.watch(e, now);
                                                                                                                      },
                                                                                                                      true} {
  place->owner = this;
}

namespace {

/// Refuses a permit that could never be given. A permit above the limit that this object knows is not refused: another limit may have been
/// set, and a request for more than the limit is given all of it.
error_code refused(permit const& p) {
  if (p.kind == permit_kind::segments && p.weight == 0) {
    return make_error_code(errc::invalid_config, "`but` names all of the " + std::to_string(p.limit) + " segments");
  }
  if (p.all_free || (p.weight >= 1 && p.weight <= most_permits)) return {};
  return make_error_code(errc::invalid_config, "count must be 1 to " + std::to_string(most_permits) + " permits, got " + std::to_string(p.weight));
}

}  // namespace

cohort::cohort(config const& settings, timer_queue& timers, acquisition_events& shell, statistics& stats)
    : settings_{settings}, timers_{timers}, shell_{shell}, stats_{stats}, is_observed_{settings.observer != nullptr || settings.top_k != 0},
      rest_{this, [](void* self, time_point now) { static_cast<cohort*>(self)->go_on_ending(now); }} {}

cohort::~cohort() {
  single_entries_.splice_back(unseen_);
  while (!single_entries_.empty()) delete &single_entries_.pop_front();
}

// ---------------------------------------------------------------------------------------------- the caller's side

void cohort::begin(acquisition& a, std::string_view name, time_point now) {
  ++stats_.acquires;
  ++stats_.waiting;
  a.in = this;
  a.asked = now;
  if (is_observed_) shell_.on_observed(a, {.what = observation::kind::waiting, .name = name, .at = now});
}

void cohort::acquire(acquisition& a, std::string_view name, time_point now) {
  begin(a, name, now);
  if (!a.once && a.until <= now) {
    // No time to wait: one complete attempt, which takes as long as it takes to connect and to send the script.
    a.once = a.busy_is_late = true;
    a.until = time_point::max();
  }
  if (closed_) {
    refuse(a, acquired::failed, make_error_code(errc::closed), name, now);
    return;
  }
  if (!backend_->offers().has(a.permit)) {
    refuse(a, acquired::failed, not_offered(backend_->offers(), a.permit), name, now);
    return;
  }
  bool const adopts = a.adopts != nullptr;
  if (adopts && !backend_->offers().adoption) {
    refuse(a, acquired::failed, not_offered(backend_->offers(), "async_adopt"), name, now);
    return;
  }
  if (error_code const why = a.permit ? refused(a.permit) : error_code{}) {
    refuse(a, acquired::failed, why, name, now);
    return;
  }
  lock_entry& e = a.permit || adopts ? new_single_entry(name, a.permit) : entry(name);
  a.lock = &e;
  if (adopts) a.once = true;  // it stands in no line
  // A neighbour here holds, asks or waits. A place that is being left has no waiter any more: the attempt follows the leave.
  bool const neighbour = e.holder != nullptr || !e.waiting.empty();
  bool const being_left = e.place->at == place::state::leaving;
  if (a.once && (neighbour || (e.place->at != place::state::idle && !being_left))) {
    refuse(a, acquired::busy, {}, name, now);
    return;
  }
  enter(a, acquisition::phase::waiting);
  e.waiting.push_back(a);
  if (a.until != time_point::max()) timers_.arm(a.due, a.until);
  ask_if_needed(e, now);
}

void cohort::administer(admin_request& i, admin_events& whose, time_point now) {
  if (backend_->offers().inspection) {
    backend_->administer(i, whose, now);
  } else {
    whose.on_admin_answered(i, {}, not_offered(backend_->offers(), i));
  }
}

void cohort::try_all(std::span<named_acquisition const> all, time_point now) {
  backend_->gather();
  bool behind = false;
  for (auto const& [a, name] : all) {
    if (behind) {
      begin(*a, name, now);
      refuse(*a, acquired::busy, {}, name, now);
    } else {
      acquire(*a, name, now);
      behind = a->at == acquisition::phase::over;  // it has ended at once: this process has the lock, or the acquire failed
    }
  }
  backend_->send_gathered(now);
}

void cohort::cancel(acquisition& a, cancel_type type, time_point now) {
  switch (a.at) {
    case acquisition::phase::waiting: stop_waiting(a, cancelled(), type, now); return;
    case acquisition::phase::staying:
      if (type == cancel_type::total) return;
      a.ending = why_given_up(a, now);
      if (type == cancel_type::partial) {
        lock_entry& e = *a.lock;
        a.ending = refusal(a, a.ending, e.name, now);
        observe_refusal(a, a.ending, e.name, now);
        a.unlink();
        enter(a, acquisition::phase::leaving);
        backend_->give_up(*e.place, &a, now);
        ask_if_needed(e, now);  // another waiter may have come since
      } else {
        finish(a, acquired::failed, a.ending, now);
      }
      return;
    case acquisition::phase::leaving:
      if (type == cancel_type::terminal) finish(a, acquired::failed, a.ending, now);
      return;
    default: return;  // too late: the lock was delivered, or the acquisition is over
  }
}

/// Ends a wait that has not led to a grant (see the table of docs/cancellation.md). The server is asked to act only if `a` is the last
/// waiter here for which the client stands in line.
void cohort::stop_waiting(acquisition& a, error_code why, cancel_type type, time_point now) {
  lock_entry& e = *a.lock;
  place& s = *e.place;
  bool const asked = s.at == place::state::asking || s.at == place::state::in_line;
  if (!asked || !e.waiting.has_one()) {
    finish(a, acquired::failed, why, now);
    if (e.proving && e.waiting.empty()) give_back(e, nullptr, now);  // nobody is left to hand it to
    else retire(e);
    return;
  }
  if (!s.written || type == cancel_type::terminal) {
    finish(a, acquired::failed, why, now);
    backend_->give_up(s, nullptr, now);
    retire(e);
    return;
  }
  why = refusal(a, why, e.name, now);
  a.ending = why;
  a.excused = false;
  timers_.arm(a.due, given_up_at(a, now));
  if (type == cancel_type::partial) {
    observe_refusal(a, why, e.name, now);
    a.unlink();
    enter(a, acquisition::phase::leaving);
    backend_->give_up(s, &a, now);
    retire(e);
  } else {
    enter(a, acquisition::phase::staying);
    backend_->leave_unless_granted(s, now);
  }
}

/// When an acquire that ends waits no longer for the server. A user's own bound is not exceeded by more than the answer that may be under way.
time_point cohort::given_up_at(acquisition const& a, time_point now) const {
  time_point const last = now + settings_.command_timeout;
  if (a.until == time_point::max()) return last;
  return std::min(last, std::max(a.until, now) + backend_->answers_within(*a.lock->place));
}

/// The server has not said whether the lock was granted meanwhile. The place is left in the background.
void cohort::give_up_staying(acquisition& a, time_point now) {
  // This timer itself comes late, after a pause of this process. The answers that have come in meanwhile are read first.
  duration const a_while = backend_->answers_within(*a.lock->place) / 4;
  if (now - a.due.at() > a_while && !std::exchange(a.excused, true)) {
    timers_.arm(a.due, now + a_while);
    return;
  }
  a.ending = why_given_up(a, now);
  finish(a, acquired::failed, a.ending, now);
}

/// The server may have answered since the wait was over, or may have been silent for longer.
error_code cohort::why_given_up(acquisition const& a, time_point now) const {
  return a.ending == cancelled() ? a.ending : backend_->too_late(*a.lock->place, now);
}

/// The timer of one acquisition: its wait has timed out, or the server has not answered in time.
void cohort::overdue(acquisition& a, time_point now) {
  switch (a.at) {
    case acquisition::phase::waiting: stop_waiting(a, backend_->too_late(*a.lock->place, now), cancel_type::total, now); return;
    // Its wait is over; a busy server does not make it longer.
    case acquisition::phase::staying: give_up_staying(a, now); return;
    case acquisition::phase::leaving: finish(a, acquired::failed, a.ending, now); return;
    case acquisition::phase::releasing:
      if (time_point const late = backend_->late_after(a); late > now) {
        timers_.arm(a.due, late);
        return;
      }
      {
        error_code const why = told(failed_task::kind::releasing, backend_->why_not_done(a), {});
        backend_->forget(a);
        enter(a, acquisition::phase::over);
        shell_.on_released(a, true, why);
      }
      return;
    case acquisition::phase::holding: end_extension(a, true, told(failed_task::kind::extending, backend_->no_answer(), a.lock->name)); return;
    case acquisition::phase::detaching: end_detaching(a, backend_->no_answer(), now); return;
    default: return;
  }
}

void cohort::release(acquisition& a, time_point now) { end_hold(a, true, now); }

void cohort::abandon(acquisition& a, time_point now) { end_hold(a, false, now); }

void cohort::end_hold(acquisition& a, bool tell, time_point now) {
  if (a.at == acquisition::phase::holding && now >= a.deadline()) tell_lost(a, make_error_code(errc::lost), now);
  bool const was_held = a.at == acquisition::phase::holding;
  if (a.is_extending()) end_extension(a, false, told(failed_task::kind::extending, make_error_code(errc::not_held), a.lock->name));
  lock_entry* const e = a.lock;
  bool const owns = e != nullptr && e->holder == &a;
  a.lock = nullptr;
  if (was_held) {
    ++stats_.releases;
    count_end(a, observation::kind::released, e->name, {}, now);
    set_deadline(a, time_point::min());
  }
  if (owns) e->holder = nullptr;

  if (was_held && can_hand_off(*e, now)) {
    enter(a, acquisition::phase::over);
    if (tell) shell_.on_released(a, true, {});
    if (is_proved(*e, now)) hand_off(*e, now);
    else prove(*e, now);
    return;
  }
  // The release of a valid hold waits for the server's answer. A release that comes too late has nothing to wait for.
  bool const answer = tell && was_held && owns;
  enter(a, answer ? acquisition::phase::releasing : acquisition::phase::over);
  if (answer) timers_.arm(a.due, now + settings_.command_timeout);
  if (tell && !answer) shell_.on_released(a, was_held, {});
  if (owns) give_back(*e, answer ? &a : nullptr, now);
}

void cohort::close(time_point now) {
  closed_ = end_waits_ = true;
  unseen_.splice_back(single_entries_);
  go_on_ending(now);
}

void cohort::give_back_everything(time_point now) {
  end_holds_ = true;
  if (end_waits_) return;  // the waits are ended first
  unseen_.splice_back(single_entries_);
  go_on_ending(now);
}

/// Ends a limited number of waits or holds in one turn, so that other handlers of the event loop do not wait for all of them.
void cohort::go_on_ending(time_point now) {
  constexpr std::size_t buckets_for_one = 16;  // an empty bucket costs little
  for (std::size_t left = in_one_turn * buckets_for_one; ending(); left -= std::min(left, end_one(now) ? buckets_for_one : 1)) {
    if (left == 0) {
      timers_.arm(rest_, in_next_turn(now));
      return;
    }
  }
}

/// Ends one wait or one hold. False: there was none in this entry or bucket.
bool cohort::end_one(time_point now) {
  if (!unseen_.empty()) {
    lock_entry& e = unseen_.pop_front();
    single_entries_.push_back(e);
    return end_something(e, now);
  }
  if (buckets_ != entries_.bucket_count()) {  // the table has grown since, and its entries have moved
    bucket_ = 0;
    buckets_ = entries_.bucket_count();
  }
  if (bucket_ < buckets_) {
    for (auto at = entries_.begin(bucket_); at != entries_.end(bucket_); ++at) {
      if (end_something(*at->second, now)) return true;
    }
    ++bucket_;
    return false;
  }
  bucket_ = buckets_ = 0;
  if (!std::exchange(end_waits_, false)) end_holds_ = false;
  if (end_holds_) unseen_.splice_back(single_entries_);
  return false;
}

/// Ends one wait or the hold of this entry; false if there is none. The entry may be gone after that.
bool cohort::end_something(lock_entry& e, time_point now) {
  if (end_waits_) {
    if (e.waiting.empty()) return false;
    acquisition& a = e.waiting.front();
    if (a.at == acquisition::phase::waiting) {
      stop_waiting(a, make_error_code(errc::closed), cancel_type::terminal, now);
    } else {
      finish(a, acquired::failed, make_error_code(errc::closed), now);
    }
    return true;
  }
  if (e.holder == nullptr && !e.proving) return false;
  if (e.holder == nullptr) {
    give_back(e, nullptr, now);
    return true;
  }
  acquisition& a = *e.holder;
  if (a.at == acquisition::phase::detaching) {
    end_detaching(a, make_error_code(errc::closed), now);
    return true;
  }
  if (a.at == acquisition::phase::holding) tell_lost(a, make_error_code(errc::closed), now);
  e.holder = nullptr;
  a.lock = nullptr;
  give_back(e, nullptr, now);
  return true;
}

bool cohort::idle() noexcept {
  if (ending()) return false;
  bool held = false;
  for_each_entry([&](lock_entry& e) { held = held || e.holder != nullptr || e.proving; });
  return !held;
}

/// The timers for losses and renewals come first: a thousand time-outs can wait for them.
void cohort::tick(time_point now) {
  timers_.run(now, in_one_turn);
  if (due_.empty()) return;
  std::sort(due_.begin(), due_.end(), [](place* a, place* b) { return a->deadline < b->deadline; });
  std::vector<place*> const due = std::move(due_);
  due_.clear();
  backend_->renew(due, now);
}

// ------------------------------------------------------------------------------------------------ the local line

void cohort::ask_if_needed(lock_entry& e, time_point now) {
  if (e.holder != nullptr || e.waiting.empty() || e.place->at != place::state::idle) {
    retire(e);
    return;
  }
  acquisition& first = e.waiting.front();
  e.place->origin = first.adopts ? first.adopts->origin : std::string{};
  e.observed_in_line = false;
  backend_->ask(*e.place, !first.once, first.lease, now);  // may end in failed, and destroy the entry
}

/// The client owns the lock: gives it to the first waiter in line.
void cohort::deliver(lock_entry& e, grant_path how, time_point now) {
  if (e.waiting.empty()) {
    backend_->release(*e.place, std::nullopt, nullptr, now);
    return;
  }
  acquisition& a = e.waiting.pop_front();
  place& s = *e.place;
  a.due.cancel();
  enter(a, acquisition::phase::holding);
  a.granted = now;
  // A fixed lease is over in time, also where the grant lasts longer: as a claim, or because another coroutine has asked for a longer lease.
  time_point const fixed_end = a.fixed ? now + backend_->validity(a.lease) : time_point::max();
  bool const is_long_enough = s.deadline >= fixed_end;
  e.ends = is_long_enough ? fixed_end : time_point::max();
  a.fence = s.fence * hand_offs_per_grant + e.hand_offs;
  if (a.permit.all_free) {
    a.permit.weight = s.segment;
  } else {
    a.segment = s.segment;
  }
  set_deadline(a, deadline_of(e));
  e.holder = &a;
  // The watch was set for the lease of the holder before.
  bool const other_lease = s.lease != a.lease;
  s.lease = a.lease;
  s.renewable = !(a.fixed && (s.confirmed || is_long_enough));
  s.renew_until = watchdog_ends(a);
  --stats_.waiting;
  ++stats_.held;
  stats_.wait.add(now - a.asked);
  if (is_observed_) shell_.on_observed(a, {.what = observation::kind::granted, .name = e.name, .at = now, .took = now - a.asked, .path = how});
  if (e.hand_offs == 0 || other_lease || !e.watch.armed()) schedule(e, now);  // one that was taken over begins with another index
  shell_.on_acquired(a, acquired::granted, {});
}

/// When the watchdog stops renewing a hold.
time_point cohort::watchdog_ends(acquisition const& a) {
  bool const ends = a.max_hold < time_point::max() - std::max(a.granted, time_point{});
  return ends ? a.granted + a.max_hold : time_point::max();
}

/// Is this a fixed lease that has begun? Then it is not renewed.
bool cohort::is_over_after_lease(acquisition const& a, place const& s) {
  return a.fixed && s.confirmed && !a.is_extending() && a.at != acquisition::phase::detaching;
}

/// May the next waiter get the lock in memory, without the server? Not if `local_slice` is over, because other clients may wait at the
/// server. Not if the token's index has reached its bound. Not if the lease is about to end: the next holder must have the margin once
/// before its loss is reported. Not if the next waiter wants a fixed lease, which must start anew.
bool cohort::can_hand_off(lock_entry& e, time_point now) {
  if (e.waiting.empty() || e.waiting.front().fixed || !e.place->renewable) return false;
  if (e.requested) return false;  // to let go is to let the others in
  if (now - e.slice_began >= settings_.local_slice || e.hand_offs + 1 >= hand_offs_per_grant) return false;
  time_point const lost_at = lose_at(e);
  return now + (deadline_of(e) - lost_at) < lost_at;
}

/// Has the server said just now that the lock is ours? A server that loses its data, or a lock that somebody deletes, tells nobody: who is granted
/// the lock then has a greater token than one that is handed on later. So nothing is handed on by an old word, nor without a connection.
bool cohort::is_proved(lock_entry const& e, time_point now) const {
  constexpr milliseconds lasts{5};  // the default of local_slice: a grant needs no second word for its slice
  return now - e.proved_at <= lasts && backend_->connected();
}

/// The next in the local line holds the lock from now on, by the grant that there is.
void cohort::hand_off(lock_entry& e, time_point now) {
  ++e.hand_offs;
  ++stats_.grants_local;
  deliver(e, grant_path::handed_off, now);
}

/// Asks the server first whether the lock is still ours. Nobody holds it meanwhile.
void cohort::prove(lock_entry& e, time_point now) {
  place& s = *e.place;
  e.proving = true;
  e.proof_repeated = false;
  e.proving_since = now;
  e.ends = s.renew_until = time_point::max();
  e.renew_at = now;
  timers_.arm(e.watch, now);
}

/// The question is due, or its answer late. Near the end of the grant the server is asked for a new one instead.
void cohort::go_on_proving(lock_entry& e, time_point now) {
  if (now >= lose_at(e)) {
    give_back(e, nullptr, now);
    return;
  }
  if (now >= e.renew_at) {
    due_.push_back(e.place.get());
    e.renew_at = now + std::max<duration>(e.place->lease / 30, milliseconds{20});
  }
  timers_.arm(e.watch, std::min(e.renew_at, lose_at(e)));
}

/// The lock is ours: of an answer to a question from before the release that is not known. The line may have changed meanwhile.
void cohort::proved(lock_entry& e, time_point now) {
  if (e.place->heard_from < e.proving_since) {
    // Nothing was asked while that answer was under way.
    if (!std::exchange(e.proof_repeated, true)) timers_.arm(e.watch, e.renew_at = now);
    return;
  }
  if (!can_hand_off(e, now)) {
    give_back(e, nullptr, now);
    return;
  }
  e.proving = false;
  e.watch.cancel();
  std::erase(due_, e.place.get());
  hand_off(e, now);
}

void cohort::give_back(lock_entry& e, receipt* r, time_point now) {
  e.watch.cancel();
  std::erase(due_, e.place.get());
  e.observed_in_line = e.proving = false;
  if (e.waiting.empty()) {
    backend_->release(*e.place, std::nullopt, r, now);
  } else {
    backend_->release(*e.place, e.waiting.front().lease, r, now);
  }
}

/// Ends an acquire that has not been granted, and has an entry.
void cohort::finish(acquisition& a, acquired how, error_code why, time_point now) {
  // Of one that leaves it was told when it began to leave: its entry may be gone.
  if (a.at == acquisition::phase::leaving) return end_ungranted(a, how, why);
  refuse(a, how, why, a.lock->name, now);
}

/// The one place where the cohort words an error.
error_code cohort::told(failed_task::kind what, error_code why, std::string_view name, duration after) const {
  if (!why) return why;
  if (why == errc::unreachable && cause_of(why).empty()) why = backend_->no_answer();
  return explained(why, {what, name, where_, after});
}

error_code cohort::refusal(acquisition const& a, error_code why, std::string_view name, time_point now) const {
  if (a.busy_is_late) return told(failed_task::kind::waiting, why, name);  // it was given no time
  return told(a.once ? failed_task::kind::trying : failed_task::kind::waiting, why, name, now - a.asked);
}

/// The same for one that has no entry yet.
void cohort::refuse(acquisition& a, acquired how, error_code why, std::string_view name, time_point now) {
  if (how == acquired::busy && a.busy_is_late) {
    how = acquired::failed;
    why = make_error_code(errc::timed_out);
  }
  why = refusal(a, why, name, now);
  observe_refusal(a, why, name, now);
  end_ungranted(a, how, why);
}

void cohort::observe_refusal(acquisition& a, error_code why, std::string_view name, time_point now) {
  if (!is_observed_) return;
  shell_.on_observed(a, {.what = observation::kind::not_granted, .name = name, .at = now, .took = now - a.asked, .why = why});
}

void cohort::end_ungranted(acquisition& a, acquired how, error_code why) {
  backend_->forget(a);
  a.unlink();
  a.due.cancel();
  enter(a, acquisition::phase::over);
  a.lock = nullptr;
  --stats_.waiting;
  if (how == acquired::busy) {
    ++stats_.tries_busy;
  } else if (why == errc::timed_out) {
    ++stats_.timeouts;
  } else if (why == cancelled()) {
    ++stats_.cancellations;
  } else {
    ++stats_.failures;
  }
  shell_.on_acquired(a, how, why);
}

// ---------------------------------------------------------------------------------------------- the servers' side

void cohort::granted(place& s, bool pushed, time_point now) {
  lock_entry& e = entry_of(s);
  ++(pushed ? stats_.grants_pushed : stats_.grants_replied);
  e.slice_began = e.proved_at = now;
  e.requested = false;
  adoption const* const adopted = e.waiting.empty() ? nullptr : e.waiting.front().adopts.get();
  e.hand_offs = adopted == nullptr ? 0 : adopted->first_index;
  if (timers_.next_urgent() <= now) {
    // After a pause of this process one of its holds may be over, and may have freed this permit. Its loss is reported before the new grant
    // is delivered.
    auto const tell = [&](lock_entry& other) {
      bool const over = other.holder != nullptr && other.holder->at == acquisition::phase::holding && now >= lose_at(other);
      if (over && other.name == e.name) tell_lost(*other.holder, make_error_code(errc::lost), now);
    };
    single_entries_.for_each(tell);
    unseen_.for_each(tell);
    if (auto const at = entries_.find(e.name); e.single && at != entries_.end()) tell(*at->second);
  }
  deliver(e, pushed ? grant_path::pushed : grant_path::answered, now);
}

void cohort::busy(place& s, time_point now) {
  lock_entry& e = entry_of(s);
  if (!e.waiting.empty() && e.waiting.front().once) {
    acquisition& a = e.waiting.front();
    bool const adopts = a.adopts != nullptr;  // the lock is not the origin's any more
    finish(a, adopts ? acquired::failed : acquired::busy, adopts ? make_error_code(errc::lost) : error_code{}, now);
  }
  ask_if_needed(e, now);
}

void cohort::queued(place& s, time_point now) {
  lock_entry& e = entry_of(s);
  if (e.waiting.empty() || std::exchange(e.observed_in_line, true)) return;
  if (is_observed_) shell_.on_observed(e.waiting.front(), {.what = observation::kind::queued, .name = e.name, .at = now});
}

void cohort::asked_again(place& s, retry_reason why, time_point now) {
  lock_entry& e = entry_of(s);
  if (e.waiting.empty()) return;
  if (is_observed_) shell_.on_observed(e.waiting.front(), {.what = observation::kind::retried, .name = e.name, .at = now, .again = why});
}

void cohort::left(place& s, time_point now) {
  lock_entry& e = entry_of(s);
  if (!e.waiting.empty() && e.waiting.front().at == acquisition::phase::staying) {
    acquisition& a = e.waiting.front();
    // How many replicas have it is known only now; and a server that was silent so far has answered.
    bool const has_answered = a.ending == errc::unreachable && backend_->connected();
    if (has_answered || a.ending == errc::not_replicated) a.ending = backend_->too_late(s, now);
    finish(a, acquired::failed, a.ending, now);
  }
  ask_if_needed(e, now);
}

void cohort::failed(place& s, error_code why, time_point now) {
  lock_entry& e = entry_of(s);
  while (!e.waiting.empty()) finish(e.waiting.front(), acquired::failed, why, now);
}

void cohort::attempt_failed(place& s, error_code why, time_point now) {
  lock_entry& e = entry_of(s);
  if (!e.waiting.empty() && e.waiting.front().once) finish(e.waiting.front(), acquired::failed, why, now);
  ask_if_needed(e, now);
}

void cohort::extended(place& s, time_point now) {
  lock_entry& e = entry_of(s);
  e.proved_at = now;
  if (e.proving) {
    proved(e, now);
    return;
  }
  if (e.holder == nullptr) return;
  acquisition& a = *e.holder;
  if (a.at == acquisition::phase::detaching) {
    go_on_detaching(e, now);
    return;
  }
  if (a.at != acquisition::phase::holding) {
    timers_.arm(e.watch, deadline_of(e));
    return;
  }
  if (is_over_after_lease(a, s)) {
    s.renewable = false;  // not after a reconnect either
    // The answer may be to what was asked before, with the lease of another coroutine.
    if (e.ends == time_point::max()) e.ends = now + backend_->validity(a.lease);
  }
  set_deadline(a, deadline_of(e));
  schedule(e, now);
  if (a.is_extending()) go_on_extending(e, now);
}

void cohort::renewal_failed(place&, time_point) {}  // the watchdog's retry is already scheduled

void cohort::lost(place& s, time_point now) {
  lock_entry& e = entry_of(s);
  e.watch.cancel();
  std::erase(due_, &s);
  e.proving = false;
  if (acquisition* const a = e.holder) {
    e.holder = nullptr;
    if (a->at == acquisition::phase::holding) tell_lost(*a, make_error_code(errc::lost), now);
    if (a->at == acquisition::phase::detaching) {
      end_detaching(*a, make_error_code(errc::lost), now);
    } else {
      a->lock = nullptr;
    }
  }
  ask_if_needed(e, now);
}

void cohort::requested(place& s, time_point) {
  lock_entry& e = entry_of(s);
  e.requested = true;
  if (e.holder != nullptr && e.holder->at == acquisition::phase::holding) shell_.on_requested(*e.holder);
}

void cohort::released(receipt& r, bool was_mine, error_code why, time_point now) {
  auto& a = static_cast<acquisition&>(r);
  if (a.at == acquisition::phase::leaving) {
    finish(a, acquired::failed, a.ending, now);
    return;
  }
  if (a.at != acquisition::phase::releasing) return;
  (void)now;
  a.due.cancel();
  enter(a, acquisition::phase::over);
  shell_.on_released(a, was_mine, told(failed_task::kind::releasing, why, {}));
}

// -------------------------------------------------------------------------------------------------- the entries

lock_entry& cohort::entry(std::string_view name) {
  auto const at = entries_.find(name);
  if (at != entries_.end()) return *at->second;
  if (spare_ && spare_.key() == name) return *entries_.insert(std::move(spare_)).position->second;
  static permit const of_one_owner;
  auto made = std::make_unique<lock_entry>(std::string{name}, *this, of_one_owner, false);
  std::string_view const key = made->name;
  return *entries_.emplace(key, std::move(made)).first->second;
}

lock_entry& cohort::new_single_entry(std::string_view name, permit const& permit) {
  auto* const made = new lock_entry{std::string{name}, *this, permit, true};
  single_entries_.push_back(*made);
  return *made;
}

place& cohort::make_permit_place(std::string_view name, permit const& permit) { return *new_single_entry(name, permit).place; }

template <class F>
void cohort::for_each_entry(F f) {
  for (auto& [name, e] : entries_) f(*e);
  single_entries_.for_each(f);
  unseen_.for_each(f);
}

place* cohort::find(std::string_view name) {
  auto const at = entries_.find(name);
  return at == entries_.end() ? nullptr : at->second->place.get();
}

place& cohort::find_or_make(std::string_view name) { return *entry(name).place; }

void cohort::settled(place& s) { retire(entry_of(s)); }

void cohort::retire(lock_entry& e) {
  place const& s = *e.place;
  if (e.holder != nullptr || !e.waiting.empty() || s.at != place::state::idle || s.references != 0) return;
  if (e.single) {
    delete &e;
  } else {
    e.watch.cancel();
    spare_ = entries_.extract(e.name);
  }
}

}  // namespace conch::engine
