// A Cluster: what the judge of a master and its replicas says, for each of several masters, and what must be so while
// slots move.
#include "sim/judges/observer.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>

namespace conch::sim {

void observer::redirected() {
  steps_.clear();
  redirected_at_ = world_.now();
}

void observer::slots_in_trouble(nanos until, nanos unwell_until) {
  trouble_until_ = std::max(trouble_until_, until + world_.time_to_reroute());
  unwell_until_ = std::max(unwell_until_, unwell_until + world_.time_to_reroute());
}

/// No hold of that client is believed any more, or again, in slots of that node, of which the node has nothing.
void observer::asked_the_node(sim_client const& c, std::size_t node, char const* since) const {
  for (lock_watch const& w : locks_) {
    for (sim_acquisition const* a : w.active) {
      if (a->client != &c || a->orphaned_at < 0 || world_.decides(a->lock_number) != node || !is_believed(*a) ||
          has_it(*a))
        continue;
      throw violation{9, holder_words(*a) + " still believes in it " +
                             std::to_string((world_.now() - a->orphaned_at) / microsecond) +
                             " us after the master lost it, " + since};
    }
  }
}

/// P9: on its connection to a new master a client asks at once for all it holds there. The master may not know the
/// script yet.
void observer::node_connected(sim_client& c, std::shared_ptr<link> const& l) {
  std::size_t const node = l->node;
  if (plan_.replicas == 0 || !world_.is_at_master(*l) || world_.promoted_at(world_.shard_of_node(node)) < 0) return;
  nanos const round_trip = 2 * (plan_.latency + plan_.jitter) + plan_.latency + plan_.timer_lateness;  // a slow write
  nanos const turns = (1 + static_cast<nanos>(plan_.names)) * millisecond;
  std::vector<int> held;
  for (lock_watch const& w : locks_) {
    for (sim_acquisition const* a : w.active) {
      if (a->client == &c && c.keeper_of(*a) == l) held.push_back(a->lock_number);
    }
  }
  if (held.empty()) return;
  if (unwell_until_ >= world_.now()) return;
  world_.after(2 * round_trip + turns, [this, client = &c, l, since = world_.now(), held, changes = world_.changes()] {
    if (world_.changes() != changes) return;  // the node may have put it off
    if (!world_.is_at_master(*l) || !is_well(*client, l, since)) return;
    for (int const name : held) {
      if (world_.decides(name) == l->node) asked_the_node(*client, l->node, "on a connection to the new one");
    }
  });
}

/// So the exception ends soon after the former master has learned of it: its subscribers are told, and ask the new one.
void observer::former_master_knows(std::size_t shard) {
  if (world_.promoted_at(shard) < 0 || !only_slots_and_masters()) return;
  nanos const bound = world_.time_to_reroute() + static_cast<nanos>(plan_.names) * millisecond;
  if (trouble_until_ > world_.now() + world_.time_to_reroute()) return;  // something else is under way
  world_.after(bound, [this, shard, master = world_.master(shard), changes = world_.changes()] {
    if (world_.master(shard) != master || world_.changes() != changes) return;
    for (auto const& c : world_.clients()) {
      if (c->alive() && !c->is_closed())
        asked_the_node(*c, master, "though the former master has heard of the new one");
    }
  });
}

/// Nothing is wrong with this schedule but what happens to masters and slots.
bool observer::only_slots_and_masters() const {
  return plan_.spikes == 0 && plan_.may_kill &&
         std::none_of(plan_.faults.begin(), plan_.faults.end(),
                      [](fault_plan const& f) { return f.concerns_one_client(); });
}

}  // namespace conch::sim
