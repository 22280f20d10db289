#include "sim/judges/lock_history.hpp"

#include "sim/worlds/sim_client.hpp"

#include <limits>

namespace conch::sim {

namespace {

using history::outcome;

/// How long after its last user a lock may still be busy: as the judge of single attempts has it.
nanos settling(plan const& p) {
  if (p.calm() && !p.has_delays()) return 60 * (p.latency + p.jitter) + 10 * millisecond + 4 * p.timer_lateness;
  return p.set_back() + 3 * p.longest_lease() + 2 * p.longest_claim() + second;
}

/// A reentrant lock that is acquired again is held twice: of its holds the fences are judged.
std::uint32_t limit_of(plan const& p) {
  if (p.permits == engine::permit_kind::none) return 1;
  return p.permits == engine::permit_kind::reentrant ? std::numeric_limits<std::uint32_t>::max() : p.limit;
}

history::specification specified_by(plan const& p) {
  history::specification s = history::specification::permits(limit_of(p));
  // Among faults a client may be told so by its own process, which does not know yet what has ended elsewhere.
  s.busy = p.calm() ? history::specification::busy_rule::wanted : history::specification::busy_rule::anything;
  s.settling = settling(p);
  return s;
}

}  // namespace

lock_history::lock_history(plan const& p) : seen_{p.names, specified_by(p)} {}

void lock_history::asked(sim_acquisition& a, nanos now) {
  a.in_history = seen_.asked(a.lock_number, a.once, a.client->id(), now);
}

void lock_history::granted(sim_acquisition const& a, nanos now) {
  seen_.granted(a.in_history, a.fence, now, a.permit ? a.permit.weight : 1);
  seen_.has_segment(a.in_history, a.segment);
  renewed(a);
}

void lock_history::refused(sim_acquisition const& a, nanos now) { seen_.refused(a.in_history, now); }

void lock_history::found_busy(sim_acquisition const& a) { seen_.found_busy(a.in_history); }

void lock_history::renewed(sim_acquisition const& a) {
  if (a.phase != engine::acquisition_phase::holding) return;  // what is lost shows no deadline
  seen_.good_until(a.in_history, a.client->true_time(a.deadline()));
}

void lock_history::extended(sim_acquisition const& a, nanos asked_at, nanos now) {
  seen_.extended(a.in_history, asked_at, now);
}

void lock_history::released(sim_acquisition const& a, nanos now) {
  renewed(a);
  weighed(a);
  seen_.released(a.in_history, now);
}

void lock_history::release_answered(sim_acquisition const& a, outcome how, nanos now) {
  seen_.release_answered(a.in_history, how, now);
}

void lock_history::lost(sim_acquisition const& a, nanos now) { seen_.lost(a.in_history, now); }

void lock_history::gone(sim_acquisition const& a, nanos now) {
  if (a.active) released(a, now);  // nobody believes in it any more; the server may, for a while
}

void lock_history::weighed(sim_acquisition const& a) {
  if (a.permit) seen_.weighs(a.in_history, a.permit.weight);
}

void lock_history::orphaned(sim_acquisition const& a, nanos since) { seen_.orphaned(a.in_history, since); }

void lock_history::left_out(sim_acquisition const& a) { seen_.left_out(a.in_history); }

}  // namespace conch::sim
