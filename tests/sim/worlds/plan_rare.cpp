// Worlds in which one thing goes wrong, and is made to: what the plans drawn at large hardly ever come to.
#include "sim/worlds/plan_draw.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

using kind = fault_plan::kind;

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

// Several in a row whose machines are gone, and whose connections the server believes in, before one that lives. The
// client that passes the lock on to the first of them may queue again, or give up, in the meantime.
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
  // A client that comes just when the lock is free again, and may give up.
  if (r.chance(50)) {
    client_plan c = p.clients.back();
    operation o = make_operation(r, p, lease, true);
    o.lease = lease;
    o.think = p.clients.front().actors.front().work.front().hold + r.between(0, 3) * claim +
              r.between(0, 40 * hop + 60 * millisecond);
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

// A stranger that may publish to the clients' channels. Nothing else is wrong.
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

// A process that is not started again.
fault_plan make_death(random_source& r, plan& p, nanos lease, nanos span) {
  fault_plan death = make_fault(r, p, lease, span, kind::die);
  death.length = death.length2 = 0;
  death.variant = 0;
  return death;
}

// The owner dies, and roles change before its lease ends. A client learns of that through another lock, and asks for
// this one when those in its queue may still be at the replica. Another one like it may be behind, and the first of the
// two give its wait up.
void come_late(random_source& r, plan& p, nanos lease) {
  nanos const change = 12 * (p.latency + p.jitter) + r.between(200 * millisecond, 600 * millisecond),
              idle = r.between(0, lease * 3 / 4);
  fault_plan death = make_death(r, p, lease, 0);
  death.at = change - r.between(0, 100 * millisecond);
  death.client = 0;
  fault_plan changes = make_fault(r, p, lease, 0, kind::role_change);
  changes.at = change;
  changes.length = 0;
  changes.length2 = r.chance(50) ? 0 : r.between(0, 100 * millisecond);
  p.faults = {death, changes};
  p.names = 2;
  p.clients.resize(3, p.clients.front());
  for (client_plan& c : p.clients) {
    c.start = 0;
    c.actors.resize(1);
    auto& work = c.actors.front().work;
    work.resize(1);
    work[0].name = 0;
    work[0].how = operation::way::wait;
    work[0].cancel = operation::cancels::never;
    work[0].think = 0;
  }
  p.clients[0].actors[0].work[0].hold = 2 * lease;
  p.clients[1].actors[0].work[0].think = r.between(10 * millisecond, 100 * millisecond);
  auto& late = p.clients[2].actors[0].work;
  late.push_back(late[0]);
  late[0].name = 1;
  late[0].think = change + r.between(0, lease / 8);
  late[0].hold = r.between(0, 5 * millisecond);
  late[1].think = idle;
  if (r.chance(50)) return;
  p.names = 3;
  operation& given_up = late[1];
  given_up.cancel = static_cast<operation::cancels>(r.between(1, 3));
  given_up.cancel_after = r.between(0, 40 * millisecond);
  client_plan behind = p.clients[2];
  auto& work = behind.actors[0].work;
  work[0].name = 2;
  work[1].cancel = operation::cancels::never;
  work[1].think += r.between(0, 5 * millisecond);
  p.clients.push_back(behind);
}

// A server that changes roles with its replica, or restarts, and keeps all its data. Nothing else is wrong: a client in
// the queue is served when its turn comes, however late it has connected again.
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
      f.variant &= ~1;  // all clients are told at once that it is gone
      f.length2 *= 3;
    }
    p.faults.push_back(f);
    if (r.chance(20)) {
      // The lease of the client that dies here ends about when the others come back: then their questions pass the lock
      // on.
      fault_plan death = make_death(r, p, lease, span);
      death.at = std::max<nanos>(0, at - r.between(lease / 2, lease));
      p.faults.push_back(death);
    }
    at += 800 * millisecond;  // all are back before the next; they learn of a change of roles when they ask again
    if (f.what == kind::role_change) at += 2 * lease;
  }
  std::stable_sort(p.faults.begin(), p.faults.end(), [](auto const& a, auto const& b) { return a.at < b.at; });
  if (r.chance(20)) come_late(r, p, lease);
}

// An owner with a long lease gives the lock back to one with a short lease, which dies. Those behind it know of the
// long one. The first owner may be gone by then, and so may the first in the queue.
void make_short_after_long(random_source& r, plan& p) {
  p.names = 1;
  p.spikes = 0;
  p.leases_differ = true;
  p.may_kill = true;
  p.server_drift_ppm = 0;
  nanos const hop = p.latency + p.jitter;
  nanos const claim = whole_ms(r.between(2, 6) * (50 * millisecond + 10 * hop));
  // Not below 100 ms, the shortest lease that the client takes (src/client/api.cpp): the judges count on it
  // (observer::to_be_told_by).
  nanos const lease = whole_ms(r.between(8, 16) * claim),
              shorter = std::max(whole_ms(r.between(60, 150) * claim / 100), 100 * millisecond);
  nanos const apart = 4 * hop + 2 * millisecond;
  client_plan const model = p.clients.front();
  auto const deaf = r.between(0, 2), alive = r.between(1, 2), clients = 2 + deaf + alive;
  nanos const begins = 20 * millisecond + p.connect_time + 40 * hop,
              all_there = begins + (clients + 1) * apart + 20 * hop;
  nanos const handed_on = all_there + r.between(0, lease / 4);
  p.clients.clear();
  p.faults.clear();
  for (std::int64_t i = 0; i < clients; ++i) {
    client_plan c = model;
    c.settings = make_settings(r, lease, hop);
    c.settings.claim = as_duration(claim);
    c.settings.local_slice = as_duration(0);
    c.settings.renew_every = as_duration(0);
    c.drift_ppm = 0;
    c.start = 0;
    operation o;
    o.lease = i == 1 ? shorter : lease;
    o.think = i == 0 ? 0 : begins + i * apart;
    o.hold = i == 0 ? handed_on : i == 1 ? 4 * lease : r.between(0, 20 * millisecond);
    c.actors = {{{o}}};
    p.clients.push_back(std::move(c));
  }
  auto const gone = [&](std::int64_t client, kind what, nanos at) {
    fault_plan f = make_fault(r, p, lease, 0, what);
    f.client = static_cast<int>(client);
    f.at = at;
    f.length = 0;
    f.length2 = 8 * lease;
    f.variant = 0;
    p.faults.push_back(f);
  };
  if (r.chance(30)) {  // and the first lease seems to last forever
    fault_plan f = make_fault(r, p, lease, 0, kind::step_back);
    f.at = begins;
    f.length = r.between(1, 40) * lease;
    p.faults.push_back(f);
  }
  if (r.chance(50)) gone(0, kind::close, handed_on + begins + r.between(4 * hop, claim));
  nanos const dies = handed_on + begins + r.between(0, 3 * claim);
  for (std::int64_t i = 1; i < 2 + deaf; ++i) gone(i, kind::vanish, dies);
  std::stable_sort(p.faults.begin(), p.faults.end(), [](auto const& a, auto const& b) { return a.at < b.at; });
}

}  // namespace

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
  } else if (share < 32) {
    make_short_after_long(r, p);
  } else if (r.below(1000) < 2) {
    make_many(r, p);
  }
}

}  // namespace conch::sim
