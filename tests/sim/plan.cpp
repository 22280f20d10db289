#include "sim/plan.hpp"

#include "sim/random.hpp"

#include <algorithm>
#include <limits>

namespace conch::sim {

namespace {

using kind = fault_plan::kind;

duration as_duration(nanos n) { return duration{n}; }

nanos whole_ms(nanos n) { return n / millisecond * millisecond; }

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

// How often each kind of fault is drawn.
constexpr struct {
  kind what;
  int weight;
} weights[] = {
    {kind::cut, 20},         {kind::cut_before, 14},  {kind::cut_after, 20}, {kind::stall_up, 10},      {kind::stall_down, 14},
    {kind::pause, 20},       {kind::die, 8},          {kind::vanish, 14},    {kind::close, 6},          {kind::server_restart, 8},
    {kind::server_wiped, 6}, {kind::failover, 6},     {kind::step_back, 5},  {kind::step_forward, 2},   {kind::flush_scripts, 6},
    {kind::delete_lock, 5},  {kind::clobber_lock, 4}, {kind::refuse, 12},    {kind::refuse_inside, 12}, {kind::intrude, 6},
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

// Several locks of one client, renewed together, and an operator who spoils the key of one.
void make_batch(random_source& r, plan& p) {
  p.names = static_cast<int>(r.between(3, 5));
  p.spikes = 0;
  p.clients.resize(1);
  client_plan& c = p.clients.front();
  nanos const lease = c.settings.lease.count();
  c.actors.clear();
  for (int name = 0; name < p.names; ++name) {
    operation o;
    o.name = name;
    o.think = r.chance(70) ? 0 : r.between(0, lease / 8);
    o.lease = lease;
    o.hold = r.between(lease, 3 * lease);
    c.actors.push_back({{o}});
  }
  fault_plan f = make_fault(r, p, lease, 2 * lease, kind::clobber_lock);
  f.length = r.between(lease / 2, 2 * lease);
  p.faults = {f};
}

// One coroutine a client, which gives up most of what it asks for. Answers how long they are at it.
nanos make_impatient(random_source& r, plan& p) {
  p.spikes = 0;
  p.names = static_cast<int>(r.between(1, 2));
  nanos const lease = p.clients.front().settings.lease.count();
  nanos const hop = p.latency + p.jitter;
  nanos span = 0;
  for (client_plan& c : p.clients) {
    c.settings.command_timeout = as_duration(lease / 4);
    c.actors.resize(1);
    nanos busy = 0;
    for (operation& o : c.actors.front().work) {
      o = make_operation(r, p, lease, true);
      o.think = r.between(0, lease / 4);
      o.hold = r.between(0, lease / 4);
      if (r.chance(40)) {
        o.how = operation::way::wait;
        o.cancel = static_cast<operation::cancels>(r.between(1, 3));
        o.cancel_after = r.between(0, 12 * hop);
      } else if (r.chance(50)) {
        o.how = operation::way::timed;
        o.patience = r.between(millisecond, 12 * hop + 5 * millisecond);
      }
      busy += o.think + o.hold;
    }
    span = std::max(span, busy);
  }
  p.faults.clear();
  return span;
}

// Requests that arrive long after their client has given them up, on connections that it may not end.
void make_echoes(random_source& r, plan& p) {
  p.may_kill = false;
  nanos const span = make_impatient(r, p);
  nanos const lease = p.clients.front().settings.lease.count();
  auto const count = r.between(2, 8);
  for (std::int64_t i = 0; i < count; ++i) {
    fault_plan f = make_fault(r, p, lease, span, r.chance(80) ? kind::cut_before : kind::cut);
    f.variant = f.what == kind::cut ? 4 : 1;  // late, not lost
    f.length = r.between(0, 3 * millisecond);
    f.length2 = r.between(0, lease);
    p.faults.push_back(f);
  }
  std::stable_sort(p.faults.begin(), p.faults.end(), [](auto const& a, auto const& b) { return a.at < b.at; });
}

// The same where it may end them, but is away for longer than a lease and comes back just before they arrive.
void make_outage(random_source& r, plan& p) {
  p.may_kill = true;
  nanos const span = make_impatient(r, p);
  nanos const lease = p.clients.front().settings.lease.count();
  fault_plan late = make_fault(r, p, lease, span, kind::cut_before);
  late.variant = 1;
  late.length = r.between(0, lease);
  fault_plan away = late;
  away.what = kind::pause;
  away.at = late.at + r.between(0, lease / 2);
  away.length = r.between(3 * lease / 2, 3 * lease);
  late.length2 = away.at + away.length + 30 * (p.latency + p.jitter) - late.at;
  p.faults = {late, away};
}

// Several in a row whose machines are gone, and whose connections the server believes in, before one that lives. Who passes the lock
// on to the first of them may stand in line again, or give up, in the meantime.
void make_dead_line(random_source& r, plan& p) {
  p.names = 1;
  p.spikes = 0;
  nanos const hop = p.latency + p.jitter;
  // Where they are long, what the clocks differ by counts.
  bool const is_long = r.chance(50);
  nanos const claim = is_long ? r.between(2, 5) * second : whole_ms(r.between(1, 3) * (50 * millisecond + 10 * hop));
  if (is_long && r.chance(50)) p.server_drift_ppm = -4950;
  nanos const lease = whole_ms(r.between(8, 16) * claim);
  nanos const apart = 4 * hop + 2 * millisecond;
  client_plan const model = p.clients.front();
  auto const dead = r.between(2, 4), alive = r.between(1, 2);
  p.clients.clear();
  p.faults.clear();
  nanos const all_there = 20 * millisecond + (dead + alive + 2) * apart + p.connect_time + 40 * hop;
  for (std::int64_t i = 0; i < 1 + dead + alive; ++i) {
    client_plan c = model;
    c.settings = make_settings(r, lease, hop);
    c.settings.claim = as_duration(r.chance(80) ? claim : 2 * claim);
    c.settings.local_slice = as_duration(0);
    if (is_long && r.chance(50)) c.drift_ppm = 4950;
    c.clock_offset = r.between(-1'000'000, 1'000'000) * millisecond;
    c.start = 0;
    operation o;
    o.lease = lease;
    o.think = i == 0 ? 0 : 20 * millisecond + p.connect_time + 40 * hop + i * apart;
    o.hold = i == 0 ? all_there + r.between(0, lease / 2) : r.between(0, 20 * millisecond);
    c.actors = {{{o}}};
    if (i == 0 && r.chance(60)) {
      // Back soon, or already waiting when it gives the lock back.
      operation next = make_operation(r, p, lease, true);
      next.lease = lease;
      next.think = r.chance(50) ? r.between(0, claim) : o.hold / 2;
      next.patience = r.between(0, 2 * claim);
      next.cancel_after = r.between(0, 2 * claim);
      if (r.chance(50)) {
        c.actors.front().work.push_back(next);
      } else {
        next.think += o.hold / 2;
        c.actors.push_back({{next}});
      }
    }
    p.clients.push_back(std::move(c));
  }
  for (std::int64_t i = 1; i <= dead; ++i) {
    fault_plan f = make_fault(r, p, lease, 0, kind::vanish);
    f.client = static_cast<int>(i);
    f.at = all_there;
    f.length = 0;
    f.length2 = 2 * lease;
    f.variant = 0;
    p.faults.push_back(f);
  }
  // Somebody who comes just when the lock is free again, and may give up.
  if (r.chance(50)) {
    client_plan c = p.clients.back();
    operation o = make_operation(r, p, lease, true);
    o.lease = lease;
    o.think = p.clients.front().actors.front().work.front().hold + r.between(0, 3) * claim + r.between(0, 40 * hop + 60 * millisecond);
    o.patience = r.between(0, claim);
    o.cancel_after = r.between(0, claim);
    c.actors = {{{o}}};
    p.clients.push_back(std::move(c));
  }
}

// A hold that lasts for longer than fences are kept, and a clock that is set back to before it.
void make_long_hold(random_source& r, plan& p) {
  p.names = 1;
  p.spikes = 0;
  p.expires_actively = true;
  p.clients.resize(1);
  client_plan& c = p.clients.front();
  nanos const lease = c.settings.lease.count();
  nanos const retention = r.between(lease / 4, 2 * lease);
  c.settings.fence_retention = as_duration(whole_ms(retention));
  operation o;
  o.lease = lease;
  o.hold = retention + lease + r.between(lease / 4, 4 * lease);
  operation next = o;
  next.hold = r.between(0, 20 * millisecond);
  next.think = r.between(0, retention / 4);
  c.actors = {{{o, next}}};
  fault_plan f = make_fault(r, p, lease, 0, kind::step_back);
  f.at = o.hold + r.between(-lease / 8, next.think);
  f.length = o.hold + r.between(0, o.hold);
  f.length2 = 0;
  p.faults = {f};
}

// More locks than one script of renewals takes, or one of tries.
void make_many(random_source& r, plan& p) {
  p.names = static_cast<int>(r.between(201, 210));
  p.spikes = 0;
  p.jitter = 0;  // granted at once they are renewed at once
  p.splits = 0;
  p.faults.clear();
  p.may_kill = true;
  p.clients.resize(1);
  client_plan& c = p.clients.front();
  nanos const lease = c.settings.lease.count();
  c.actors.clear();
  for (int name = 0; name < p.names; ++name) {
    operation o;
    o.name = name;
    o.lease = lease;
    o.hold = lease + r.between(0, lease / 2);
    c.actors.push_back({{o}});
  }
}

// An operator has spoilt the key of one lock's fence. Nobody else is to notice.
void make_spoilt_fence(random_source& r, plan& p) {
  p.names = static_cast<int>(r.between(2, 4));
  p.spikes = 0;
  p.may_kill = true;
  nanos const lease = p.clients.front().settings.lease.count();
  for (client_plan& c : p.clients) {
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        o.name = static_cast<int>(r.below(p.names));
        o.inner = -1;
      }
    }
  }
  p.faults.clear();
  for (auto left = r.between(1, 3); left > 0; --left) {
    fault_plan f = make_fault(r, p, lease, 2 * lease, kind::spoil_fence);
    f.name = 0;
    f.length = f.length2 = 0;
    p.faults.push_back(f);
  }
  std::stable_sort(p.faults.begin(), p.faults.end(), [](auto const& a, auto const& b) { return a.at < b.at; });
}

// Somebody who may publish to the clients' channels. Nothing else is wrong.
void make_forged(random_source& r, plan& p) {
  p.spikes = 0;
  p.may_kill = true;
  nanos const lease = p.clients.front().settings.lease.count();
  bool const reads_keys = r.chance(50), verified = r.chance(50);
  p.faults.clear();
  for (auto left = r.between(2, 12); left > 0; --left) {
    fault_plan f = make_fault(r, p, lease, 2 * lease, kind::forge);
    f.length = f.length2 = 0;
    f.variant = (f.variant & ~1) | (reads_keys ? 1 : 0);
    p.faults.push_back(f);
  }
  std::stable_sort(p.faults.begin(), p.faults.end(), [](auto const& a, auto const& b) { return a.at < b.at; });
  for (client_plan& c : p.clients) c.settings.verify_pushes = verified;
}

// A server that changes roles with its replica, or restarts, and keeps all its data. Nothing else is wrong: whoever stands in
// line is served when its turn comes, however late it has connected again.
void make_regroup(random_source& r, plan& p) {
  p.in_order = true;
  p.spikes = 0;
  p.names = 1;
  p.replication_delay = r.between(0, 10 * millisecond);
  nanos const hop = p.latency + p.jitter;
  nanos const lease = whole_ms(r.between(1200, 1700) * millisecond + 24 * hop);
  if (p.clients.size() < 2) p.clients.push_back(p.clients.front());
  nanos span = 0;
  for (client_plan& c : p.clients) {
    c.settings.lease = as_duration(lease);
    c.settings.renew_every = as_duration(lease / 3);
    c.settings.stop_margin = as_duration(lease / 10);
    c.settings.claim = as_duration(whole_ms(r.between(900 * millisecond, lease)));
    c.settings.command_timeout = as_duration(lease / 4);
    c.settings.offline_timeout = as_duration(5 * second);
    c.start = r.between(0, 20 * millisecond);
    c.actors.resize(std::min<std::size_t>(c.actors.size(), 2));
    nanos busy = 0;
    for (actor_plan& a : c.actors) {
      a.work.resize(static_cast<std::size_t>(r.between(2, 4)));
      for (operation& o : a.work) {
        o = make_operation(r, p, lease, true);
        o.lease = lease;
        o.think = r.chance(50) ? 0 : r.between(0, 60 * millisecond);
        o.hold = r.chance(80) ? r.between(0, 250 * millisecond) : r.between(lease / 2, 2 * lease);
        o.fixed = false;
        o.max_hold = 0;
        if (r.chance(80)) {
          o.how = operation::way::wait;
          o.cancel = operation::cancels::never;
        }
        busy += o.think + o.hold;
      }
    }
    span = std::max(span, busy);
  }
  p.faults.clear();
  auto const count = r.between(1, 3);
  nanos at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    fault_plan f = make_fault(r, p, lease, span, r.chance(60) ? kind::role_change : kind::server_restart);
    at += r.between(100 * millisecond, 800 * millisecond) + 12 * hop;
    f.at = at;
    f.length = 0;
    f.length2 = r.chance(30) ? 0 : r.between(0, 100 * millisecond);
    if (f.what == kind::server_restart) {
      f.variant &= ~1;  // everybody is told at once that it is gone
      f.length2 *= 3;
    }
    p.faults.push_back(f);
    if (r.chance(20)) {
      // The lease of who dies here is over about when the others come back: then their questions pass the lock on.
      fault_plan death = make_fault(r, p, lease, span, kind::die);
      death.at = std::max<nanos>(0, at - r.between(lease / 2, lease));
      death.length = death.length2 = 0;
      death.variant = 0;
      p.faults.push_back(death);
    }
    at += 800 * millisecond;  // all are back before the next
  }
  std::stable_sort(p.faults.begin(), p.faults.end(), [](auto const& a, auto const& b) { return a.at < b.at; });
}

