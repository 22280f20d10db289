// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

namespace conch::rules {

/// What differs between the kinds of locks, beside what fits (rules/kinds.inc).
struct kind_rules {
  bool in_order;
  bool whole_ms;
  bool looks_at_head;
};

constexpr kind_rules rules_of(engine::permit_kind kind) {
  switch (kind) {
#define CONCH_KIND(name, letter, in_order, whole_ms, looks_at_head) \
  case engine::permit_kind::name:                                   \
    return {in_order, whole_ms, looks_at_head};
#define CONCH_NUMBER(name, value)
#include "rules/kinds.inc"
#undef CONCH_KIND
#undef CONCH_NUMBER
  }
  return {};
}

// What is written out elsewhere agrees with the table.
using engine::most_permits;
using protocol::fence_epoch_us;
#define CONCH_KIND(name, letter, in_order, whole_ms, looks_at_head) \
  static_assert(engine::permit_kind::name == engine::permit_kind{letter} && engine::is_lock_kind(letter));
#define CONCH_NUMBER(name, value) static_assert(name == value);
#include "rules/kinds.inc"
#undef CONCH_KIND
#undef CONCH_NUMBER

}  // namespace conch::rules
