// What the programs and the faults of small worlds are made of.
#pragma once

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
fault_plan pause_of(int client);

void add(std::vector<fault_plan>& all, std::vector<fault_plan> some);

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

/// A scope of one Redis server, of one with a replica, or of a Cluster.
scope of_redis(std::string name, std::string words, bounds limits, plan p);

// The scopes of each kind of server.
void add_scopes_of_one_server(std::vector<scope>& all);
void add_scopes_of_chains(std::vector<scope>& all);
void add_scopes_of_a_cluster(std::vector<scope>& all);
void add_scopes_of_a_quorum(std::vector<scope>& all);
void add_scopes_of_zookeeper(std::vector<scope>& all);

}  // namespace conch::sim