// Roles that change while the clients have troubles of their own.
void add_role_changes(random_source& r, plan& p, nanos lease, nanos until) {
  bool const alone = std::all_of(p.faults.begin(), p.faults.end(), [](fault_plan const& f) {
    switch (f.what) {
      case kind::cut:
      case kind::cut_before:
      case kind::cut_after:
      case kind::stall_up:
      case kind::stall_down:
      case kind::pause:
      case kind::die:
      case kind::vanish:
      case kind::close:
      case kind::delete_lock:
      case kind::intrude: return true;
      default: return false;
    }
  });
  if (!alone) return;
  p.replication_delay = r.between(0, 20 * millisecond);
  // Once: what is under way to a server that is a replica by then is refused. Were it the master again when that arrives, nobody
  // could have ended the connection, and only the lease would.
  fault_plan f = make_fault(r, p, lease, until, kind::role_change);
  f.length = 0;
  f.length2 = r.chance(50) ? 0 : r.between(0, lease);
  p.faults.insert(std::upper_bound(p.faults.begin(), p.faults.end(), f, [](auto const& a, auto const& b) { return a.at < b.at; }), f);
}

// What the plans drawn at large hardly ever come to, in a share of them.
void make_rare(random_source& r, plan& p) {
  auto const share = r.below(100);
  if (share < 3) {
    make_batch(r, p);
  } else if (share < 10) {
    make_echoes(r, p);
  } else if (share < 13) {
    make_outage(r, p);
  } else if (share < 17) {
    make_dead_line(r, p);
  } else if (share < 19) {
    make_long_hold(r, p);
  } else if (share < 21) {
    make_spoilt_fence(r, p);
  } else if (share < 26) {
    make_regroup(r, p);
  } else if (share < 29) {
    make_forged(r, p);
  } else if (r.below(1000) < 2) {
    make_many(r, p);
  }
}

}  // namespace

