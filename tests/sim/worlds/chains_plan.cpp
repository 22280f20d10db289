#include "sim/worlds/plan_draw.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

using kind = fault_plan::kind;

constexpr kind faults[] = {kind::cut,          kind::cut_before,   kind::cut_after, kind::stall_up,
                           kind::stall_down,   kind::pause,        kind::pause,     kind::die,
                           kind::vanish,       kind::stall_down,   kind::stall_up,  kind::server_restart,
                           kind::server_wiped, kind::flush_scripts};

/// A walk takes a dozen round trips: where each takes long, everything changes meanwhile.
void draw_network(random_source& r, plan& p) {
  p.latency = r.chance(40)   ? r.between(20 * microsecond, millisecond)
              : r.chance(50) ? r.between(millisecond, 20 * millisecond)
                             : r.between(20 * millisecond, 250 * millisecond);
  p.jitter = r.chance(30) ? 0 : r.between(0, 2 * p.latency);
  p.connect_time = p.latency * 2;
  p.timer_lateness = r.chance(50) ? 0 : r.between(0, millisecond);
  p.server_drift_ppm = r.chance(30) ? 0 : r.between(-4950, 4950);
  p.expires_actively = r.chance(50);
}

/// One lock and then another one under it, in any order; or a question why.
operation draw_operation(random_source& r, plan const& p, nanos lease, bool ends_deadlocks) {
  operation o;
  o.name = static_cast<int>(r.below(p.names));
  o.inner = static_cast<int>(r.below(p.names));
  if (o.inner == o.name && r.chance(80)) o.inner = (o.inner + 1) % p.names;
  o.inner_waits = ends_deadlocks && r.chance(70);
  if (r.chance(20)) o.inner_tries = static_cast<int>(r.between(2, 4));
  o.patience = r.between(1, 40) * second / 4;
  o.think = r.chance(50) ? r.between(0, 20 * millisecond) : r.between(0, 2 * second);
  o.lease = lease;
  o.hold = r.chance(50) ? r.between(0, 20 * millisecond) : r.between(0, 4 * second);
  o.after_loss = r.chance(40) ? 0 : r.between(0, lease);
  if (r.chance(20)) {
    o.cancel = static_cast<operation::cancels>(r.between(1, 3));
    o.cancel_after = r.between(0, 5 * second);
  }
  o.abandon = r.chance(10);
  if (r.chance(15)) {
    o.order = operation::orders::why;
    o.think = r.between(0, 6 * second);
  }
  return o;
}

client_plan draw_settings(random_source& r, plan const& p, nanos lease, bool ends_deadlocks) {
  client_plan c;
  nanos const hop = p.latency + p.jitter;
  c.settings = make_settings(r, lease, hop);
  // The script of its renewal may have to be sent along.
  c.settings.claim = std::max(c.settings.claim, as_duration(whole_ms(20 * hop)));
  c.settings.connect_timeout = std::max(c.settings.connect_timeout, as_duration(10 * hop));
  c.settings.offline_timeout += as_duration(20 * hop);
  c.settings.label = "";
  c.settings.detect_deadlocks = ends_deadlocks;
  c.clock_offset = r.between(-1'000'000, 1'000'000) * millisecond;
  c.drift_ppm = r.chance(30) ? 0 : r.between(-4950, 4950);
  c.start = r.chance(50) ? 0 : r.between(0, 20 * millisecond);
  return c;
}

client_plan draw_client(random_source& r, plan const& p, nanos lease, bool ends_deadlocks) {
  client_plan c = draw_settings(r, p, lease, ends_deadlocks);
  auto const actors = r.chance(50) ? 1 : r.between(1, 3);
  for (std::int64_t i = 0; i < actors; ++i) {
    actor_plan a;
    for (std::int64_t n = r.between(1, 4); n > 0; --n) a.work.push_back(draw_operation(r, p, lease, ends_deadlocks));
    c.actors.push_back(std::move(a));
  }
  return c;
}

/// Two tasks have a lock each and wait for the other one's, but never for long and perhaps never both at once. Others
/// ask why, over a network on which a walk takes longer than such a wait.
void draw_crossing(random_source& r, plan& p) {
  p.names = 2;
  p.latency = r.between(200, 800) * millisecond;
  p.jitter = r.chance(50) ? 0 : r.between(0, p.latency / 4);
  p.connect_time = p.latency * 2;
  nanos const hop = p.latency + p.jitter;
  nanos const lease = whole_ms(r.between(150, 2000) * millisecond + 24 * hop);
  for (int i = 0; i < 2; ++i) {
    client_plan c = draw_settings(r, p, lease, false);
    for (auto tasks = r.chance(60) ? 1 : 2; tasks > 0; --tasks) {
      operation o = draw_operation(r, p, lease, false);
      o.order = operation::orders::none;
      o.cancel = operation::cancels::never;
      o.name = i;
      o.inner = 1 - i;
      o.inner_tries = static_cast<int>(r.between(1, 4));
      o.patience = second + r.between(0, 8 * hop);
      o.hold = r.between(0, 32 * hop);
      c.actors.push_back({{o}});
    }
    p.clients.push_back(std::move(c));
  }
  client_plan asks = draw_settings(r, p, lease, false);
  for (int i = 0; i < 3; ++i) {
    operation why;
    why.order = operation::orders::why;
    why.name = static_cast<int>(r.below(2));
    actor_plan a;
    for (int n = 0; n < 4; ++n) {
      why.think = r.between(0, 8 * hop);
      a.work.push_back(why);
    }
    asks.actors.push_back(std::move(a));
  }
  p.clients.push_back(std::move(asks));
}

}  // namespace

plan make_chains_plan(std::uint64_t seed) {
  random_source r{seed ^ 0xc4a1'45};
  plan p;
  p.seed = seed;
  p.chains = true;
  p.names = static_cast<int>(r.between(2, 3));
  draw_network(r, p);
  nanos const lease = whole_ms(r.between(150, 2000) * millisecond + 24 * (p.latency + p.jitter));
  if (p.latency > 20 * millisecond && r.chance(80)) {
    draw_crossing(r, p);
    return p;
  }
  bool const ends_deadlocks = r.chance(75);
  for (std::int64_t n = r.between(1, 4); n > 0; --n) p.clients.push_back(draw_client(r, p, lease, ends_deadlocks));
  if (r.chance(40)) return p;
  for (std::int64_t n = r.between(1, 4); n > 0; --n) {
    kind const what = faults[static_cast<std::size_t>(r.below(std::ssize(faults)))];
    p.faults.push_back(make_fault(r, p, std::max(lease, 2 * second), 12 * second, what));
  }
  std::stable_sort(p.faults.begin(), p.faults.end(), [](auto const& a, auto const& b) { return a.at < b.at; });
  return p;
}

}  // namespace conch::sim
