// Small worlds, each with a program per client and the faults that may happen to it.
#pragma once

#include "sim/exhaustive/schedule.hpp"
#include "sim/runner.hpp"

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace conch::sim {

struct scope {
  std::string name;
  std::string words;
  bounds limits;
  std::function<outcome(steps& order, bool traced)> run;
};

std::span<scope const> all_scopes();
scope const* find_scope(std::string_view name);

}  // namespace conch::sim
