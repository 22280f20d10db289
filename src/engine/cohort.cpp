// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/cohort.hpp"

#include "base/turns.hpp"

#include <string>
#include <utility>

namespace conch::engine {

namespace {

lock_entry& entry_of(place& p) { return *static_cast<lock_entry*>(p.owner); }

}  // namespace

acquisition::acquisition() : due{this, [](acquisition& a, time_point now) { a.in->overdue(a, now); }} {}

lock_entry::lock_entry(std::string lock_name, cohort& owner, backend& servers, permit const& share, bool is_single)
    : name{std::move(lock_name)},
      in{owner},
      single{is_single},
      place{servers.make_place(name, share)},
      watch{this, [](lock_entry& e, time_point now) { e.in.watch(e, now); }, timer::rank::first} {
  place->owner = this;
}

namespace {

/// Refuses a permit that could never be given. A permit above the limit that this object knows is not refused: another
/// limit may have been set, and a request for more than the limit is given all of it.
error_code refused(permit const& p) {
  if (p.kind == permit_kind::segments && p.weight == 0) {
    return make_error_code(errc::invalid_config, "`but` names all of the " + std::to_string(p.limit) + " segments");
  }
  if (p.all_free || (p.weight >= 1 && p.weight <= most_permits)) return {};
  return make_error_code(errc::invalid_config, "count must be 1 to " + std::to_string(most_permits) + " permits, got " +
                                                   std::to_string(p.weight));
}

}  // namespace

cohort::cohort(config const& settings, timer_queue& timers, acquisition_events& shell, statistics& stats)
    : on_{settings, timers, shell, stats, settings.observer != nullptr || settings.top_k != 0},
      entries_{on_, *this},
      reporter_{on_},
      watchdog_{on_, reporter_},
      line_{on_, entries_, reporter_, watchdog_},
      waits_{on_, entries_, reporter_, line_},
      ends_{on_, reporter_, watchdog_, line_},
      closing_{on_, entries_, reporter_, watchdog_, line_, waits_, ends_} {}

// ---------------------------------------------------------------------------------------------- the caller's side

void cohort::acquire(acquisition& a, std::string_view name, time_point now) {
  reporter_.begin(a, *this, name, now);
  if (!a.once && a.until <= now) {
    // No time to wait: one complete attempt, which takes as long as it takes to connect and to send the script.
    a.once = a.busy_is_late = true;
    a.until = time_point::max();
  }
  if (closing_.is_closed()) {
    reporter_.refuse(a, acquired::failed, make_error_code(errc::closed), name, now);
    return;
  }
  if (!on_.servers->offers().has(a.permit)) {
    reporter_.refuse(a, acquired::failed, not_offered(on_.servers->offers(), a.permit), name, now);
    return;
  }
  bool const adopts = a.adopts != nullptr;
  if (adopts && !on_.servers->offers().adoption) {
    reporter_.refuse(a, acquired::failed, not_offered(on_.servers->offers(), "async_adopt"), name, now);
    return;
  }
  if (a.at_least > milliseconds{} && (a.permit || !on_.servers->offers().intervals)) {
    error_code const why =
        a.permit ? make_error_code(errc::not_supported, "acquire_options::at_least of a lock that is not a mutex")
                 : not_offered(on_.servers->offers(), "acquire_options::at_least");
    reporter_.refuse(a, acquired::failed, why, name, now);
    return;
  }
  if (error_code const why = a.permit ? refused(a.permit) : error_code{}) {
    reporter_.refuse(a, acquired::failed, why, name, now);
    return;
  }
  lock_entry& e = a.permit || adopts ? entries_.make_single(name, a.permit) : entries_.get(name);
  a.lock = &e;
  if (adopts) a.once = true;  // it is in no queue
  // A neighbour here holds, asks or waits. A place that is being left has no waiter any more: the attempt follows the
  // leave.
  bool const neighbour = e.holder != nullptr || !e.waiting.empty();
  bool const being_left = e.place->state == place_state::leaving;
  if (a.once && (neighbour || (e.place->state != place_state::idle && !being_left))) {
    reporter_.refuse(a, acquired::busy, {}, name, now);
    return;
  }
  enter(a, acquisition_phase::waiting);
  e.waiting.push_back(a);
  if (a.until != time_point::max()) on_.timers.arm(a.due, first_alarm(a, now));
  line_.ask_if_needed(e, now);
}

/// The end of its wait, or for a long wait a moment shortly before, when the cohort asks for the holder.
time_point cohort::first_alarm(acquisition const& a, time_point now) const {
  constexpr duration shortest_wait = std::chrono::seconds{1}, before_the_end = milliseconds{200};
  return on_.holders != nullptr && a.until - now >= shortest_wait ? a.until - before_the_end : a.until;
}

void cohort::administer(admin_request& i, admin_events& whose, time_point now) {
  if (on_.servers->offers().inspection) {
    on_.servers->administer(i, whose, now);
  } else {
    whose.on_admin_answered(i, {}, not_offered(on_.servers->offers(), i));
  }
}

void cohort::try_all(std::span<named_acquisition const> all, time_point now) {
  on_.servers->gather();
  bool behind = false;
  for (auto const& [a, name] : all) {
    if (behind) {
      reporter_.begin(*a, *this, name, now);
      reporter_.refuse(*a, acquired::busy, {}, name, now);
    } else {
      acquire(*a, name, now);
      // it has ended at once: this process has the lock, or the acquire failed
      behind = a->phase == acquisition_phase::over;
    }
  }
  on_.servers->send_gathered(now);
}

/// The timer of one acquisition: its wait has timed out, or the server has not answered in time.
void cohort::overdue(acquisition& a, time_point now) {
  switch (a.phase) {
    case acquisition_phase::waiting:
      if (now < a.until) {
        on_.timers.arm(a.due, a.until);
        on_.holders->ask(a.lock->name, now);
        return;
      }
      waits_.stop_waiting(a, on_.servers->too_late(*a.lock->place, now), cancel_type::total, now);
      return;
    // Its wait has ended; a busy server does not prolong it.
    case acquisition_phase::staying: waits_.give_up_staying(a, now); return;
    case acquisition_phase::leaving: reporter_.finish(a, acquired::failed, a.ending, now); return;
    case acquisition_phase::releasing:
      if (time_point const late = on_.servers->late_after(a); late > now) {
        on_.timers.arm(a.due, late);
        return;
      }
      {
        error_code const why = reporter_.explain(failed_task::kind::releasing, on_.servers->why_not_done(a), {});
        forget(a);
        enter(a, acquisition_phase::over);
        on_.shell.on_released(a, true, why);
      }
      return;
    case acquisition_phase::holding:
      watchdog_.end_extension(a, true,
                              reporter_.explain(failed_task::kind::extending, on_.servers->no_answer(), a.lock->name));
      return;
    case acquisition_phase::detaching: ends_.end_detaching(a, on_.servers->no_answer(), now); return;
    default: return;
  }
}

bool cohort::idle() noexcept {
  if (closing_.is_under_way()) return false;
  bool held = false;
  entries_.for_each([&](lock_entry& e) { held = held || e.holder != nullptr || e.proving; });
  return !held;
}

/// The timers for losses and renewals come first: a thousand time-outs can wait for them.
void cohort::tick(time_point now) {
  on_.timers.run(now, in_one_turn);
  watchdog_.renew_due(now);
}

// ---------------------------------------------------------------------------------------------- the servers' side

void cohort::granted(place& p, bool pushed, time_point now) {
  lock_entry& e = entry_of(p);
  ++(pushed ? on_.stats.grants_pushed : on_.stats.grants_replied);
  e.slice_began = e.proved_at = now;
  e.requested = false;
  adoption const* const adopted = e.waiting.empty() ? nullptr : e.waiting.front().adopts.get();
  e.hand_offs = adopted == nullptr ? 0 : adopted->first_index;
  if (on_.timers.next_urgent() <= now) {
    // After a pause of this process one of its holds may be over, and may have freed this permit. Its loss is reported
    // before the new grant is delivered.
    auto const end_if_over = [&](lock_entry& other) {
      bool const over = other.holder != nullptr && other.holder->phase == acquisition_phase::holding &&
                        now >= watchdog_.lose_at(other);
      if (over && other.name == e.name) watchdog_.report_lost(*other.holder, watchdog_.end_of(other, now), now);
    };
    entries_.for_each_single(end_if_over);
    if (lock_entry* const named = entries_.find(e.name); e.single && named != nullptr) end_if_over(*named);
  }
  line_.deliver(e, pushed ? grant_path::pushed : grant_path::answered, now);
}

void cohort::busy(place& p, time_point now) {
  lock_entry& e = entry_of(p);
  if (!e.waiting.empty() && e.waiting.front().once) {
    acquisition& a = e.waiting.front();
    bool const adopts = a.adopts != nullptr;  // the lock is not the origin's any more
    reporter_.finish(a, adopts ? acquired::failed : acquired::busy, adopts ? make_error_code(errc::lost) : error_code{},
                     now);
  }
  line_.ask_if_needed(e, now);
}

void cohort::queued(place& p, time_point now) {
  lock_entry& e = entry_of(p);
  if (e.waiting.empty() || std::exchange(e.observed_in_line, true)) return;
  reporter_.observe(e.waiting.front(), {.what = observation::kind::queued, .name = e.name, .at = now});
}

void cohort::asked_again(place& p, retry_reason why, time_point now) {
  lock_entry& e = entry_of(p);
  if (e.waiting.empty()) return;
  reporter_.observe(e.waiting.front(), {.what = observation::kind::retried, .name = e.name, .at = now, .again = why});
}

void cohort::left(place& p, time_point now) {
  lock_entry& e = entry_of(p);
  if (!e.waiting.empty() && e.waiting.front().phase == acquisition_phase::staying) {
    acquisition& a = e.waiting.front();
    // How many replicas have it is known only now; and a server that was silent so far has answered.
    bool const has_answered = a.ending == errc::unreachable && on_.servers->connected();
    if (has_answered || a.ending == errc::not_replicated) a.ending = on_.servers->too_late(p, now);
    reporter_.finish(a, acquired::failed, a.ending, now);
  }
  line_.ask_if_needed(e, now);
}

void cohort::failed(place& p, error_code why, time_point now) {
  lock_entry& e = entry_of(p);
  while (!e.waiting.empty()) reporter_.finish(e.waiting.front(), acquired::failed, why, now);
}

void cohort::attempt_failed(place& p, error_code why, time_point now) {
  lock_entry& e = entry_of(p);
  if (!e.waiting.empty() && e.waiting.front().once) reporter_.finish(e.waiting.front(), acquired::failed, why, now);
  line_.ask_if_needed(e, now);
}

void cohort::extended(place& p, time_point now) {
  lock_entry& e = entry_of(p);
  e.proved_at = now;
  if (e.proving) {
    line_.proved(e, now);
    return;
  }
  if (e.holder == nullptr) return;
  acquisition& a = *e.holder;
  if (a.phase == acquisition_phase::detaching) {
    ends_.continue_detaching(e, now);
    return;
  }
  if (a.phase != acquisition_phase::holding) {
    on_.timers.arm(e.watch, deadline_of(e));
    return;
  }
  if (watchdog::is_over_after_lease(a, p)) {
    p.renewable = false;  // not after a reconnect either
    // The answer may be to what was asked before, with the lease of another coroutine.
    if (e.ends == time_point::max()) e.ends = now + on_.servers->validity(a.lease);
  }
  reporter_.set_deadline(a, deadline_of(e));
  watchdog_.schedule(e, now);
  if (a.endangered && !watchdog_.is_endangered(e, now)) watchdog_.report_safe_again(e, now);
  if (a.is_extending()) watchdog_.continue_extending(e, now);
}

void cohort::renewal_failed(place&, time_point) {}  // the watchdog's retry is already scheduled

void cohort::lost(place& p, time_point now) {
  lock_entry& e = entry_of(p);
  e.watch.cancel();
  watchdog_.not_due(&p);
  e.proving = false;
  if (acquisition* const a = e.holder) {
    e.holder = nullptr;
    auto const why =
        "it is not this client's any more: its lease or session has expired, an operator has released it, or the "
        "server has lost its data";
    if (a->phase == acquisition_phase::holding) watchdog_.report_lost(*a, make_error_code(errc::lost, why), now);
    if (a->phase == acquisition_phase::detaching) {
      ends_.end_detaching(*a, make_error_code(errc::lost), now);
    } else {
      a->lock = nullptr;
    }
  }
  line_.ask_if_needed(e, now);
}

void cohort::requested(place& p, time_point) {
  lock_entry& e = entry_of(p);
  e.requested = true;
  if (e.holder != nullptr && e.holder->phase == acquisition_phase::holding) on_.shell.on_requested(*e.holder);
}

void cohort::released(receipt& r, bool was_mine, error_code why, time_point now) {
  auto& a = static_cast<acquisition&>(r);
  if (a.phase == acquisition_phase::leaving) {
    reporter_.finish(a, acquired::failed, a.ending, now);
    return;
  }
  if (a.phase != acquisition_phase::releasing) return;
  a.due.cancel();
  enter(a, acquisition_phase::over);
  on_.shell.on_released(a, was_mine, reporter_.explain(failed_task::kind::releasing, why, {}));
}

// -------------------------------------------------------------------------------------------------- the entries

place* cohort::find(std::string_view name) {
  lock_entry* const e = entries_.find(name);
  return e == nullptr ? nullptr : e->place.get();
}

void cohort::settled(place& p) { entries_.retire(entry_of(p)); }

}  // namespace conch::engine
