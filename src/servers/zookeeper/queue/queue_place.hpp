// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "engine/backend.hpp"
#include "servers/zookeeper/names.hpp"
#include "servers/zookeeper/order.hpp"

#include <conch/clock.hpp>
#include <conch/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace conch::zookeeper {

struct queue_place;

/// The node that a place has, or asks for.
struct own_node {
  std::uint64_t number = 0;        // a new one for each that is asked for
  std::string node{};              // its path; empty: the answer has not come
  std::int64_t created = 0;        // the transaction that made it
  std::uint64_t made_in = 0;       // the session, counted
  std::uint64_t last_sent_on = 0;  // the connection on which something about it was sent last
  unsigned lists = 0;              // of the folder, under way for it
  unsigned answers_due = 0;        // requests under way whose answer shows whether there is a node
  bool leave_sent = false;         // on this connection
  bool left_before = false;        // the same on an earlier connection, unanswered
  error_code refusal{};            // why it is being removed; none: for what the cohort has asked
  unsigned folders_made = 0;       // since it was asked for
  bool asks_later = false;         // the server could not do it; `check` asks again
  time_point later_since{};        // and since when it cannot
  std::uint32_t interval_ms = 0;   // the minimum interval in its name; 0: none
  // the path of the node that keeps the lock for it, once that was asked for
  std::string keep{};
  std::uint64_t keep_sent_on = 0;  // the connection on which that is under way
  bool awaits_end = false;         // `check` fires when the interval of another grant is over
};

/// What checks a place when its timer has fired.
class place_checker {
 public:
  virtual void due(queue_place& p, time_point now) = 0;

 protected:
  ~place_checker() = default;
};

/// The place of a client at a lock: an ephemeral sequential node in the folder of the lock. The nodes before it
/// determine whether it has the lock (order.hpp).
struct queue_place final : engine::place, list_hook<queue_place>, own_node {
  queue_place(place_checker& mine, std::string_view lock_name, engine::permit const& share, std::string folder);

  place_checker& checker;
  std::string const folder;
  terms const asks;
  view ahead;                   // nodes before it
  bool watches_itself = false;  // owned: removing the node takes the hold away
  bool has_turn = false;        // no node blocks it, and the session's deadline has passed: a proof is waited for
  bool wants_renewal = false;   // the deadline could not be moved when that was asked for
  bool by_push = false;
  queue_place* primary = nullptr;       // a sharer: the place that has its node
  std::vector<queue_place*> sharers{};  // have its node, too
  time_point full_until{};              // owned: the end of the whole lease that was asked for
  time_point trouble_since{};
  std::uint64_t checked_in = 0;  // the session, counted, that has read the rights of the folder
  timer check;

  std::string path_of(std::string_view its_node) const { return folder + '/' + std::string{its_node}; }
  own_node& its_node() noexcept { return *this; }
  bool waits() const noexcept { return state == engine::place_state::asking || state == engine::place_state::in_line; }
};

/// A release or a leave that is not done yet.
struct cleanup final : list_hook<cleanup>, engine::awaited {
  cleanup(queue_place& p, std::uint64_t n) : place{p}, number{n} { ++p.references; }

  queue_place& place;
  std::uint64_t const number;
  std::string node;  // empty: it is not known whether there is one
  std::uint64_t made_in = 0;
  bool was_valid = false;  // of a hold
  bool sent = false, resent = false;
  time_point not_before = time_point::min();  // of a hold that was lost: the delay after that ends then
};

}  // namespace conch::zookeeper
