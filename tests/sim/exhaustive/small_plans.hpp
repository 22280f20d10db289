// What the programs and the faults of small worlds are made of.
#pragma once

#include "base/turns.hpp"
#include "sim/exhaustive/scopes.hpp"
#include "sim/judges/observer.hpp"
#include "sim/worlds/plan.hpp"

#include <string>
#include <utility>
#include <vector>

namespace conch::sim {

constexpr nanos longest_way = 2 * millisecond;  // of a message, and of a user between two steps
constexpr nanos lease_of_scopes = 480 * millisecond;
constexpr nanos some_time = 1;  // as short or long as `longest_way` allows

/// The programs, one of each client.
plan small_plan(std::vector<std::vector<operation>> programs);

/// Each client has had its lock once when it begins: it is connected to where the lock is, and folders are made.
plan warmed_up(plan p);

operation acquire();
operation attempt();
operation cancelled();
operation held_for(nanos how_long);

fault_plan fault(fault_plan::kind what, int client = 0, nanos length = 0, nanos length2 = 0, int variant = 0);
/// Each way in which a connection may break; `server`: of several.
std::vector<fault_plan> cuts(int client, int server = 0);

void add(std::vector<fault_plan>& all, std::vector<fault_plan> some);

/// Any client may lose its connection, or be paused; by default for longer than a lease.
plan with_cuts_and_pauses(plan p, nanos pause = lease_of_scopes + lease_of_scopes / 4);

/// Runs a world, and reports the promise that it breaks, if any.
template <class World>
outcome outcome_of(World& w) {
  outcome result;
  try {
    w.run();
  } catch (violation const& v) {
    result.promise = v.promise;
    result.words = v.what();
    w.say(result.words);
  }
  return result;
}

/// What a World is made with, but for the steps: a plan, and what else it asks for.
template <class World, class... More>
scope scope_of(std::string name, std::string words, bounds limits, plan p, More... more) {
  auto run = [p = std::move(p), more...](steps& order, bool traced) {
    in_one_turn = p.steps_in_one_turn;
    World w{p, more..., traced, order};
    outcome result = outcome_of(w);
    result.trace = std::move(w.lines);
    return result;
  };
  return {std::move(name), std::move(words), limits, std::move(run)};
}

/// A scope of one Redis server, of one with a replica, or of a Cluster.
scope of_redis(std::string name, std::string words, bounds limits, plan p);

// The scopes of each kind of server.
void add_scopes_of_one_server(std::vector<scope>& all);
void add_scopes_of_chains(std::vector<scope>& all);
void add_scopes_of_a_cluster(std::vector<scope>& all);
void add_scopes_of_a_quorum(std::vector<scope>& all);
void add_scopes_of_zookeeper(std::vector<scope>& all);

}  // namespace conch::sim
