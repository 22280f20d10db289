// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

namespace conch::rules {

/// What differs between the kinds of locks, beside what fits.
struct kind_rules {
  bool in_order;       // nobody in line is passed over
  bool whole_ms;       // a lease lasts to the end of its last millisecond, as a key of Redis; else to the microsecond
  bool looks_at_head;  // whoever asks again finds out whether the first in line is still there
};

constexpr kind_rules rules_of(engine::permit_kind kind) {
  switch (kind) {
    case engine::permit_kind::none: return {true, true, false};
    case engine::permit_kind::semaphore:
    case engine::permit_kind::shared: return {true, false, true};
    case engine::permit_kind::segments:
    case engine::permit_kind::reentrant: break;
  }
  return {false, false, true};
}

}  // namespace conch::rules
