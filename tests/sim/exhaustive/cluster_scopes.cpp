// Small worlds of a Cluster of two masters, between which the slot of a lock moves.
#include "sim/exhaustive/small_plans.hpp"

namespace conch::sim {

namespace {

/// The keys move by their names, forwards or backwards.
plan with_a_moving_slot(plan p) {
  p.shards = 2;
  p.first_shards = {0};
  constexpr nanos at_most = 20 * millisecond;
  for (int const variant : {0, 1}) p.possible.push_back(fault(fault_plan::kind::move_slot, 0, at_most, 0, variant));
  for (client_plan& c : p.clients) c.settings.topology_refresh = std::chrono::seconds{60};
  return warmed_up(std::move(p));
}

}  // namespace

void add_scopes_of_a_cluster(std::vector<scope>& all) {
  auto const one = [] { return with_a_moving_slot(small_plan({{acquire()}})); };
  auto const two = [] { return with_a_moving_slot(small_plan({{acquire()}, {acquire()}})); };
  all.push_back(
      of_redis("slot-1c-1f", "in a Cluster a client acquires and releases, and the slot moves", {300, 1}, one()));
  all.push_back(of_redis("slot-1c-begin", "the same: every order of the first steps", {9, 1}, one()));
  all.push_back(
      of_redis("slot-2c-1f", "in a Cluster two clients acquire and release, and the slot moves", {300, 1}, two()));
}

}  // namespace conch::sim
