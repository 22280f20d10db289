// A master with one or two replicas that lag. One of them is promoted, and what the master had not sent yet is lost.
#include "protocol/drift.hpp"
#include "sim/worlds/clocks.hpp"
#include "sim/worlds/plan_draw.hpp"

#include <algorithm>
#include <utility>

namespace conch::sim {

namespace {

using kind = fault_plan::kind;

fault_plan draw_promotion(random_source& r, plan& p, nanos lease, nanos until) {
  using state = fault_plan::master_state;
  fault_plan f = make_fault(r, p, lease, until, kind::promotion);
  f.master_is = static_cast<state>(r.below(4));
  f.length = f.master_is == state::well ? 0 : r.chance(50) ? r.between(0, lease / 4) : r.between(0, 2 * lease);
  f.length2 = r.chance(30) ? r.between(0, lease / 4) : r.between(0, 3 * lease);
  f.name = static_cast<int>(r.below(2));
  auto const share = r.below(100);
  f.told = share < 20 ? -1 : share < 40 ? 0 : share < 70 ? r.between(0, 20 * millisecond) : r.between(0, f.length2);
  return f;
}

/// In half of these schedules nothing but the master changes; in the others clients do not reach all Sentinels all the
/// time.
void draw_sentinels(random_source& r, plan& p, nanos lease, nanos until) {
  p.sentinels = static_cast<int>(r.between(1, 3));
  p.last_sentinel_lies = p.sentinels > 1 && r.chance(40);
  p.listed_sentinels = static_cast<int>(r.between(1, p.sentinels));
  for (client_plan& c : p.clients) c.settings.topology_refresh = as_duration(r.between(100 * millisecond, 2 * lease));
  if (r.chance(50)) return;
  for (auto n = r.between(1, 4); n > 0; --n) {
    fault_plan f = make_fault(r, p, lease, until, kind::cut_sentinel);
    f.length = r.between(0, 2 * lease);
    f.length2 = 0;
    f.name = static_cast<int>(r.below(p.sentinels));
    p.faults.push_back(f);
  }
}

/// A replica takes over that may have missed something.
plan make_lossy(plan p) {
  std::uint64_t const seed = p.seed;
  random_source r{seed ^ 0x4e91'1ca5};
  keep_holds(p);
  p.in_order = p.orders = false;
  p.replicas = static_cast<int>(r.between(1, 2));
  p.replication_delay = r.chance(30)   ? 0
                        : r.chance(60) ? r.between(0, 5 * millisecond)
                                       : r.between(0, 100 * millisecond);
  // A loss of data begins anew what counts from the last fence and not from the clock.
  p.first_fences.clear();
  p.epoch_us = std::max(p.epoch_us, plan{}.epoch_us);
  if (r.chance(40)) {
    p.faults.clear();
    p.spikes = 0;
  }
  std::erase_if(p.faults, [](fault_plan const& f) { return !f.concerns_one_client(); });
  if (p.names > 16) p.names = 16;
  nanos span = 0;
  for (client_plan& c : p.clients) {
    if (c.actors.size() > 16) c.actors.resize(16);
    for (actor_plan& a : c.actors) {
      if (a.work.size() > 8) a.work.resize(8);
      nanos busy = 0;
      for (operation& o : a.work) {
        o.name %= p.names;
        if (o.inner >= p.names) o.inner = -1;
        o.order = operation::orders::none;
        busy += o.think + o.hold;
      }
      span = std::max(span, busy);
    }
  }
  nanos const lease = p.clients.front().settings.lease.count();
  fault_plan const first = draw_promotion(r, p, lease, span);
  p.faults.push_back(first);
  // Back to the first it does not go: what is under way to a server that was the master before would be carried out
  // there.
  if (p.replicas == 2 && r.chance(30)) {
    p.faults.back().name = 0;
    fault_plan next = draw_promotion(r, p, lease, span);
    next.name = 0;
    next.at = first.at + first.length + first.length2 + millisecond + r.between(0, lease);
    p.faults.push_back(next);
  }
  // Clocks that differ, where the former master grants nothing for longer than that before another does.
  if (p.replicas == 1 && first.master_is == fault_plan::master_state::killed && r.chance(50)) {
    p.replica_ahead = r.between(-first.length, first.length) * 9 / 10;
  }
  if (random_source sentinels{seed ^ 0x5e47'1e15}; sentinels.chance(60)) draw_sentinels(sentinels, p, lease, span);
  std::stable_sort(p.faults.begin(), p.faults.end(), [](auto const& a, auto const& b) { return a.at < b.at; });
  return p;
}

}  // namespace

plan make_replicas_plan(std::uint64_t seed) {
  plan p = make_plan(seed);
  p.leases_differ = false;
  if (!p.in_order) return make_lossy(std::move(p));
  // The same master and replica change roles in good order, and nothing is lost (make_regroup in plan_rare.cpp): so the
  // order of the line is kept, and no waiter misses its turn.
  p.replicas = 1;
  return p;
}

nanos ahead_at_most(plan const& p) {
  nanos most = p.longest_lease();
  for (client_plan const& c : p.clients) {
    auto const look = [&](nanos lease) {
      nanos const valid = protocol::good_for(duration{lease}).count();
      // and what squares of rates add
      nanos const by_servers = valid + valid / 1'000'000 * (p.server_drift_ppm - c.drift_ppm) + valid / 20'000;
      most = std::min(most, lease - by_servers - millisecond);  // times of day are whole milliseconds
    };
    look(c.settings.lease.count());
    for (actor_plan const& actor : c.actors) {
      for (operation const& o : actor.work) {
        look(o.lease);
        if (o.extend_after != 0) look(o.extend_to);
      }
    }
  }
  return std::max<nanos>(most, 0);
}

plan make_synced_plan(std::uint64_t seed) {
  plan p = make_lossy(make_plan(seed));
  p.leases_differ = false;
  random_source r{seed ^ 0x5ac'ed'1ca5};
  p.synced = true;
  // The world itself tells both connections where the master is.
  p.sentinels = p.listed_sentinels = 0;
  p.last_sentinel_lies = false;
  std::erase_if(p.faults, [](fault_plan const& f) { return f.what == kind::cut_sentinel; });
  p.waits_for_own_writes = r.chance(70);
  for (client_plan& c : p.clients) {
    c.settings.sync_replicas = static_cast<std::size_t>(p.replicas);
    c.settings.sync_timeout =
        std::max<duration>(std::min(c.settings.command_timeout, c.settings.claim / 3), std::chrono::milliseconds{1});
    // To the second replica and back, with room: a client that always waits for too short a time never has a lock.
    p.replication_delay = std::min<nanos>(p.replication_delay, c.settings.sync_timeout.count() / 8);
    for (actor_plan const& actor : c.actors) {
      for (operation const& o : actor.work) p.replication_delay = std::min(p.replication_delay, o.lease / 16);
    }
  }
  // One that is behind only ends holds later.
  p.replica_ahead = r.chance(50) ? 0 : r.between(0, ahead_at_most(p) / p.replicas);
  return p;
}

plan make_synced_permits_plan(std::uint64_t seed, engine::permit_kind kind) {
  plan p = make_permits_plan(seed, kind);
  random_source r{seed ^ 0x5ac'ed'9a27};
  p.leases_differ = p.detaches = p.orders = false;
  p.spikes = 0;
  fault_plan forgets;  // and is calm otherwise, but for its replicas
  forgets.what = fault_plan::kind::flush_scripts;
  p.faults = {forgets};
  p.synced = true;
  p.replicas = static_cast<int>(r.between(1, 2));
  p.waits_for_own_writes = r.chance(70);
  nanos timeout = p.longest_lease(), shortest = timeout;  // of all clients
  for (client_plan& c : p.clients) {
    c.settings.sync_replicas = static_cast<std::size_t>(p.replicas);
    c.settings.sync_timeout =
        std::max<duration>(std::min(c.settings.command_timeout, c.settings.claim / 3), std::chrono::milliseconds{1});
    timeout = std::min<nanos>(timeout, c.settings.sync_timeout.count());
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        o.detach = false;
        o.order = operation::orders::none;
        o.levels.clear();
        shortest = std::min(shortest, o.lease);
      }
    }
  }
  // A client that always waits for too short a time never has a permit. So slow replicas are slow for a while, and then
  // as quick as the others: one that has waited meanwhile is due P4.
  p.replication_delay = std::min(r.between(0, timeout / 8), shortest / 16);
  if (r.chance(60)) {
    p.slow_delay = r.between(timeout / 4, 2 * timeout);
    p.slow_until = r.between(2 * timeout, 20 * timeout);
  }
  return p;
}

}  // namespace conch::sim
