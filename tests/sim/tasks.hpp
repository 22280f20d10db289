// What conch-sim does, of each kind. The result is the exit code: 0 if nothing was found.
#pragma once

#include "sim/every_world.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>

namespace conch::sim {

struct task {
  kind_of_world const* world = &every_world().front();
  std::uint64_t schedules = 0, seed = 1;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  mutant const* broken = nullptr;
  bool history_only = false;  // most of the judges are muted

  outcome run(std::uint64_t of, bool traced = false) const;
};

int search(task const& t);
/// `full`: prints the whole trace.
int replay(task const& t, std::uint64_t seed, bool full);
/// Into a folder. For a world of plans.
int write_histories(task const& t, std::uint64_t seed, std::string const& folder);
/// 0 if each was found.
int find_mutants(task const& t);
/// For each world, as the table mutants/seen_in.inc. 0 if each shows in a schedule.
int write_seen(task const& like, std::string const& path);
/// For a world of plans.
int compare_judges(task const& t);
int print_digest(task const& t, std::uint64_t count);

}  // namespace conch::sim