std::string name_of(int name) {
  // One that must be escaped, for the keys.
  static std::string const names[] = {"stock", "a}b", "x", "long:name/with spaces", "%7D"};
  return name < 5 ? names[name] : "n" + std::to_string(name);
}

bool plan::has(std::initializer_list<kind> kinds) const {
  return std::any_of(faults.begin(), faults.end(), [&](fault_plan const& f) { return std::find(kinds.begin(), kinds.end(), f.what) != kinds.end(); });
}

bool plan::has(kind what, int name) const {
  return std::any_of(faults.begin(), faults.end(), [&](fault_plan const& f) { return f.what == what && f.name == name; });
}

bool plan::harms_no_other(int name, bool roles_may_change) const {
  // While the address has not moved nobody can renew: a claim that is over by then is lost.
  nanos shortest_claim = std::numeric_limits<nanos>::max();
  for (client_plan const& c : clients) shortest_claim = std::min<nanos>(shortest_claim, c.settings.claim.count());
  auto const moves_soon = [&](fault_plan const& f) { return (f.variant & 2) != 0 || f.length2 <= shortest_claim / 4; };
  return std::all_of(faults.begin(), faults.end(), [&](fault_plan const& f) {
    bool const meddles = f.what == kind::clobber_lock || f.what == kind::delete_lock || f.what == kind::spoil_fence;
    bool const guesses = f.what == kind::forge && (f.variant & 1) == 0;
    return f.what == kind::flush_scripts || f.what == kind::intrude || guesses || (meddles && f.name != name) ||
           (roles_may_change && f.what == kind::role_change && moves_soon(f));
  });
}

