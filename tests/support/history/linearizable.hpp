// A general judge: is there an order of all operations, each at one moment between its call and its answer, in which a
// lock that does one thing at a time gives the same answers?
//
// It is the search of Wing and Gong (1993) with the memory of Lowe (2017): a set of operations that has been placed
// before is not searched again. Locks do not depend on each other, so each is judged by itself.
#pragma once

#include "support/history/history.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace conch::history {

/// What a lock does, one operation at a time. A hold is there from its grant until it is released. It may also end by
/// itself: when it is lost, or at any moment from its deadline on.
struct specification {
  std::uint32_t limit = 1;  // the weights of the holds that are there at one moment; 1: a mutex
  bool fences_rise = true;  // from each grant to the next
  enum class busy_rule : std::uint8_t {
    anything,  // an attempt may always be told that the lock is busy
    // only if another acquire or hold of the same lock overlaps it, or ended no longer than `settling` before
    wanted,
    held,  // only if the holds that are there leave no room for it
  };
  busy_rule busy = busy_rule::anything;
  nanoseconds settling = 0;

  static specification mutex() { return {}; }
  static specification permits(std::uint32_t limit) {
    specification s;
    s.limit = limit;
    return s;
  }
};

struct verdict {
  enum class answer : std::uint8_t { linearizable, broken, too_large };

  answer is = answer::linearizable;
  std::string lock;         // where it is broken or too large
  std::string words;        // what cannot be placed, and beside what
  std::uint64_t tried = 0;  // so many placements

  bool broken() const { return is == answer::broken; }
};

/// Placements that are tried for one lock before the judge gives up and says so.
constexpr std::uint64_t most_placements = 1'000'000;

/// Judges one lock.
verdict judge_lock(operations const& of_one_lock, specification const& what, std::uint64_t most = most_placements);

/// Judges all locks in it: the first that is broken; else the first that is too large; else linearizable.
verdict judge(operations const& all, specification const& what, std::uint64_t most = most_placements);

}  // namespace conch::history
