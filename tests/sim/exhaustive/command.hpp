// conch-sim --exhaustive
#pragma once

#include "sim/mutants/mutants.hpp"

#include <span>
#include <string>

namespace conch::sim {

struct exhaustive_options {
  std::string scope;
  unsigned threads = 1;
  mutant const* broken = nullptr;
  std::string checkpoint;  // a file; empty: none
  std::string path;        // one order instead of all
  bool replays = false;
  bool unreduced = false;
  int faults = 0;  // instead of the scope's own bound; 0: that one
  double most_seconds = 1e18;
};

/// The exit code: 0 if nothing was found.
int run_exhaustive(exhaustive_options const& o);

/// Each deliberate fault in turn, for no longer than `most_seconds` each. Prints which it finds, and after how many
/// runs.
int run_exhaustive_mutants(exhaustive_options const& o, std::span<mutant const> all);

}  // namespace conch::sim
