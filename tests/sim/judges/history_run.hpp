// One schedule for its history alone.
#pragma once

#include "sim/judges/lock_history.hpp"
#include "sim/runner.hpp"
#include "support/history/linearizable.hpp"

namespace conch::sim {

struct history_run {
  outcome others;  // what the other judges say; an objection ends the schedule
  history::operations saw;
  history::verdict judged;  // of the history until then
  lock_history::tally counted;

  /// As if there were no other judge.
  outcome alone() const;
};

/// `muted`: most of the other judges object to nothing, so that the schedule goes on.
history_run run_for_history(plan const& p, bool muted = false);

}  // namespace conch::sim
