// Judges what all workers asked and were told, after the fact, with the general judge of support/history: also who was
// refused, what a release said, and holds that their own resource did not guard.
#pragma once

#include "chaos/witness.hpp"
#include "support/history/linearizable.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace conch::test {

/// A server came back without what it had acknowledged.
struct data_loss {
  std::int64_t from = 0, to = 0;  // fences of grants just before it was killed, and when it was back
  std::int64_t killed = 0;        // and just after it was killed,
  nanoseconds_of_boot at = 0;     // at this moment
};

class history_judge {
 public:
  void add(history::operations const& some);
  /// Judges the histories of mutexes. Nothing but these losses excuses two holds at a time.
  std::vector<std::string> judge(std::vector<data_loss> const& losses);
  /// One file for each lock, as they were told: docs/proof.md.
  void write(std::string const& directory) const;

  std::size_t operations() const;
  /// Locks whose history was too large to judge.
  std::size_t undecided() const noexcept { return undecided_; }

 private:
  std::map<std::string, history::operations> by_lock_;
  std::size_t undecided_ = 0;
};

}  // namespace conch::test
