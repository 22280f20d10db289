// Deliberate faults, to see that the simulator finds them. A mutant of a script is a substitution in its text, made on
// the simulated server. A mutant of the C++ is an entry of a *.faults file in this folder: conch-overlay
// (tests/overlay) puts it into the simulator's copy of the sources.
#pragma once

#include "engine_mutants.hpp"  // made by conch-overlay

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace conch::sim {

struct mutant {
  std::string_view name;
  std::string_view words;  // what is wrong
  std::string_view rule;   // the rule it breaks: "†4 ..." or the like
  engine_mutant point = engine_mutant::none;
  std::string_view script = {};  // empty: all
  std::string_view from = {};    // the text, once at least in what the build embeds
  std::string_view to = {};
};

std::span<mutant const> all_mutants();
// Those about how a hold ends, what callers are told, and what only wide draws show.
std::span<mutant const> hold_mutants();
// Likewise, of the state machine of a connection.
std::span<mutant const> connection_mutants();
// Faults of a lock over several servers: for run_quorum.
std::span<mutant const> quorum_mutants();
// Faults of the scripts of locks with several owners; `rule` begins with the kinds in which each shows.
std::span<mutant const> permits_mutants();
// Faults of several locks at once: for make_multi_plan.
std::span<mutant const> multi_mutants();
// Faults of a master with replicas: for make_replicas_plan. Some of all_mutants, which must show there, too, and some
// that show nowhere else.
std::span<mutant const> replicas_mutants();
// Faults of holds that all replicas have: for make_synced_plan.
std::span<mutant const> synced_mutants();
// The same of permits, for make_synced_permits_plan; `rule` as in permits_mutants.
std::span<mutant const> synced_permits_mutants();
// Faults of a Cluster: for make_cluster_plan.
std::span<mutant const> cluster_mutants();
// Faults of the delay after a loss: for make_delays_plan.
std::span<mutant const> delays_mutants();
// Faults of chains of waits: for make_chains_plan.
std::span<mutant const> chains_mutants();
// Faults of a ZooKeeper ensemble: for run_zookeeper.
std::span<mutant const> zookeeper_mutants();
// The same where its locks are of all kinds, and where mutexes have minimum intervals.
std::span<mutant const> zookeeper_kinds_mutants();
std::span<mutant const> zookeeper_interval_mutants();
mutant const* find_mutant(std::string_view name);

// For this thread. Null: none.
void activate(mutant const* m);

// For this thread: the scripts do so little at once that a schedule of a few clients gets to where there is more to do.
constexpr std::int64_t small_steps = 3, small_few_owners = 2;
void use_small_steps(bool yes);

// The script that the argument of EVALSHA (its SHA-1) or EVAL (its source) means, as changed by the
// active mutant; otherwise the argument.
std::string_view mutated_script(std::string_view sha1_or_source);
std::string_view mutated_source(std::string_view name);
std::string_view script_name(std::string_view sha1_or_source);

}  // namespace conch::sim
