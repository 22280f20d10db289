// The states that were seen, of all threads of an exploration.
#pragma once

#include "sim/exhaustive/schedule.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace conch::sim {

/// What was left out when a state was seen first, because it is explored from elsewhere (its sleep set), and how many
/// steps were left. A second visit is needless if the first left out no more and could go as far. (Godefroid,
/// "Partial-Order Methods for the Verification of Concurrent Systems", 5.)
class visited {
 public:
  /// True: the state need not be gone into. Else it is noted.
  bool covers(std::uint64_t state, std::vector<choice> const& asleep, std::size_t steps_left) {
    part& p = parts_[state % parts_.size()];
    std::lock_guard const lock{p.guard};
    auto const [found, is_new] = p.states.try_emplace(state, seen{steps_left, asleep});
    if (is_new) {
      ++count_;
      return false;
    }
    seen& before = found->second;
    if (before.steps_left >= steps_left && includes(asleep, before.asleep)) return true;
    std::erase_if(before.asleep, [&](choice const& c) { return !includes(asleep, {c}); });
    before.steps_left = std::min(before.steps_left, steps_left);
    return false;
  }

  std::uint64_t count() const { return count_; }

 private:
  struct seen {
    std::size_t steps_left;
    std::vector<choice> asleep;
  };
  struct part {
    std::mutex guard;
    std::unordered_map<std::uint64_t, seen> states;
  };

  static bool includes(std::vector<choice> const& all, std::vector<choice> const& some) {
    return std::all_of(some.begin(), some.end(),
                       [&](choice const& c) { return std::find(all.begin(), all.end(), c) != all.end(); });
  }

  std::array<part, 16> parts_;
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace conch::sim
