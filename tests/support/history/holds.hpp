// What the operations of one hold say together: between which moments it was granted and ended.
#pragma once

#include "support/history/history.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace conch::history {

struct interval {
  nanoseconds from = 0, to = never;
};

struct hold_record {
  operation const* acquire = nullptr;
  interval granted;  // .to is never: perhaps it was not
  interval ended;    // .to is never: perhaps it has not
  nanoseconds deadline = 0;
  std::vector<interval> seen;      // it was there at some moment of each
  operation const* end = nullptr;  // the release or the loss that tells
};

/// The holds of one lock. What breaks a rule of a single hold goes into `wrong`.
std::vector<hold_record> holds_in(operations const& of_one_lock, std::string& wrong);

}  // namespace conch::history
