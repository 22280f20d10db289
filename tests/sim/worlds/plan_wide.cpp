// What plans drawn at large hardly ever come to because everything in them begins in the middle: ids, fences and clocks
// near their edges, long claims, thousands of hand-offs, a wait that is cancelled twice, a process that wakes up to its
// own successor.
#include "protocol/wire.hpp"
#include "sim/worlds/plan.hpp"
#include "sim/worlds/random.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

using kind = fault_plan::kind;

/// When the server's clock begins. One that is before 2020 gives fences by counting, which a loss of data would begin
/// anew.
void draw_clock(random_source& r, plan& p) {
  bool const keeps = !p.has({kind::server_wiped, kind::failover});
  std::int64_t const a_while = 300'000;
  switch (r.below(keeps ? 6 : 4)) {
    case 0: p.epoch_us = protocol::fence_epoch_us + 10'000'000; break;
    case 1: p.epoch_us = protocol::fence_epoch_us + 100'000'000'000'000 - a_while; break;
    case 2: p.epoch_us = protocol::fence_epoch_us + 1'000'000'000'000'000 - a_while; break;
    case 3: p.epoch_us = protocol::fence_epoch_us + protocol::fence_limit - 3'600'000'000; break;
    case 4: p.epoch_us = 1'000'000'000'000; break;
    default: p.epoch_us = protocol::fence_epoch_us - 2 * a_while; break;
  }
}

/// Fences ahead of the clock, as after a move from a server whose clock was.
void draw_fences(random_source& r, plan& p) {
  if (p.has({kind::server_wiped, kind::failover})) return;
  std::int64_t const clock = std::max<std::int64_t>(p.epoch_us - protocol::fence_epoch_us, 0);
  for (int i = 0; i < p.names; ++i) {
    std::int64_t fence = 0;
    switch (r.below(5)) {
      case 0: fence = clock + r.between(0, 2'000'000); break;
      case 1: fence = clock + 86'400'000'000 * r.between(1, 3000); break;
      case 2: fence = 999'999'999'999'990; break;
      case 3: fence = protocol::fence_limit - 1 - r.between(100'000, 1'000'000); break;
      default: break;
    }
    p.first_fences.push_back(fence < protocol::fence_limit - 100'000 ? fence : 0);
  }
}

void draw_second_cancellations(random_source& r, plan& p) {
  for (client_plan& c : p.clients) {
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        bool const waits = o.cancel != operation::cancels::never || o.how == operation::way::timed;
        if (!waits || !r.chance(25)) continue;
        if (o.cancel == operation::cancels::never) {
          // For a wait whose time has passed: it is still leaving then.
          o.cancel = static_cast<operation::cancels>(r.between(1, 3));
          o.cancel_after = o.patience + r.between(0, 2 * (p.latency + p.jitter));
        }
        o.cancel_again = static_cast<operation::cancels>(r.between(1, 3));
        o.cancel_again_after =
            r.chance(70) ? r.between(0, 2 * (p.latency + p.jitter)) : r.between(0, c.settings.command_timeout.count());
      }
    }
  }
}

/// Questions and orders of an operator, who uses a client of his own.
void draw_orders(random_source& r, plan& p) {
  using orders = operation::orders;
  bool const calm = p.calm();
  if (!r.chance(calm ? 10 : 25)) return;
  for (client_plan& c : p.clients) {
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        if (!r.chance(20)) continue;
        o.order = calm || r.chance(30) ? orders::inspect : r.chance(50) ? orders::force : orders::force_one;
        p.orders = p.orders || o.order != orders::inspect;
        p.in_order = p.in_order && !p.orders;  // an operator's order waits for nobody
        o.hold = 2 * second;                   // for the limit of the whole
        o.inner = -1;
      }
    }
  }
}

