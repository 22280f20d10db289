#include "sim/worlds/plan.hpp"
#include "sim/worlds/random.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

/// Owners that acquire again: several coroutines of each, side by side, with levels that end in any order.
void draw_levels(plan& p) {
  random_source r{p.seed ^ 0x1e7e'1500};
  if (!r.chance(50) || p.clients.front().actors.front().work.size() > 100) return;
  bool const shared = p.permits == engine::permit_kind::shared;
  nanos const hop = p.latency + p.jitter;
  for (client_plan& c : p.clients) {
    nanos const lease = c.settings.lease.count();
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        if (o.order != operation::orders::none || o.detach || !r.chance(70)) continue;
        o.owner = static_cast<int>(r.chance(70) ? 1 : 2);
        nanos in_all = 0;
        bool const mostly_reads = r.chance(30);
        for (auto left = r.chance(30) ? 1 : r.between(2, 5); left > 0; --left) {
          operation::level l;
          l.after = r.chance(25)   ? 0
                    : r.chance(60) ? r.between(0, 4 * hop)
                                   : r.between(0, std::max<nanos>(o.hold, millisecond));
          l.writes = !shared || !r.chance(mostly_reads ? 90 : 45);
          l.how = r.chance(60) ? operation::way::wait : r.chance(60) ? operation::way::timed : operation::way::attempt;
          l.patience = r.chance(15) ? 0 : r.chance(70) ? r.between(1, 200) * millisecond : r.between(0, 2 * lease);
          l.hold = r.chance(50)   ? r.between(0, 4 * hop)
                   : r.chance(70) ? r.between(0, std::max<nanos>(o.hold, millisecond))
                                  : r.between(0, lease);
          l.after_loss = r.chance(40) ? 0 : r.between(0, lease);
          if (r.chance(20)) {
            l.cancel = static_cast<operation::cancels>(r.between(1, 3));
            l.cancel_after = r.chance(60) ? r.between(0, 4 * hop) : r.between(0, lease);
          }
          l.abandon = r.chance(15);
          in_all += l.after + l.hold + l.after_loss + 2 * p.longest_lease() + second;
          o.levels.push_back(l);
        }
        o.hold = in_all;  // for the limit of the whole
        o.cancel = o.cancel_again = operation::cancels::never;
        o.downgrade_after = o.extend_after = 0;
        o.listens = o.lets_go = false;
      }
    }
  }
}

}  // namespace

plan make_permits_plan(std::uint64_t seed, engine::permit_kind kind) {
  using engine::permit_kind;
  plan p = make_plan(seed);
  if (kind == permit_kind::reentrant) keep_holds(p);
  random_source r{seed ^ 0x9a27'5f00};
  p.permits = kind;
  p.limit = kind == permit_kind::shared || kind == permit_kind::reentrant
                ? engine::most_permits
                : static_cast<std::uint32_t>(r.between(1, kind == permit_kind::semaphore ? 5 : 4));
  if (p.leases_differ) {  // each wants all there is
    if (kind == permit_kind::segments) p.limit = 1;
    for (std::size_t i = 0; i < p.clients.size(); ++i) {
      operation& o = p.clients[i].actors.front().work.front();
      o.weight = kind == permit_kind::semaphore || kind == permit_kind::shared ? p.limit : 1;
      if (kind == permit_kind::reentrant) o.visited = "owner" + std::to_string(i);
    }
    return p;
  }
  // What is forged about a permit is made so that nobody may ever believe it.
  for (client_plan& c : p.clients) c.settings.verify_pushes = false;
  for (fault_plan& f : p.faults) {
    if (f.what == fault_plan::kind::forge && (f.variant & 1) != 0) f.variant &= ~2;
  }
  // The intruder sends commands for a mutex.
  std::erase_if(p.faults, [](fault_plan const& f) { return f.what == fault_plan::kind::intrude; });
  if (kind == permit_kind::semaphore && !p.faults.empty() && r.chance(30)) {
    for (auto left = r.between(1, 3); left > 0; --left) {
      fault_plan f = p.faults[static_cast<std::size_t>(r.below(static_cast<std::int64_t>(p.faults.size())))];
      f.what = fault_plan::kind::set_limit;
      f.at += r.between(0, 20) * millisecond;
      f.length = f.length2 = 0;
      f.name = static_cast<int>(r.below(p.names));
      f.variant = static_cast<int>(r.between(1, 7));
      p.faults.push_back(f);
    }
    std::stable_sort(p.faults.begin(), p.faults.end(), [](auto const& a, auto const& b) { return a.at < b.at; });
  }
  for (client_plan& c : p.clients) {
    for (actor_plan& a : c.actors) {
      for (operation& o : a.work) {
        if (kind == permit_kind::semaphore && o.order == operation::orders::force_one && r.chance(50))
          o.order = operation::orders::limit;
        o.inner = -1;  // a permit under a permit of the same lock would be a deadlock of the plan's own making
        switch (kind) {
          case permit_kind::semaphore:
            o.weight = static_cast<std::uint32_t>(r.chance(60) ? 1 : r.between(1, p.limit));
            if (o.how == operation::way::attempt && r.chance(50)) o.weight = 0;
            if (o.weight != 1 && r.chance(40)) {
              o.downgrade_after = 1 + r.between(0, std::max<nanos>(o.hold, millisecond));
              o.downgrade_to = static_cast<std::uint32_t>(r.between(1, o.weight == 0 ? p.limit : o.weight - 1));
            }
            break;
          case permit_kind::shared:
            o.weight = r.chance(30) ? p.limit : 1;
            if (o.weight > 1 && r.chance(50))
              o.downgrade_after = 1 + r.between(0, std::max<nanos>(o.hold, millisecond));
            break;
          case permit_kind::segments:
            if (p.limit > 1 && r.chance(30)) o.visited = "," + std::to_string(r.between(1, p.limit)) + ",";
            break;
          case permit_kind::reentrant: o.visited = "owner" + std::to_string(r.between(1, 3)); break;
          case permit_kind::none: break;
        }
      }
    }
  }
  if (kind == permit_kind::shared || kind == permit_kind::reentrant) draw_levels(p);
  make_standstill(p);
  return p;
}

}  // namespace conch::sim
