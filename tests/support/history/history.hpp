// The history of a lock: what its users asked, what they were told, and when. It knows nothing of servers, scripts or
// clocks that drift: all times are of one clock. linearizable.hpp judges it, edn.hpp writes it for Jepsen's checkers.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace conch::history {

using nanoseconds = std::int64_t;
constexpr nanoseconds never = std::numeric_limits<nanoseconds>::max();

enum class action : std::uint8_t {
  acquire,  // waits
  attempt,  // does not wait
  extend,
  release,
  lost,      // the holder was told that its hold has ended: `invoked` is `completed`
  forgotten  // the server's: at that moment the lock forgets its last fence
};

enum class outcome : std::uint8_t {
  unknown,  // no answer, or one that does not say what happened
  granted,
  busy,      // of an attempt
  refused,   // timed out, cancelled, failed: it has no effect
  held,      // of an extend or a release: the hold was there until then
  not_held,  // the hold had ended by itself before
};

struct operation {
  action what = action::acquire;
  outcome how = outcome::unknown;
  std::string lock, process;
  std::uint64_t hold = 0;  // the same number for an acquire and all that is done with its hold
  nanoseconds invoked = 0;
  nanoseconds completed = never;  // never: nobody heard the answer
  std::int64_t fence = 0;         // of a grant
  std::uint32_t weight = 1;       // of what it asks for
  // For what grants or extends: until then the holder believed in its hold, whatever else happened. Of several
  // operations on a hold the latest counts.
  nanoseconds deadline = 0;
  // For a grant: from then on the promise of exclusion does not cover it, since the server lost its data or an operator
  // took the lock away. Its client may not know, and be told by its own process that it still holds the lock.
  nanoseconds excused = never;

  bool operator==(operation const&) const = default;
};

using operations = std::vector<operation>;

}  // namespace conch::history
