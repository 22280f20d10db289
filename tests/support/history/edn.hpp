// A history as the checkers of Jepsen (Knossos) read it: one map a line in EDN, for their model `mutex`.
#pragma once

#include "support/history/history.hpp"

#include <string>

namespace conch::history {

/// The history of one mutex. Each acquire is an operation of a process, and so is the end of each hold, whatever causes
/// it: a release, a loss, or its deadline, from which on the hold may end at any moment. What nobody heard the end of
/// is `:info`, what had no effect `:fail`. Extensions and excuses are in it only by what they say about the end of a
/// hold; fences are the `:value` of a grant, which the model does not compare.
std::string to_edn(operations const& of_one_lock);

}  // namespace conch::history
