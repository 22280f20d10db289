// Small worlds of one ZooKeeper server.
#include "base/turns.hpp"
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

plan with_faults(plan p) {
  for (int i = 0; i < static_cast<int>(p.clients.size()); ++i) {
    add(p.possible, cuts(i));
    p.possible.push_back(pause_of(i));
  }
  return p;
}

scope of_plan(std::string name, std::string words, bounds limits, plan p) {
  auto run = [p = std::move(p)](steps& order, bool traced) {
    in_one_turn = p.steps_in_one_turn;
    zookeeper_world w{p, traced, order};
    outcome result = outcome_of(w);
    result.trace = std::move(w.lines);
    return result;
  };
  return {std::move(name), std::move(words), limits, std::move(run)};
}

}  // namespace

void add_scopes_of_zookeeper(std::vector<scope>& all) {
  auto const one = [] { return of_zookeeper(small_plan({{acquire()}})); };
  auto const two = [] { return of_zookeeper(small_plan({{acquire()}, {acquire()}})); };
  auto const three = [] { return of_zookeeper(small_plan({{acquire()}, {acquire()}, {acquire()}})); };
  all.push_back(
      of_plan("zookeeper-1c-1f",
              "in ZooKeeper's queue one client acquires and releases, and a connection is cut or a session ends",
              {300, 1}, with_faults(one())));
  all.push_back(of_plan("zookeeper-2c-0f", "in ZooKeeper's queue two clients acquire and release", {300, 0}, two()));
  all.push_back(
      of_plan("zookeeper-2c-1f", "the same, and a connection is cut or a session ends", {300, 1}, with_faults(two())));
  all.push_back(
      of_plan("zookeeper-3c-0f", "in ZooKeeper's queue three clients acquire and release", {300, 0}, three()));
}

}  // namespace conch::sim
