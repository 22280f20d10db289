// The general judge's history of a world of one server: user_history, told in the terms of that world.
#pragma once

#include "sim/judges/user_history.hpp"

#include <cstdint>

namespace conch::sim {

struct sim_acquisition;

class lock_history {
 public:
  explicit lock_history(plan const& p);

  // ---- in the clients ----
  void asked(sim_acquisition& a, nanos now);
  void granted(sim_acquisition const& a, nanos now);
  void refused(sim_acquisition const& a, nanos now);
  void found_busy(sim_acquisition const& a);
  void renewed(sim_acquisition const& a);
  void extended(sim_acquisition const& a, nanos asked_at, nanos now);
  void released(sim_acquisition const& a, nanos now);  // or to be detached
  void release_answered(sim_acquisition const& a, history::outcome how, nanos now);
  void lost(sim_acquisition const& a, nanos now);
  void gone(sim_acquisition const& a, nanos now);
  /// A permit: it counts as what its holder has made of it since, also for the time before.
  void weighed(sim_acquisition const& a);
  void limited(int name, std::int64_t to) { seen_.limited(name, to); }

  // ---- what excuses ----
  void disowned(int name, std::int64_t fence, nanos now) { seen_.disowned(name, fence, now); }
  void clock_forward(nanos now) { seen_.all_disowned(now); }
  void fence_forgotten(int name, nanos now) { seen_.fence_forgotten(name, now); }
  void orphaned(sim_acquisition const& a, nanos since);
  void left_out(sim_acquisition const& a);

  using tally = user_history::tally;
  tally counted() const { return seen_.counted(); }
  history::operations all() const { return seen_.all(); }
  history::verdict judged() const { return seen_.judged(); }

 private:
  user_history seen_;
};

}  // namespace conch::sim