nanos plan::longest_lease() const {
  nanos longest = 0;
  for (client_plan const& c : clients) {
    longest = std::max<nanos>(longest, c.settings.lease.count());
    for (actor_plan const& a : c.actors) {
      for (operation const& o : a.work) {
        longest = std::max(longest, o.lease);
      }
    }
  }
  return longest;
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
  nanos const lease = whole_ms(r.between(150, 1000) * millisecond + 24 * (p.latency + p.jitter));
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

  bool const big = r.chance(2);
  int const clients = static_cast<int>(r.chance(12) ? 1 : r.chance(70) ? r.between(2, 3) : r.between(2, big ? 8 : 5));
  nanos span = 0;
  for (int i = 0; i < clients; ++i) {
    client_plan c;
    c.settings = make_settings(r, lease, p.latency + p.jitter);
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
      p.faults.insert(std::upper_bound(p.faults.begin(), p.faults.end(), f, [](auto const& a, auto const& b) { return a.at < b.at; }), f);
    }
  }
  widen(p);
  // Of a stream of its own: the schedules stay what they were.
  random_source turns{~seed};
  if (turns.chance(50)) p.steps_in_one_turn = static_cast<std::size_t>(turns.between(1, 4));
  // The judge has patience with a few turns, not with hundreds.
  if (p.names > 16) p.steps_in_one_turn = std::max<std::size_t>(p.steps_in_one_turn, 64);
  return p;
}

