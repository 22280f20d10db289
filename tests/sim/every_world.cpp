#include "sim/every_world.hpp"

#include "sim/worlds/quorum_world.hpp"
#include "sim/worlds/zookeeper_world.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace conch::sim {

namespace {

using engine::permit_kind;

kind_of_world of_plans(std::string name, std::string options, plan_maker make, std::span<mutant const> mutants) {
  auto run = [make](std::uint64_t seed, bool traced) { return run_plan(make(seed), traced); };
  return {std::move(name), std::move(options), std::move(run), std::move(make), mutants};
}

template <class Outcome>
outcome as_outcome(Outcome o) {
  return {o.promise, std::move(o.words), std::move(o.trace), o.grants};
}

kind_of_world of_zookeeper(std::string options, zookeeper_locks locks) {
  auto run = [locks](std::uint64_t seed, bool traced) { return as_outcome(run_zookeeper(seed, traced, locks)); };
  return {std::string{name_of(locks)}, std::move(options), std::move(run), {}, mutants_of(locks)};
}

std::vector<kind_of_world> make_every_world() {
  std::vector<kind_of_world> all;
  all.push_back(of_plans("one server", "", make_plan, all_mutants()));
  all.push_back(of_plans("multi", "--kind multi", make_multi_plan, multi_mutants()));
  for (auto const& [kind, word] : {std::pair{permit_kind::semaphore, "semaphore"},
                                   {permit_kind::shared, "shared"},
                                   {permit_kind::segments, "striped"},
                                   {permit_kind::reentrant, "reentrant"}}) {
    auto const letter = static_cast<char>(kind);
    std::string const name = std::string{"permits "} + letter, option = std::string{"--kind "} + word;
    auto const make = [kind = kind](std::uint64_t seed) { return make_permits_plan(seed, kind); };
    auto const make_synced = [kind = kind](std::uint64_t seed) { return make_synced_permits_plan(seed, kind); };
    all.push_back(of_plans(name, option, make, permits_mutants()));
    all.back().kind = letter;
    all.push_back(of_plans("synced " + name, "--synced " + option, make_synced, synced_permits_mutants()));
    all.back().kind = letter;
  }
  all.push_back(of_plans("synced", "--synced", make_synced_plan, synced_mutants()));
  all.push_back(of_plans("replicas", "--replicas", make_replicas_plan, replicas_mutants()));
  all.push_back(of_plans("cluster", "--cluster", make_cluster_plan, cluster_mutants()));
  auto run_of_quorum = [](std::uint64_t seed, bool traced) { return as_outcome(run_quorum(seed, traced)); };
  all.push_back({"quorum", "--quorum", run_of_quorum, {}, quorum_mutants()});
  all.push_back(of_zookeeper("--zookeeper", zookeeper_locks::mutexes));
  all.push_back(of_zookeeper("--zookeeper --kind all", zookeeper_locks::of_all_kinds));
  all.push_back(of_plans("delays", "--delays", make_delays_plan, delays_mutants()));
  all.push_back(of_plans("chains", "--chains", make_chains_plan, chains_mutants()));
  all.push_back(of_zookeeper("--zookeeper --kind intervals", zookeeper_locks::with_intervals));
  return all;
}

}  // namespace

std::span<kind_of_world const> every_world() {
  static std::vector<kind_of_world> const all = make_every_world();
  return all;
}

kind_of_world const* find_world(std::string_view options) {
  auto const all = every_world();
  auto const found = std::ranges::find(all, options, &kind_of_world::options);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace conch::sim
