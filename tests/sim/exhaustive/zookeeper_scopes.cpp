// Small worlds of one ZooKeeper server.
#include "sim/exhaustive/small_plans.hpp"
#include "sim/worlds/zookeeper_world.hpp"

namespace conch::sim {

namespace {

/// A session ends when its client is paused for longer than the lease.
plan of_zookeeper(plan p) {
  for (client_plan& c : p.clients) {
    c.settings.zookeeper.session_margin = c.settings.lease / 6;
    c.settings.command_timeout = c.settings.lease / 3;
    c.settings.connect_timeout = c.settings.lease / 4;
    c.settings.reconnect_min = std::chrono::milliseconds{10};
  }
  return warmed_up(std::move(p));
}

}  // namespace

void add_scopes_of_zookeeper(std::vector<scope>& all) {
  auto const one = [] { return of_zookeeper(small_plan({{acquire()}})); };
  auto const two = [] { return of_zookeeper(small_plan({{acquire()}, {acquire()}})); };
  auto const three = [] { return of_zookeeper(small_plan({{acquire()}, {acquire()}, {acquire()}})); };
  all.push_back(scope_of<zookeeper_world>(
      "zookeeper-1c-1f",
      "in ZooKeeper's queue one client acquires and releases, and a connection is cut or a session ends", {300, 1},
      with_cuts_and_pauses(one())));
  all.push_back(scope_of<zookeeper_world>("zookeeper-2c-0f", "in ZooKeeper's queue two clients acquire and release",
                                          {300, 0}, two()));
  all.push_back(scope_of<zookeeper_world>("zookeeper-2c-1f", "the same, and a connection is cut or a session ends",
                                          {300, 1}, with_cuts_and_pauses(two())));
  all.push_back(scope_of<zookeeper_world>("zookeeper-3c-0f", "in ZooKeeper's queue three clients acquire and release",
                                          {300, 0}, three()));
}

}  // namespace conch::sim
