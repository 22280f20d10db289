// What the users of simulated locks asked and were told, for the general judge (support/history). It looks at no
// script, and knows of the servers only what excuses a second hold: docs/guarantees.md, P1 and P2.
#pragma once

#include "sim/worlds/plan.hpp"
#include "support/history/linearizable.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace conch::sim {

/// An acquire, and the hold that it becomes.
struct acquire_key {
  int lock = 0;
  std::size_t number = 0;  // 0: it is not in the history
};

class user_history {
 public:
  user_history(int locks, history::specification const& of_each);

  acquire_key asked(int lock, bool once, std::string process, nanos now);
  void granted(acquire_key const& a, std::int64_t fence, nanos now, std::uint32_t permits = 1);
  void refused(acquire_key const& a, nanos now);
  void found_busy(acquire_key const& a);
  /// The hold is good until then.
  void good_until(acquire_key const& a, nanos deadline);
  void extended(acquire_key const& a, nanos asked_at, nanos now);
  void released(acquire_key const& a, nanos now);  // or to be detached
  void release_answered(acquire_key const& a, history::outcome how, nanos now);
  void lost(acquire_key const& a, nanos now);
  /// It counts as the least that its holder has made of it, also for the time before.
  void weighs(acquire_key const& a, std::uint32_t permits);
  void has_segment(acquire_key const& a, std::uint32_t segment);
  /// At some time its limit may be that.
  void limited(int lock, std::int64_t to);

  // ---- what excuses ----
  /// Grants of that lock up to this fence of the server exclude nobody any more.
  void disowned(int lock, std::int64_t fence, nanos now);
  /// No grant so far does, of any lock.
  void all_disowned(nanos now);
  void fence_forgotten(int lock, nanos now);
  void fences_may_fall() { specified_.fences_rise = false; }
  /// The master has nothing of that hold; or it has it after all.
  void orphaned(acquire_key const& a, nanos since);
  /// No promise covers it: somebody forged it, or another server granted it than the one that decides.
  void left_out(acquire_key const& a);

  struct tally {
    std::uint64_t operations = 0, grants = 0, excused = 0, left_out = 0;
    void add(tally const& other);
  };
  tally counted() const;
  history::operations all() const;
  /// Also when it is not over yet.
  history::verdict judged() const;
  /// Throws a violation if there is no order that explains what users were told.
  void demand_order() const;

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

  struct of_a_lock {
    std::vector<record> records;
    history::operations others;  // extensions, and that its fence was forgotten
    std::vector<excuse> excuses;
    std::int64_t highest_limit = 0;  // 0: it is that of the specification
  };

  record* of(acquire_key const& a);
  history::operations of_lock(int name) const;
  history::specification of_its_limit(int name) const;
  std::vector<history::operations> parts_of(int name) const;

  history::specification specified_;
  std::vector<of_a_lock> locks_;
};

/// In all worlds of this process so far: histories that were too large to judge.
std::uint64_t undecided_histories();

}  // namespace conch::sim
