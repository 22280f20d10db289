// Explores a scope: all its orders, on several threads, until all are done, a promise is broken, or it is enough.
#pragma once

#include "sim/exhaustive/scopes.hpp"
#include "sim/exhaustive/walk.hpp"

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace conch::sim {

struct tally {
  std::uint64_t runs = 0;     // of the world
  std::uint64_t orders = 0;   // of these, that went to the end; the others came to what is explored elsewhere
  std::uint64_t cut_off = 0;  // of the orders: by the bound on steps, and then in the order of time
  std::uint64_t deepest = 0;  // steps of an order
  std::uint64_t states = 0;
  double seconds = 0;  // of processors
  double share = 0;    // of the tree: an estimate
};

struct broken_promise {
  outcome what;
  path where;
};

struct explored {
  tally counts;
  std::optional<broken_promise> found;
  bool finished = false;
};

struct exploring {
  reductions reduced = {};
  unsigned threads = 1;
  mutant const* broken = nullptr;
  std::uint64_t most_runs = UINT64_MAX;
  double most_seconds = 1e18;
  // the file in which it is noted how far it is; if it is there, it goes on from that. Empty: none
  std::string checkpoint = {};
  std::function<void(tally const&)> progress = {};  // once a second
};

explored explore(scope const& s, exploring const& how);

/// One order, by its path.
outcome run_path(scope const& s, path const& p, mutant const* broken, bool traced);

}  // namespace conch::sim
