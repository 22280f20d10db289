// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/names.hpp"

#include <conch/detail/api.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The order in a queue: which node is granted, and which nodes to watch. No I/O, no clock, no state.
//
// The rule. m is the least limit that any node up to and including mine names. My node is granted when the sum of
// min(weight, m), over all nodes up to and including mine, is at most m. No node comes in before another, so what is
// granted stays granted. A mutex is 1 of 1.
//
// A blocked node stays blocked as long as some nodes exist that block it without the others: more nodes never unblock
// it. So it watches the nearest nodes that together block it, and as many more before them.
//
// A node that keeps the lock (keep_name) keeps out all but the node of its own grant, wherever they are in the queue.
namespace conch::zookeeper {

/// What a node takes.
struct share {
  std::uint32_t weight = 1, limit = 1;

  friend bool operator==(share const&, share const&) = default;
};

inline share share_of(terms const& t) noexcept { return {t.weight, t.limit}; }

/// Adds up those ahead of a node, in any order.
class room_for {
 public:
  explicit room_for(share mine) noexcept : greatest_{mine.weight}, limit_{mine.limit}, sum_{mine.weight} {}

  void add(share ahead) noexcept;
  /// A weight of m or more leaves nothing to the others, each of which takes at least 1. All smaller ones count as they
  /// are.
  bool is_enough() const noexcept;

 private:
  std::uint32_t greatest_, limit_;
  std::uint64_t sum_;
  std::size_t ahead_ = 0;
};

/// A node ahead.
struct node_ahead {
  std::string name;
  share takes;
};

/// What is known of those ahead since the folder was last listed.
struct view {
  std::vector<node_ahead> watched;  // the nearest first
  std::size_t others = 0;           // before these
  bool may_be_kept = false;         // one of them has a minimum interval, or a node keeps the lock for one

  enum class step : std::uint8_t { nothing, granted, lists };
  /// One that is watched is gone.
  step gone(std::string_view name, share mine);
};

/// What a list of the folder shows of a node.
struct verdict {
  enum class kind : std::uint8_t {
    granted,
    waits,
    kept,           // its turn comes when the minimum interval of an earlier grant is over
    not_there,      // it has been removed
    other_kind,     // the first in line is of another kind
    owner_is_away,  // its owner is before it through another client
    has_no_place,   // its number is not its own (is_place)
  };

  kind is = kind::not_there;
  view ahead{};              // waits, kept: the node that keeps the lock
  std::string_view whose{};  // other_kind, owner_is_away: the name of that node
};

/// `mine`: the name of the node that asks. `names` must outlive what is returned.
CONCH_API verdict judge(std::span<std::string const> names, std::string_view mine);

}  // namespace conch::zookeeper
