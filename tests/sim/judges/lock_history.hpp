// What the users of the simulated locks asked and were told, for the general judge (support/history). It looks at no
// script, and knows of the servers only what excuses a second hold: docs/guarantees.md, P1 and P2.
#pragma once

#include "sim/worlds/plan.hpp"
#include "support/history/linearizable.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

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
  /// At some time its limit may be that.
  void limited(int name, std::int64_t to);

  // ---- what excuses ----
  /// Grants of that lock up to this fence of the server exclude nobody any more.
  void disowned(int name, std::int64_t fence, nanos now);
  /// No grant so far does, of any lock.
  void clock_forward(nanos now);
  void fence_forgotten(int name, nanos now);
  /// The master has nothing of that hold; or it has it after all.
  void orphaned(sim_acquisition const& a, nanos since);
  /// No promise covers it: somebody forged it, or another server granted it than the one that decides.
  void left_out(sim_acquisition const& a);

  struct tally {
    std::uint64_t operations = 0, grants = 0, excused = 0, left_out = 0;
    void add(tally const& other);
  };
  tally counted() const;
  history::operations all() const;
  /// Also when it is not over yet.
  history::verdict judged() const;

 private:
  struct record {
    history::operation acquire;
    history::operation release;  // .hold is 0: it was not asked for
    nanos lost_at = -1;
    nanos orphaned_at = -1;
    bool is_left_out = false;
    std::uint32_t segment = 0;
  };

  /// For grants up to that fence which were asked for earlier.
  struct excuse {
    nanos at;
    std::int64_t fence;
  };

  record* of(sim_acquisition const& a);
  history::operations of_lock(int name) const;
  history::specification of_its_limit(int name) const;
  std::vector<history::operations> parts_of(int name) const;

  plan const& plan_;
  history::specification specified_;
  struct lock {
    std::vector<record> records;
    history::operations others;  // extensions, and that its fence was forgotten
    std::vector<excuse> excuses;
    std::int64_t highest_limit = 0;  // 0: it is that of the plan
  };
  std::vector<lock> locks_;
};

/// In all worlds of this process so far: histories that were too large to judge.
std::uint64_t undecided_histories();

}  // namespace conch::sim
