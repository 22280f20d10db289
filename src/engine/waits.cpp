// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/waits.hpp"

#include <algorithm>

namespace conch::engine {

void waits::cancel(acquisition& a, cancel_type type, time_point now) {
  switch (a.phase) {
    case acquisition_phase::waiting: stop_waiting(a, cancelled(), type, now); return;
    case acquisition_phase::staying:
      if (type == cancel_type::total) return;
      a.ending = why_given_up(a, now);
      if (type == cancel_type::partial) {
        lock_entry& e = *a.lock;
        a.ending = reporter_.refusal(a, a.ending, e.name, now);
        reporter_.observe_refusal(a, a.ending, e.name, now);
        a.unlink();
        enter(a, acquisition_phase::leaving);
        on_.servers->give_up(*e.place, &a, now);
        line_.ask_if_needed(e, now);  // another waiter may have come since
      } else {
        reporter_.finish(a, acquired::failed, a.ending, now);
      }
      return;
    case acquisition_phase::leaving:
      if (type == cancel_type::terminal) reporter_.finish(a, acquired::failed, a.ending, now);
      return;
    default: return;  // too late: the lock was delivered, or the acquisition has ended
  }
}

/// Ends a wait that has not led to a grant (see the table of docs/cancellation.md). The server is asked to act only if
/// `a` is the last waiter here for which the client is queued.
void waits::stop_waiting(acquisition& a, error_code why, cancel_type type, time_point now) {
  BOOST_ASSERT_MSG(a.phase == acquisition_phase::waiting, "a wait ends that is over");
  lock_entry& e = *a.lock;
  place& p = *e.place;
  bool const asked = p.state == place_state::asking || p.state == place_state::in_line;
  if (!asked || !e.waiting.has_one()) {
    reporter_.finish(a, acquired::failed, why, now);
    if (e.proving && e.waiting.empty()) line_.give_back(e, nullptr, now);  // no waiter is left to hand it to
    else entries_.retire(e);
    return;
  }
  if (!p.written || type == cancel_type::terminal) {
    reporter_.finish(a, acquired::failed, why, now);
    on_.servers->give_up(p, nullptr, now);
    entries_.retire(e);
    return;
  }
  why = reporter_.refusal(a, why, e.name, now);
  a.ending = why;
  a.late = {};
  on_.timers.arm(a.due, given_up_at(a, now));
  if (type == cancel_type::partial) {
    reporter_.observe_refusal(a, why, e.name, now);
    a.unlink();
    enter(a, acquisition_phase::leaving);
    on_.servers->give_up(p, &a, now);
    entries_.retire(e);
  } else {
    enter(a, acquisition_phase::staying);
    on_.servers->leave_unless_granted(p, now);
  }
}

/// When an ending acquire stops waiting for the server. A user's own bound is exceeded by no more than the answer that
/// may be under way.
time_point waits::given_up_at(acquisition const& a, time_point now) const {
  time_point const last = now + on_.settings.command_timeout;
  if (a.until == time_point::max()) return last;
  return std::min(last, std::max(a.until, now) + on_.servers->answers_within(*a.lock->place));
}

void waits::give_up_staying(acquisition& a, time_point now) {
  if (auto const until =
          a.late.grant(a.due.at(), milliseconds{1}, on_.servers->answers_within(*a.lock->place) / 4, now)) {
    on_.timers.arm(a.due, *until);
    return;
  }
  a.ending = why_given_up(a, now);
  reporter_.finish(a, acquired::failed, a.ending, now);
}

/// The server may have answered since the wait was over, or may have been silent for longer.
error_code waits::why_given_up(acquisition const& a, time_point now) const {
  return a.ending == cancelled() ? a.ending : on_.servers->too_late(*a.lock->place, now);
}

}  // namespace conch::engine