/// Holds that are given another lease while they last, and fixed leases that are much shorter than those around them.
void draw_leases(plan& p) {
  random_source r{p.seed ^ 0xe87e'4d00};
  for (client_plan& c : p.clients) {
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        nanos const least = (100 + 24 * (p.latency + p.jitter) / millisecond) * millisecond;
        if (o.fixed && r.chance(50)) o.lease = least;
        if (!r.chance(10)) continue;
        o.extend_after = r.between(1, std::max<nanos>(o.hold, 2));
        o.extend_to = r.between(least, 2 * c.settings.lease.count()) / millisecond * millisecond;
        // What ends by a short lease while its client looks for the master is not passed on by its holder.
        if (p.in_order) o.extend_to = std::max(o.extend_to, c.settings.lease.count());
      }
    }
  }
}

/// Holders that listen for requests, and clients that ask for what others hold.
void draw_requests(plan& p) {
  random_source r{p.seed ^ 0x4e90'e575};
  if (!r.chance(25)) return;
  using orders = operation::orders;
  for (client_plan& c : p.clients) {
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        if (o.order != orders::none) continue;
        if (r.chance(15) && o.all.empty()) {
          o.order = r.chance(60) ? orders::request : orders::request_one;
          o.inner = -1;
        } else {
          o.listens = r.chance(50);
          o.lets_go = r.chance(50);
        }
      }
    }
  }
}

/// Clients that wait until nobody has a lock.
void draw_watchers(plan& p) {
  random_source r{p.seed ^ 0x3a7c'4e50};
  if (!r.chance(20)) return;
  for (client_plan& c : p.clients) {
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        if (o.order != operation::orders::none || !o.all.empty() || !r.chance(25)) continue;
        o.order = operation::orders::wait_free;
        o.inner = -1;
        o.patience = r.chance(60) ? 0 : r.between(millisecond, 2 * c.settings.lease.count());
      }
    }
  }
}

/// Holds that leave their client. Another takes them over, or two try, or nobody does and the lease ends them.
void draw_detaches(plan& p) {
  random_source r{p.seed ^ 0xde7a'c4ed};
  if (!r.chance(20)) return;
  auto const clients = static_cast<std::int64_t>(p.clients.size());
  for (client_plan& c : p.clients) {
    nanos const lease = c.settings.lease.count();
    auto const later = [&] {
      return r.chance(50)   ? r.between(0, 4 * (p.latency + p.jitter))
             : r.chance(80) ? r.between(0, lease / 2)
                            : r.between(0, 2 * lease);
    };
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        if (!r.chance(40) || o.order != operation::orders::none) continue;
        o.detach = p.detaches = true;
        o.inner = -1;
        if (r.chance(80)) o.adopt_by = static_cast<int>(r.below(clients));
        if (r.chance(30)) o.adopt_too = static_cast<int>(r.below(clients));
        o.adopt_after = later();
        o.adopt_too_after = r.chance(50) ? o.adopt_after : later();
        o.adopted_hold = r.chance(70) ? r.between(0, 20 * millisecond) : r.between(0, 2 * lease);
      }
    }
  }
}

/// Guarded writes of holders: some arrive when the hold has ended long since.
void draw_guarded_writes(plan& p) {
  random_source r{p.seed ^ 0x6a4d'ed00};
  if (!r.chance(30)) return;
  for (client_plan& c : p.clients) {
    nanos const lease = c.settings.lease.count();
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        if (!r.chance(50)) continue;
        o.guard_after = r.between(0, o.hold);
        o.guard_flight = r.chance(40)   ? 0
                         : r.chance(50) ? r.between(0, 4 * (p.latency + p.jitter))
                                        : r.between(0, 2 * lease);
      }
    }
  }
}

/// Users who are denied something, and a server that answers late.
void draw_refusals(random_source& r, plan& p) {
  if (p.faults.empty()) return;
  nanos const lease = p.clients.front().settings.lease.count();
  nanos const until = p.faults.back().at + lease;
  auto const add = [&](kind what, nanos longest, nanos late) {
    fault_plan f;
    f.what = what;
    f.at = r.between(0, until);
    f.length = r.chance(50) ? r.between(0, lease / 4) : r.between(0, longest);
    f.length2 = late;
    f.client = static_cast<int>(r.below(static_cast<std::int64_t>(p.clients.size())));
    f.variant = static_cast<int>(r.below(60));
    p.in_order = false;  // a client may come back too late for its place
    p.faults.insert(
        std::upper_bound(p.faults.begin(), p.faults.end(), f, [](auto const& a, auto const& b) { return a.at < b.at; }),
        f);
  };
  if (r.chance(6)) add(kind::deny, 2 * lease, 0);
  if (r.chance(6)) add(kind::refuse_greeting, 2 * lease, 0);
  if (r.chance(8))
    add(kind::slow, 2 * lease, r.between(millisecond, 2 * p.clients.front().settings.command_timeout.count()));
}

