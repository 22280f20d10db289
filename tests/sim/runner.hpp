// Runs schedules: one, many on several threads, and a failing one made small.
#pragma once

#include "sim/mutants/mutants.hpp"
#include "sim/worlds/plan.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace conch::sim {

struct outcome {
  int promise = 0;  // 0: none was broken
  std::string words;
  std::vector<std::string> trace;
  std::uint64_t scripts = 0;

  bool failed() const { return promise != 0; }
};

outcome run_plan(plan const& p, bool traced = false);
using plan_maker = std::function<plan(std::uint64_t)>;

outcome run_seed(std::uint64_t seed);

// The same violation with as little around it as can be found in `attempts` runs.
plan minimize(plan p, int promise, int attempts = 400);

// The trace of the minimized schedule, ready to print.
std::string explain(std::uint64_t seed, outcome const& found, plan_maker const& make = make_plan);

// The seed of the schedule at this place in a run.
std::uint64_t seed_at(std::uint64_t first, std::uint64_t index);

// How many of a test's schedules this build runs (CONCH_SIM_SHARE).
constexpr std::uint64_t share_of(std::uint64_t schedules) { return schedules / CONCH_SIM_SHARE; }

// Whether this build runs all of them. Only then a test asks how often what it looks for happened: in a few schedules
// that is chance.
constexpr bool all_schedules = CONCH_SIM_SHARE == 1;

struct finding {
  std::uint64_t index = 0;
  std::uint64_t seed = 0;
  outcome what;
  bool seen_before = false;  // in the schedule that the table names
};

// Runs schedules from `first` on, each from its seed; stops at a violation. If several are found at the same time, at
// the first one.
std::optional<finding> run_schedules(std::uint64_t seed, std::uint64_t first, std::uint64_t count, unsigned threads,
                                     mutant const* broken, std::function<outcome(std::uint64_t)> const& run,
                                     std::function<void(std::uint64_t)> const& progress = {});
std::optional<finding> run_many(std::uint64_t seed, std::uint64_t first, std::uint64_t count, unsigned threads,
                                mutant const* broken, std::function<void(std::uint64_t)> const& progress = {},
                                plan_maker const& make = make_plan);

// The schedule in which a mutant of that world was seen before, by the table mutants/seen_in.inc. None: it does not
// show there any more, since a change of the plans changes the schedules, and is searched for.
std::optional<finding> find_where_seen(std::string_view world, mutant const& m,
                                       std::function<outcome(std::uint64_t)> const& run);

// The schedule in which a mutant breaks a promise: the one in which it was seen before, or of `most` from `seed` on.
// A few take more schedules than a test has time for: `conch-sim --seen` finds them for the table.
std::optional<finding> find_broken(std::string_view world, mutant const& m, std::uint64_t seed, std::uint64_t most,
                                   std::function<outcome(std::uint64_t)> const& run, unsigned threads = 1);
std::optional<finding> find_broken(std::string_view world, mutant const& m, std::uint64_t seed, std::uint64_t most,
                                   plan_maker const& make = make_plan);

}  // namespace conch::sim