namespace {

std::string ms(nanos n) {
  auto const us = n / microsecond;
  std::string text = std::to_string(us / 1000);
  if (us % 1000 != 0) {
    std::string fraction = std::to_string(us % 1000);
    text += "." + std::string(3 - fraction.size(), '0') + fraction;
  }
  return text + " ms";
}

}  // namespace

std::string to_words(fault_plan const& f) {
  std::string const client = "client " + std::to_string(f.client);
  switch (f.what) {
    case kind::cut: return "the connection of " + client + " breaks; it notices after " + ms(f.length) + ", the server after " + ms(f.length2);
    case kind::cut_before:
      return "the next bytes of " + client + ((f.variant & 1) != 0 ? " come late and" : " are") + " lost with their connection; it notices after " +
             ms(f.length);
    case kind::cut_after: return "the next answer to " + client + " is lost with its connection; it notices after " + ms(f.length);
    case kind::stall_up: return "nothing from " + client + " arrives for " + ms(f.length);
    case kind::stall_down: return "nothing arrives at " + client + " for " + ms(f.length);
    case kind::pause: return client + " stands still for " + ms(f.length);
    case kind::die: return client + " dies";
    case kind::vanish: return client + " vanishes; the server notices after " + ms(f.length2);
    case kind::close: return client + " is closed";
    case kind::server_restart: return "the server restarts with its data, in " + ms(f.length2);
    case kind::server_wiped: return "the server restarts without its data, in " + ms(f.length2);
    case kind::failover: return "a replica takes over without the last writes, in " + ms(f.length2);
    case kind::role_change:
      return std::string{"the server and its replica change roles; "} + ((f.variant & 1) != 0 ? "its clients are sent away" : "its clients stay") +
             ((f.variant & 2) != 0 ? ", the address moves at once" : ", the address moves after " + ms(f.length2));
    case kind::step_back: return "the server's clock goes back by " + ms(f.length);
    case kind::step_forward: return "the server's clock jumps forward by " + ms(f.length);
    case kind::flush_scripts: return "SCRIPT FLUSH";
    case kind::delete_lock: return "an operator deletes lock " + std::to_string(f.name);
    case kind::clobber_lock: return "an operator writes something else into the key of lock " + std::to_string(f.name);
    case kind::refuse: return "the server refuses scripts for " + ms(f.length);
    case kind::refuse_inside: return "a command inside a script fails";
    case kind::intrude: return "somebody else releases and renews lock " + std::to_string(f.name);
    case kind::force: return "an operator takes lock " + std::to_string(f.name) + " away";
    case kind::forge:
      return std::string{"somebody who "} + ((f.variant & 1) != 0 ? "has read" : "guesses") + " ids publishes " +
             ((f.variant & 2) != 0 ? "revocations" : "grants") + " of lock " + std::to_string(f.name);
    case kind::spoil_fence:
      return "an operator writes " + (f.variant % 4 == 3 ? std::string{"no number"} : "a number near the limit") + " into the fence of lock " +
             std::to_string(f.name);
    case kind::set_limit: return "an operator sets the limit of lock " + std::to_string(f.name) + " to " + std::to_string(f.variant);
    case kind::deny: return "the users may not do everything for " + ms(f.length) + " (" + std::to_string(f.variant % 3) + ")";
    case kind::refuse_greeting: return "new connections are refused for " + ms(f.length);
    case kind::slow: return "the server answers " + ms(f.length2) + " late for " + ms(f.length);
  }
  return "?";
}

std::string to_words(operation const& o) {
  std::string text = o.how == operation::way::attempt ? "tries lock " : "acquires lock ";
  text += std::to_string(o.name);
  if (o.inner >= 0) {
    text += " and then lock " + std::to_string(o.inner);
  }
  if (o.how == operation::way::timed) {
    text += " within " + ms(o.patience);
  }
  text += ", lease " + ms(o.lease) + (o.fixed ? " fixed" : "");
  if (o.max_hold != 0) {
    text += ", at most " + ms(o.max_hold);
  }
  static char const* const types[] = {"", "total", "partial", "terminal"};
  if (o.cancel != operation::cancels::never) {
    text += std::string{", cancels ("} + types[static_cast<int>(o.cancel)] + ") after " + ms(o.cancel_after);
  }
  if (o.cancel_again != operation::cancels::never) {
    text += std::string{", once more ("} + types[static_cast<int>(o.cancel_again)] + ") after " + ms(o.cancel_again_after);
  }
  return text + ", holds for " + ms(o.hold) + (o.abandon ? " and drops it" : "");
}

}  // namespace conch::sim
