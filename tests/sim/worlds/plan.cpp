#include "sim/worlds/plan.hpp"

#include "servers/redis/codec.hpp"
#include "sim/worlds/plan_draw.hpp"
#include "sim/worlds/random.hpp"

#include <algorithm>
#include <limits>

namespace conch::sim {

namespace {

using kind = fault_plan::kind;

// How often each kind of fault is drawn.
constexpr struct {
  kind what;
  int weight;
} weights[] = {
    {kind::cut, 20},
    {kind::cut_before, 14},
    {kind::cut_after, 20},
    {kind::stall_up, 10},
    {kind::stall_down, 14},
    {kind::pause, 20},
    {kind::die, 8},
    {kind::vanish, 14},
    {kind::close, 6},
    {kind::server_restart, 8},
    {kind::server_wiped, 6},
    {kind::failover, 6},
    {kind::step_back, 5},
    {kind::step_forward, 2},
    {kind::flush_scripts, 6},
    {kind::delete_lock, 5},
    {kind::clobber_lock, 4},
    {kind::refuse, 12},
    {kind::refuse_inside, 12},
    {kind::intrude, 6},
};

kind draw_kind(random_source& r) {
  int total = 0;
  for (auto const& w : weights) {
    total += w.weight;
  }
  auto left = r.below(total);
  for (auto const& w : weights) {
    if (left < w.weight) {
      return w.what;
    }
    left -= w.weight;
  }
  return kind::cut;
}

// Roles that change while the clients have troubles of their own.
void add_role_changes(random_source& r, plan& p, nanos lease, nanos until) {
  bool const alone = std::all_of(p.faults.begin(), p.faults.end(), [](fault_plan const& f) {
    return f.concerns_one_client() || f.what == kind::delete_lock || f.what == kind::intrude;
  });
  if (!alone) return;
  p.replication_delay = r.between(0, 20 * millisecond);
  // Once: what is under way to a server that is a replica by then is refused. Were it the master again when that
  // arrives, nobody could have ended the connection, and only the lease would.
  fault_plan f = make_fault(r, p, lease, until, kind::role_change);
  f.length = 0;
  f.length2 = r.chance(50) ? 0 : r.between(0, lease);
  p.faults.insert(
      std::upper_bound(p.faults.begin(), p.faults.end(), f, [](auto const& a, auto const& b) { return a.at < b.at; }),
      f);
}

/// Credentials that change all the time. Where answers are late as well, subscriptions are still under way then.
void draw_credentials(plan& p, nanos lease) {
  random_source r{p.seed ^ 0xc4ed'0001};
  p.credentials = r.chance(15);
  if (!p.credentials || p.faults.empty() || !r.chance(40)) return;
  fault_plan f;
  f.what = kind::slow;
  f.at = r.between(0, 20 * millisecond);
  f.length = r.between(lease / 4, lease);
  f.length2 = r.between(10 * millisecond, 40 * millisecond);
  p.in_order = false;
  p.faults.insert(
      std::upper_bound(p.faults.begin(), p.faults.end(), f, [](auto const& a, auto const& b) { return a.at < b.at; }),
      f);
}

}  // namespace

config make_settings(random_source& r, nanos lease, nanos hop) {
  config c;
  c.lease = as_duration(lease);
  c.renew_every = r.chance(70) ? duration::zero() : as_duration(lease / r.between(2, 5));
  // The client replaces 0 by a third of the lease when it is made.
  if (c.renew_every == duration::zero()) {
    c.renew_every = c.lease / 3;
  }
  c.stop_margin = as_duration(r.chance(30) ? 0 : r.between(1, lease / millisecond / 4) * millisecond);
  c.local_slice = as_duration(r.chance(25) ? 0 : r.between(1, 40) * millisecond);
  // Confirmed after a third, told lost a quarter before its end: in between a renewal whose script must be sent along.
  nanos const least_claim = 50 * millisecond + 10 * hop;
  c.claim = as_duration(whole_ms(r.between(least_claim, std::min<nanos>(lease, least_claim + lease / 3))));
  if (lease / millisecond % 8 == 0) c.claim = as_duration(lease);  // as long as can be
  c.fence_retention = as_duration(r.between(2, 20) * second);
  c.command_timeout = as_duration(std::max<nanos>(10 * millisecond, lease / r.between(4, 8)));
  c.connect_timeout = as_duration(500 * millisecond);
  c.offline_timeout = as_duration(r.between(0, 2000) * millisecond);
  c.reconnect_min = as_duration(r.between(1, 20) * millisecond);
  c.reconnect_max = as_duration(200 * millisecond);
  c.keep_alive = as_duration(r.chance(20) ? 0 : r.between(200, 2000) * millisecond);
  return c;
}

operation make_operation(random_source& r, plan const& p, nanos lease, bool hectic) {
  operation o;
  o.name = static_cast<int>(r.below(p.names));
  if (o.name + 1 < p.names && r.chance(12)) {
    o.inner = static_cast<int>(r.between(o.name + 1, p.names - 1));
  }
  o.how = r.chance(60) ? operation::way::wait : r.chance(60) ? operation::way::timed : operation::way::attempt;
  o.think = r.chance(30) ? 0 : r.chance(60) ? r.between(0, 20 * millisecond) : r.between(0, lease);
  o.patience = r.chance(70) ? r.between(1, 200) * millisecond : r.between(0, 2 * lease);
  o.lease = r.chance(70) ? lease : whole_ms(r.between(100 * millisecond + 24 * (p.latency + p.jitter), 2 * lease));
  o.fixed = r.chance(20);
  if (r.chance(6)) {
    o.max_hold = r.between(1, 2 * lease);
  }
  o.hold = r.chance(50)   ? r.between(0, 5 * millisecond)
           : r.chance(70) ? r.between(0, 60 * millisecond)
           : r.chance(70) ? r.between(0, lease)
                          : r.between(0, 3 * lease);
  if (hectic && o.hold > lease / 2) {
    o.hold /= 8;
  }
  o.after_loss = r.chance(40) ? 0 : r.between(0, lease);
  if (r.chance(o.how == operation::way::attempt ? 10 : 25)) {
    o.cancel = static_cast<operation::cancels>(r.between(1, 3));
    o.cancel_after = r.chance(50) ? r.between(0, 4 * (p.latency + p.jitter)) : r.between(0, lease);
  }
  o.abandon = r.chance(15);
  return o;
}

fault_plan make_fault(random_source& r, plan const& p, nanos lease, nanos until, kind what) {
  fault_plan f;
  f.what = what;
  f.at = r.between(0, until);
  auto const soon_or_late = [&] {
    return r.chance(50) ? r.between(0, 3 * millisecond) : r.chance(60) ? r.between(0, lease) : r.between(0, 3 * lease);
  };
  f.length = soon_or_late();
  f.length2 = soon_or_late();
  f.client = static_cast<int>(r.below(static_cast<std::int64_t>(p.clients.size())));
  f.name = static_cast<int>(r.below(p.names));
  f.variant = static_cast<int>(r.below(64));
  if (what == kind::pause) {
    f.length = r.chance(40) ? r.between(0, lease / 4) : r.between(0, 3 * lease);
  }
  if (what == kind::step_back) {
    f.length = r.between(1, 6000) * millisecond;
  }
  if (what == kind::step_forward) {
    f.length = r.between(1, 2000) * millisecond;
  }
  if (what == kind::refuse) {
    f.length = r.between(0, lease);
  }
  return f;
}

std::string key_of(int name) { return "conch:{" + redis::escape_name(name_of(name)) + "}"; }

std::string name_of(int name) {
  // One that must be escaped, for the keys.
  static std::string const names[] = {"stock", "a}b", "x", "long:name/with spaces", "%7D"};
  return name < 5 ? names[name] : "n" + std::to_string(name);
}

bool plan::has(std::initializer_list<kind> kinds) const {
  return std::any_of(faults.begin(), faults.end(),
                     [&](fault_plan const& f) { return std::find(kinds.begin(), kinds.end(), f.what) != kinds.end(); });
}

bool plan::has(kind what, int name) const {
  return std::any_of(faults.begin(), faults.end(),
                     [&](fault_plan const& f) { return f.what == what && f.name == name; });
}

bool plan::may_change_roles() const {
  return std::any_of(possible.begin(), possible.end(), [](fault_plan const& f) { return f.what == kind::role_change; });
}

bool plan::refuses_for(nanos longer) const {
  return std::any_of(faults.begin(), faults.end(),
                     [&](fault_plan const& f) { return f.what == kind::refuse && f.length > longer; });
}

bool plan::harms_no_other(int name, bool roles_may_change) const {
  // While the address has not moved no client can renew: a claim that ends before is lost.
  nanos shortest_claim = std::numeric_limits<nanos>::max();
  for (client_plan const& c : clients) shortest_claim = std::min<nanos>(shortest_claim, c.settings.claim.count());
  auto const moves_soon = [&](fault_plan const& f) { return (f.variant & 2) != 0 || f.length2 <= shortest_claim / 4; };
  // It is renewed after a third, and lost a quarter before its end. In between the replica and the master may each have
  // to be sent the script too, and the client connects: twelve ways.
  bool const claims_last = 12 * (latency + jitter) <= shortest_claim * 5 / 12;
  return std::all_of(faults.begin(), faults.end(), [&](fault_plan const& f) {
    bool const meddles = f.what == kind::clobber_lock || f.what == kind::delete_lock || f.what == kind::spoil_fence;
    bool const guesses = f.what == kind::forge && (f.variant & 1) == 0;
    return f.what == kind::flush_scripts || f.what == kind::intrude || guesses || (meddles && f.name != name) ||
           (roles_may_change && f.what == kind::role_change && moves_soon(f) && claims_last);
  });
}

nanos plan::longest_lease() const {
  nanos longest = 0;
  for (client_plan const& c : clients) {
    longest = std::max<nanos>(longest, c.settings.lease.count());
    for (actor_plan const& a : c.actors) {
      for (operation const& o : a.work) {
        longest = std::max({longest, o.lease, o.extend_to});
      }
    }
  }
  nanos delay = 0, interval = 0;
  for (client_plan const& c : clients) delay = std::max<nanos>(delay, c.settings.lock_delay.count());
  for (client_plan const& c : clients) {
    for (actor_plan const& a : c.actors) {
      for (operation const& o : a.work) interval = std::max(interval, o.at_least);
    }
  }
  return std::max(longest + delay, interval);
}

bool plan::has_intervals() const {
  return std::any_of(clients.begin(), clients.end(), [](client_plan const& c) {
    return std::any_of(c.actors.begin(), c.actors.end(), [](actor_plan const& a) {
      return std::any_of(a.work.begin(), a.work.end(), [](operation const& o) { return o.at_least != 0; });
    });
  });
}

bool plan::has_delays() const {
  return has_intervals() || std::any_of(clients.begin(), clients.end(),
                                        [](client_plan const& c) { return c.settings.lock_delay > duration::zero(); });
}

nanos plan::longest_claim() const {
  nanos longest = 0;
  for (client_plan const& c : clients) {
    longest = std::max<nanos>(longest, c.settings.claim.count());
  }
  return longest;
}

nanos plan::set_back() const {
  nanos total = 0;
  for (fault_plan const& f : faults) {
    if (f.what == fault_plan::kind::step_back) total += f.length;
    if (f.what == fault_plan::kind::failover) total += f.length2;
  }
  return total;
}

bool fault_plan::concerns_one_client() const {
  switch (what) {
    case kind::cut:
    case kind::cut_before:
    case kind::cut_after:
    case kind::stall_up:
    case kind::stall_down:
    case kind::pause:
    case kind::die:
    case kind::vanish:
    case kind::close:
    case kind::cut_sentinel: return true;
    default: return false;
  }
}

plan make_plan(std::uint64_t seed) {
  random_source r{seed};
  plan p;
  p.seed = seed;
  p.names = static_cast<int>(r.chance(60) ? 1 : r.between(1, 5));
  bool const calm = r.chance(25);
  p.latency = r.chance(70) ? r.between(20 * microsecond, millisecond) : r.between(100 * microsecond, 8 * millisecond);
  p.jitter = r.chance(30) ? 0 : r.between(0, 2 * p.latency);
  p.connect_time = p.latency * 2;
  // A round trip well below the command time-out, or nothing works.
  nanos const short_lease = whole_ms(r.between(150, 1000) * millisecond + 24 * (p.latency + p.jitter));
  // The times that a command may leave out.
  config const usual;
  bool const all_usual = random_source{seed ^ 0x05a1'0000}.chance(3);
  nanos const lease = all_usual ? usual.lease.count() : short_lease;
  if (!calm && r.chance(40)) {
    p.spikes = static_cast<int>(r.between(2, 60));
    p.spike = r.between(5 * millisecond, lease);
  }
  p.splits = r.chance(30) ? static_cast<int>(r.between(1, 40)) : 0;
  p.timer_lateness = r.chance(50) ? 0 : r.between(0, millisecond);
  // Together at most 1 %.
  p.server_drift_ppm = r.chance(30) ? 0 : r.between(-4950, 4950);
  p.may_kill = calm || !r.chance(20);
  p.own_pushes_after_reply = r.chance(30);
  p.timers_first = r.chance(50);
  p.expires_actively = random_source{seed ^ 0x00ac'71fe}.chance(50);
  p.watched = random_source{seed ^ 0x3a7c'4e00}.chance(20);
  p.small_steps = random_source{seed ^ 0x57e9'5000}.chance(50);
  p.declared_keys = random_source{seed ^ 0xdec1'a4ed}.chance(15);

  bool const big = r.chance(2);
  int const clients = static_cast<int>(r.chance(12) ? 1 : r.chance(70) ? r.between(2, 3) : r.between(2, big ? 8 : 5));
  nanos span = 0;
  for (int i = 0; i < clients; ++i) {
    client_plan c;
    c.settings = make_settings(r, lease, p.latency + p.jitter);
    if (all_usual) {
      c.settings.claim = usual.claim;
      c.settings.fence_retention = usual.fence_retention;
    }
    c.clock_offset = r.between(-1'000'000, 1'000'000) * millisecond;
    c.drift_ppm = r.chance(30) ? 0 : r.between(-4950, 4950);
    c.start = r.chance(50) ? 0 : r.between(0, 20 * millisecond);
    auto const actors = r.chance(60) ? r.between(1, 2) : r.between(1, big ? 50 : 6);
    for (std::int64_t k = 0; k < actors; ++k) {
      actor_plan a;
      auto const count = r.between(1, actors > 8 ? 2 : 4);
      nanos busy = 0;
      for (std::int64_t j = 0; j < count; ++j) {
        a.work.push_back(make_operation(r, p, lease, clients * actors > 6));
        busy += a.work.back().think + a.work.back().hold;
      }
      span = std::max(span, busy);
      c.actors.push_back(std::move(a));
    }
    p.clients.push_back(std::move(c));
  }
  if (!calm) {
    auto const count = r.chance(60) ? r.between(1, 3) : r.between(1, 10);
    bool lossy = false, stepped = false;
    for (std::int64_t i = 0; i < count; ++i) {
      kind const what = draw_kind(r);
      // Losing data and setting the clock back at the same time is more than P2 can bear.
      if (what == kind::step_back && lossy) {
        continue;
      }
      bool const loses = what == kind::server_wiped || what == kind::failover;
      if (loses && stepped) {
        continue;
      }
      lossy = lossy || loses;
      stepped = stepped || what == kind::step_back;
      p.faults.push_back(make_fault(r, p, lease, span + lease, what));
    }
    std::stable_sort(p.faults.begin(), p.faults.end(), [](auto const& a, auto const& b) { return a.at < b.at; });
  }
  // From sources of their own: the other plans stay what they are.
  random_source rare{seed ^ 0x7a6e'b1d5};
  make_rare(rare, p);
  if (p.leases_differ) return p;
  // P11: some of those that wait for a time have none; and the scripts are not known yet when they ask.
  random_source attempts{seed ^ 0xa77e'3975};
  for (client_plan& c : p.clients) {
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        if (o.how == operation::way::timed && attempts.chance(25)) o.patience = 0;
      }
    }
  }
  random_source roles{seed ^ 0x401e'5000};
  if (!p.faults.empty() && !p.in_order && roles.chance(15)) add_role_changes(roles, p, lease, span + lease);
  if (!p.faults.empty() && !p.in_order) {
    random_source operators{seed ^ 0x0b5e'55ed};
    if (operators.chance(12)) {
      fault_plan f = make_fault(operators, p, lease, span + lease, kind::force);
      f.length = f.length2 = 0;
      p.faults.insert(std::upper_bound(p.faults.begin(), p.faults.end(), f,
                                       [](auto const& a, auto const& b) { return a.at < b.at; }),
                      f);
    }
  }
  widen(p);
  draw_credentials(p, lease);
  // From a random stream of its own: the schedules stay what they were.
  random_source turns{~seed};
  if (turns.chance(50)) p.steps_in_one_turn = static_cast<std::size_t>(turns.between(1, 4));
  // The judge has patience with a few turns, not with hundreds.
  if (p.names > 16) p.steps_in_one_turn = std::max<std::size_t>(p.steps_in_one_turn, 64);
  return p;
}

}  // namespace conch::sim
