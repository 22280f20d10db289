#include "sim/worlds/plan_draw.hpp"

namespace conch::sim {

namespace {

using kind = fault_plan::kind;

/// What ends a delay or an interval early is not its fault: an operator, a server without its data, a clock that steps.
bool spares_delays(fault_plan const& f) {
  switch (f.what) {
    case kind::server_restart:
    case kind::flush_scripts:
    case kind::refuse:
    case kind::refuse_inside:
    case kind::intrude:
    case kind::slow: return true;
    default: return f.concerns_one_client() && f.what != kind::cut_sentinel;
  }
}

}  // namespace

plan make_delays_plan(std::uint64_t seed) {
  plan p = make_plan(seed);
  random_source r{seed ^ 0xde'1a'75};
  keep_holds(p);
  p.leases_differ = p.orders = false;
  std::erase_if(p.faults, [](fault_plan const& f) { return !spares_delays(f); });
  for (client_plan& c : p.clients) {
    nanos const lease = c.settings.lease.count();
    c.settings.lock_delay = as_duration(whole_ms(r.chance(20) ? 0 : r.between(20 * millisecond, 2 * lease)));
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) o.order = operation::orders::none;
    }
  }
  // Intervals, in half of the schedules; mostly of a lock that others hold for a short time.
  random_source intervals{seed ^ 0x1'27'e2'7a'1};
  if (!intervals.chance(50)) return p;
  for (client_plan& c : p.clients) {
    nanos const lease = c.settings.lease.count();
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        if (intervals.chance(40)) o.at_least = whole_ms(intervals.between(2 * millisecond, 2 * lease));
      }
    }
  }
  return p;
}

}  // namespace conch::sim