/// One client whose coroutines hand a lock on in memory until the index of the fence is used up, and then some.
void make_marathon(random_source& r, plan& p) {
  p.names = 1;
  p.spikes = 0;
  p.faults.clear();
  p.clients.resize(1);
  client_plan& c = p.clients.front();
  c.settings.local_slice = std::chrono::hours{1};
  operation const o = [&] {
    operation one;
    one.lease = c.settings.lease.count();
    one.hold = r.chance(50) ? 0 : 10 * microsecond;
    return one;
  }();
  c.actors.assign(8, actor_plan{std::vector<operation>(static_cast<std::size_t>(r.between(520, 560)), o)});
}

}  // namespace

void keep_holds(plan& p) {
  p.detaches = false;
  for (client_plan& c : p.clients) {
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) o.detach = false;
    }
  }
}

void widen(plan& p) {
  random_source r{p.seed ^ 0x51de'0bed}, of_before{p.seed ^ 0x0b5e'0100};
  if (r.below(1500) == 0) {
    make_marathon(r, p);
    return;
  }
  if (r.chance(15)) draw_clock(r, p);
  if (r.chance(15)) draw_fences(r, p);
  draw_second_cancellations(r, p);
  draw_orders(r, p);
  draw_refusals(r, p);
  draw_leases(p);
  draw_requests(p);
  draw_watchers(p);
  draw_detaches(p);
  draw_guarded_writes(p);
  for (client_plan& c : p.clients) {
    c.id_jumps = r.chance(p.may_kill ? 25 : 75);
    // They can be guessed: not where a stranger forges.
    c.without_nonces = c.id_jumps && of_before.chance(50) && !p.has({kind::forge});
    if (r.chance(15))
      c.settings.claim =
          duration{r.between(c.settings.claim.count(), c.settings.lease.count()) / millisecond * millisecond};
  }
}

/// A process is paused while its permit ends and the next of its coroutines is granted it: when resumed it learns of
/// both.
void make_standstill(plan& p) {
  random_source r{p.seed ^ 0x57a9'd511};
  if (p.clients.size() < 2 || !r.chance(5)) return;
  p.clients.resize(2);
  p.names = 1;
  p.spikes = 0;
  p.timers_first = false;
  p.limit = p.permits == engine::permit_kind::segments || p.permits == engine::permit_kind::semaphore ? 1 : p.limit;
  nanos const lease = p.clients.front().settings.lease.count();
  auto const one = [&](nanos think, nanos hold, char const* owner) {
    operation o;
    o.think = think;
    o.hold = hold;
    o.lease = lease;
    o.weight = p.permits == engine::permit_kind::reentrant ? 1 : p.limit;
    if (p.permits == engine::permit_kind::reentrant) o.visited = owner;
    return actor_plan{{o}};
  };
  for (client_plan& c : p.clients) {
    c.start = 0;
    c.settings.claim = duration{std::max<nanos>(c.settings.claim.count(), lease * 9 / 10 / millisecond * millisecond)};
  }
  nanos const soon = 8 * (p.latency + p.jitter) + 5 * millisecond;
  p.clients[0].actors = {one(0, 3 * lease, "owner1"), one(soon, lease / 8, "owner2")};
  p.clients[1].actors = {one(2 * soon, lease / 8, "owner3")};
  fault_plan f;
  f.what = kind::pause;
  f.at = 3 * soon + r.between(0, lease);
  f.length = lease + r.between(-lease / 3, lease / 2);
  p.faults = {f};
}

}  // namespace conch::sim
