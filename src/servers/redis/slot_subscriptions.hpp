// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace conch::redis {

/// The slots of a Cluster whose channels one connection to a node is subscribed to, and the subscriptions that are not
/// answered yet. A place is the number of answers of the connection that come before. No I/O, no clock.
class slot_subscriptions {
 public:
  /// A new connection: it is subscribed to nothing. `home`: the slot that a subscribe_command is about.
  void begin(unsigned home);

  /// The slot to subscribe to in front of this command, which has this place. None: there is no need. `behind_auth`: an
  /// AUTH is not answered yet.
  std::optional<unsigned> before(protocol::command const& c, std::int64_t place, bool behind_auth);

  /// Does this message, after `answers` answers, belong to one of these subscriptions? A push confirms it, an answer is
  /// an error.
  /// `auth_is_out`: an AUTH is not answered yet.
  bool is_own(std::int64_t answered, bool is_push, bool auth_is_out);

  /// The node has ended the subscription.
  void ended(unsigned slot) noexcept { is_subscribed_[slot] = false; }

 private:
  struct subscription {
    unsigned slot;
    std::int64_t place;
    bool behind_auth;
  };
  std::vector<bool> is_subscribed_;  // to each slot, or about to be
  std::deque<subscription> not_answered_;
  unsigned home_ = 0;
};

}  // namespace conch::redis
