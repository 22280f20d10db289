// A Cluster: slots that move, replicas that take over, nodes that do not know or say what is not so; and the troubles
// that clients have anyway.
#include "sim/worlds/plan_draw.hpp"

#include <algorithm>
#include <utility>

namespace conch::sim {

namespace {

using kind = fault_plan::kind;

/// Too short to be noticed, or longer than any lease.
nanos draw_length(random_source& r, nanos lease) {
  return r.chance(40)   ? r.between(0, 5 * millisecond)
         : r.chance(50) ? r.between(0, lease)
                        : r.between(lease, 3 * lease);
}

fault_plan draw_change(random_source& r, plan const& p, nanos lease, nanos until, bool may_lose) {
  using state = fault_plan::master_state;
  auto const share = r.below(100);
  bool const replicas = p.replicas != 0;
  kind const what = share < 45                                ? kind::move_slot
                    : share < 60                              ? kind::move_at_once
                    : share < 80 && replicas                  ? kind::fail_over
                    : share < 92 && replicas && may_lose      ? kind::promotion
                    : share < 96 && p.replicas + p.shards > 2 ? kind::misdirect
                                                              : kind::cluster_down;
  fault_plan f = make_fault(r, p, lease, until, what);
  f.told = r.chance(30) ? 0 : r.chance(70) ? r.between(0, 20 * millisecond) : r.between(0, lease);
  switch (what) {
    case kind::move_slot:
      f.length = draw_length(r, lease);
      f.length2 = r.chance(70) ? r.between(0, 2 * millisecond) : r.between(0, lease);
      break;
    case kind::move_at_once:
      f.length = r.chance(70) ? r.between(0, 70 * millisecond) : r.between(0, lease);
      f.length2 = 0;
      break;
    case kind::fail_over:
      f.length = 0;
      f.length2 = r.chance(70) ? r.between(0, 40 * millisecond) : r.between(0, lease);
      break;
    case kind::promotion:
      f.master_is = static_cast<state>(r.below(4));
      f.length = f.master_is == state::well ? 0 : r.chance(50) ? r.between(0, lease / 4) : r.between(0, 2 * lease);
      f.length2 = r.chance(30) ? r.between(0, lease / 4) : r.between(0, 3 * lease);
      f.told = r.chance(30) ? 0 : r.between(0, std::max<nanos>(f.length2, 20 * millisecond));
      break;
    default: f.length = r.between(0, 2 * lease); f.length2 = 0;
  }
  return f;
}

void keep_what_a_cluster_can_have(plan& p) {
  keep_holds(p);
  p.orders = false;
  p.first_fences.clear();
  p.epoch_us = std::max(p.epoch_us, plan{}.epoch_us);
  std::erase_if(p.faults,
                [](fault_plan const& f) { return !f.concerns_one_client() && f.what != kind::flush_scripts; });
  p.names = std::min(p.names, 16);
  for (client_plan& c : p.clients) {
    if (c.actors.size() > 16) c.actors.resize(16);
    for (actor_plan& a : c.actors) {
      if (a.work.size() > 8) a.work.resize(8);
      for (operation& o : a.work) {
        o.name %= p.names;
        if (o.inner >= p.names) o.inner = -1;
        o.order = operation::orders::none;
      }
    }
  }
}

nanos span_of(plan const& p) {
  nanos span = 0;
  for (client_plan const& c : p.clients) {
    for (actor_plan const& a : c.actors) {
      nanos busy = 0;
      for (operation const& o : a.work) busy += o.think + o.hold;
      span = std::max(span, busy);
    }
  }
  return span;
}

/// Nothing is lost, every client learns of it soon, and nothing else is wrong: a waiter is served when its turn comes.
void draw_in_order(random_source& r, plan& p, nanos lease, nanos span) {
  p.faults.clear();
  nanos at = 0;
  for (auto n = r.between(1, 3); n > 0; --n) {
    fault_plan f = draw_change(r, p, lease, span, false);
    if (f.what == kind::misdirect || f.what == kind::cluster_down) f.what = kind::move_slot;
    f.length = std::min(f.length, lease);
    f.length2 = std::min<nanos>(f.length2, 2 * millisecond);
    f.told = std::min<nanos>(f.told, 2 * millisecond);
    at += r.between(100 * millisecond, 800 * millisecond);
    f.at = at;
    at += f.length + 2 * lease;
    p.faults.push_back(f);
  }
}

}  // namespace

plan make_cluster_plan(std::uint64_t seed) {
  plan p = make_plan(seed);
  p.leases_differ = false;
  random_source r{seed ^ 0xc1'05'7e'40};
  bool const in_order = p.in_order;
  if (!in_order && p.names == 1 && r.chance(60)) p.names = static_cast<int>(r.between(2, 5));
  for (client_plan& c : p.clients) {
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        if (!in_order && r.chance(60)) o.name = static_cast<int>(r.below(p.names));
        if (o.inner <= o.name) o.inner = -1;
      }
    }
  }
  keep_what_a_cluster_can_have(p);
  p.shards = static_cast<int>(r.between(2, 3));
  p.replicas = r.chance(25) ? 0 : r.chance(80) ? 1 : 2;
  p.replication_delay = r.chance(30)   ? 0
                        : r.chance(60) ? r.between(0, 5 * millisecond)
                                       : r.between(0, 100 * millisecond);
  for (int i = 0; i < p.names; ++i) p.first_shards.push_back(static_cast<int>(r.below(p.shards)));
  nanos const lease = p.clients.front().settings.lease.count(), span = span_of(p);
  for (client_plan& c : p.clients) c.settings.topology_refresh = as_duration(r.between(100 * millisecond, 10 * second));
  if (in_order) {
    draw_in_order(r, p, lease, span);
    return p;
  }
  auto const share = r.below(100);
  bool const alone = share < 50, only_moves = share < 20, may_lose = share >= 35;
  if (alone) {
    p.faults.clear();
    p.spikes = 0;
    p.may_kill = true;
  }
  for (auto n = r.chance(60) ? r.between(1, 3) : r.between(1, 8); n > 0; --n) {
    fault_plan f = draw_change(r, p, lease, span, may_lose);
    if (only_moves && f.what != kind::move_slot) {
      f.what = kind::move_slot;
      f.length = draw_length(r, lease);
      f.length2 = r.between(0, 2 * millisecond);
    }
    p.faults.push_back(f);
  }
  std::stable_sort(p.faults.begin(), p.faults.end(), [](auto const& a, auto const& b) { return a.at < b.at; });
  return p;
}

}  // namespace conch::sim
