// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/reporter.hpp"

#include <algorithm>
#include <utility>

namespace conch::engine {

void reporter::begin(acquisition& a, cohort& in, std::string_view name, time_point now) {
  BOOST_ASSERT_MSG(a.phase == acquisition_phase::fresh, "an acquire begins twice");
  ++on_.stats.acquires;
  ++on_.stats.waiting;
  a.in = &in;
  a.asked = now;
  if (on_.is_observed) on_.shell.on_observed(a, {.what = observation::kind::waiting, .name = name, .at = now});
}

void reporter::finish(acquisition& a, acquired how, error_code why, time_point now) {
  // For one that leaves this was reported when it began to leave: its entry may be gone.
  if (a.phase == acquisition_phase::leaving) return end_ungranted(a, how, why);
  refuse(a, how, why, a.lock->name, now);
}

error_code reporter::explain(failed_task::kind what, error_code why, std::string_view name, duration after,
                             std::string_view holder) const {
  if (!why) return why;
  if (why == errc::unreachable && cause_of(why).empty()) why = on_.servers->no_answer();
  return explained(why, {what, name, on_.where, after, holder});
}

error_code reporter::refusal(acquisition const& a, error_code why, std::string_view name, time_point now) const {
  if (a.busy_is_late) return explain(failed_task::kind::waiting, why, name);  // it was given no time
  if (a.once) return explain(failed_task::kind::trying, why, name, now - a.asked);
  std::string const holder = on_.holders != nullptr && why == errc::timed_out ? on_.holders->holder_of(name, now) : "";
  return explain(failed_task::kind::waiting, why, name, now - a.asked, holder);
}

void reporter::refuse(acquisition& a, acquired how, error_code why, std::string_view name, time_point now) {
  if (how == acquired::busy && a.busy_is_late) {
    how = acquired::failed;
    why = make_error_code(errc::timed_out);
  }
  why = refusal(a, why, name, now);
  observe_refusal(a, why, name, now);
  end_ungranted(a, how, why);
}

void reporter::observe_refusal(acquisition& a, error_code why, std::string_view name, time_point now) {
  if (!on_.is_observed) return;
  on_.shell.on_observed(
      a, {.what = observation::kind::not_granted, .name = name, .at = now, .took = now - a.asked, .why = why});
}

void reporter::end_ungranted(acquisition& a, acquired how, error_code why) {
  forget(a);
  a.unlink();
  a.due.cancel();
  enter(a, acquisition_phase::over);
  a.lock = nullptr;
  --on_.stats.waiting;
  if (how == acquired::busy) {
    ++on_.stats.tries_busy;
  } else if (why == errc::timed_out) {
    ++on_.stats.timeouts;
  } else if (why == cancelled()) {
    ++on_.stats.cancellations;
  } else {
    ++on_.stats.failures;
  }
  on_.shell.on_acquired(a, how, why);
}

void reporter::count_end(acquisition& a, observation::kind how, std::string_view name, error_code why, time_point now) {
  duration const held = now - a.granted;
  --on_.stats.held;
  if (std::exchange(a.endangered, false)) --on_.stats.endangered;
  on_.stats.hold.add(held);
  if (on_.is_observed) on_.shell.on_observed(a, {.what = how, .name = name, .at = now, .took = held, .why = why});
}

}  // namespace conch::engine
