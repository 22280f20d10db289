// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/local_line.hpp"

#include <algorithm>
#include <utility>

namespace conch::engine {

void local_line::ask_if_needed(lock_entry& e, time_point now) {
  if (e.holder != nullptr || e.waiting.empty() || e.place->state != place_state::idle) {
    entries_.retire(e);
    return;
  }
  acquisition& first = e.waiting.front();
  e.place->origin = first.adopts ? first.adopts->origin : std::string{};
  e.place->at_least = first.at_least;
  e.observed_in_line = false;
  on_.servers->ask(*e.place, !first.once, first.lease, now);  // may end in failed, and destroy the entry
}

void local_line::deliver(lock_entry& e, grant_path how, time_point now) {
  BOOST_ASSERT_MSG(e.holder == nullptr, "a lock with a holder is delivered");
  BOOST_ASSERT_MSG(e.place->state == place_state::owned, "a lock is delivered that the server has not granted");
  e.place->kept_until = time_point::min();
  // Another acquire may have asked for it, whose wait has ended, and for less than the next one wants.
  bool const none = e.waiting.empty();
  if (none || e.waiting.front().at_least > e.place->at_least) {
    on_.servers->release(*e.place, std::nullopt, nullptr, now);
    if (!none) ask_if_needed(e, now);
    return;
  }
  acquisition& a = e.waiting.pop_front();
  place& p = *e.place;
  if (a.at_least > milliseconds{}) p.kept_until = now + a.at_least + (a.at_least - on_.servers->validity(a.at_least));
  a.due.cancel();
  enter(a, acquisition_phase::holding);
  a.granted = now;
  // A fixed lease ends in time even if the grant lasts longer: as a claim, or because another coroutine has asked for a
  // longer lease.
  time_point const fixed_end = a.fixed ? now + on_.servers->validity(a.lease) : time_point::max();
  bool const is_long_enough = p.deadline >= fixed_end;
  e.ends = is_long_enough ? fixed_end : time_point::max();
  a.fence = p.fence * hand_offs_per_grant + e.hand_offs;
  if (a.permit.all_free) {
    a.permit.weight = p.chosen;
  } else {
    a.segment = p.chosen;
  }
  reporter_.set_deadline(a, deadline_of(e));
  e.holder = &a;
  // The watch was set for the lease of the holder before.
  bool const other_lease = p.lease != a.lease;
  p.lease = a.lease;
  p.renewable = !(a.fixed && (p.confirmed || is_long_enough));
  p.renew_until = watchdog::ends(a);
  --on_.stats.waiting;
  ++on_.stats.held;
  on_.stats.wait.add(now - a.asked);
  if (on_.is_observed)
    on_.shell.on_observed(
        a, {.what = observation::kind::granted, .name = e.name, .at = now, .took = now - a.asked, .path = how});
  if (e.hand_offs == 0) watchdog_.rank(e);
  // one that was taken over begins with another index
  if (e.hand_offs == 0 || other_lease || !e.watch.armed()) watchdog_.schedule(e, now);
  on_.shell.on_acquired(a, acquired::granted, {});
}

/// Not if `local_slice` has passed, because other clients may wait at the server. Not if the token's index has reached
/// its bound. Not if the lease is about to end: the next holder must have the margin once before its loss is reported.
/// Not if the next waiter wants a fixed lease, which must start anew. Not within a minimum interval, nor to a waiter
/// with one, which the server measures.
bool local_line::can_hand_off(lock_entry& e, time_point now) {
  if (e.waiting.empty() || e.waiting.front().fixed || !e.place->renewable) return false;
  if (now < e.place->kept_until || e.waiting.front().at_least > milliseconds{}) return false;
  if (e.requested) return false;  // to let go is to let the others in
  if (now - e.slice_began >= on_.settings.local_slice || e.hand_offs + 1 >= hand_offs_per_grant) return false;
  time_point const lost_at = watchdog_.lose_at(e);
  return now + (deadline_of(e) - lost_at) < lost_at;
}

/// A server that loses its data, or a lock that is deleted, notifies no client: the next client that is granted the
/// lock has a greater token than one that is handed on later. So nothing is handed on from stale knowledge, or without
/// a connection.
bool local_line::is_proved(lock_entry const& e, time_point now) const {
  constexpr milliseconds lasts{5};  // the default of local_slice: a grant needs no second word for its slice
  return now - e.proved_at <= lasts && on_.servers->connected();
}

void local_line::hand_off(lock_entry& e, time_point now) {
  ++e.hand_offs;
  ++on_.stats.grants_local;
  deliver(e, grant_path::handed_off, now);
}

void local_line::prove(lock_entry& e, time_point now) {
  BOOST_ASSERT_MSG(e.holder == nullptr && !e.waiting.empty(), "no waiter needs the proof");
  place& p = *e.place;
  e.proving = true;
  e.proof_repeated = false;
  e.proving_since = now;
  e.ends = p.renew_until = time_point::max();
  e.renew_at = now;
  on_.timers.arm(e.watch, now);
}

/// Near the end of the grant the server is asked for a new one instead.
void local_line::continue_proving(lock_entry& e, time_point now) {
  if (now >= watchdog_.lose_at(e)) {
    give_back(e, nullptr, now);
    return;
  }
  if (now >= e.renew_at) {
    watchdog_.renew_soon(e.place.get());
    e.renew_at = now + std::max<duration>(e.place->lease / 30, milliseconds{20});
  }
  on_.timers.arm(e.watch, std::min(e.renew_at, watchdog_.lose_at(e)));
}

/// The lock is ours: of an answer to a question from before the release that is not known. The line may have changed
/// meanwhile.
void local_line::proved(lock_entry& e, time_point now) {
  if (e.place->heard_from < e.proving_since) {
    // Nothing was asked while that answer was under way.
    if (!std::exchange(e.proof_repeated, true)) on_.timers.arm(e.watch, e.renew_at = now);
    return;
  }
  if (!can_hand_off(e, now)) {
    give_back(e, nullptr, now);
    return;
  }
  e.proving = false;
  e.watch.cancel();
  watchdog_.not_due(e.place.get());
  hand_off(e, now);
}

void local_line::give_back(lock_entry& e, receipt* r, time_point now) {
  BOOST_ASSERT_MSG(e.place->state == place_state::owned, "only an owned lock is given back");
  BOOST_ASSERT_MSG(e.holder == nullptr, "a lock with a holder is given back");
  end_watch(e);
  if (e.waiting.empty()) {
    on_.servers->release(*e.place, std::nullopt, r, now);
  } else {
    e.place->at_least = e.waiting.front().at_least;
    on_.servers->release(*e.place, e.waiting.front().lease, r, now);
  }
}

/// A waiter here asks anew, behind the lost grant: it waits for the end of the delay as those of other clients do.
void local_line::give_back_lost(lock_entry& e, time_point now) {
  if (on_.settings.lock_delay == duration::zero()) return give_back(e, nullptr, now);
  BOOST_ASSERT_MSG(e.holder == nullptr, "a lock with a holder is left behind");
  end_watch(e);
  on_.servers->detach(*e.place, now);
  ask_if_needed(e, now);
}

void local_line::end_watch(lock_entry& e) {
  e.watch.cancel();
  watchdog_.not_due(e.place.get());
  e.observed_in_line = e.proving = false;
}

}  // namespace conch::engine
