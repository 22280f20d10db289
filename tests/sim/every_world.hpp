// The simulated worlds, each with each kind of lock that it has: a row for each.
#pragma once

#include "sim/runner.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace conch::sim {

struct kind_of_world {
  std::string name;     // as in the table of where mutants were seen
  std::string options;  // of conch-sim; empty: none
  std::function<outcome(std::uint64_t seed, bool traced)> run;
  plan_maker make = {};  // none: this world has no plans, so its schedules are not made smaller
  std::span<mutant const> mutants = {};
  char kind = 0;  // of a lock with several owners: only mutants whose rule names it concern this world

  bool concerns(mutant const& m) const {
    return kind == 0 || m.rule.substr(0, m.rule.find(' ')).find(kind) != std::string_view::npos;
  }
};

std::span<kind_of_world const> every_world();

// Null: no world has these options.
kind_of_world const* find_world(std::string_view options);

}  // namespace conch::sim
