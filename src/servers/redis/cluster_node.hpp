// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <optional>
#include <string_view>

namespace conch::redis {

/// What a connection to a node of a Cluster knows and reports beyond the protocol. No I/O.
class cluster_node {
 public:
  /// The first digits of its id, in the names of channels. They stay the same while a connection lasts.
  virtual std::string_view digits() const = 0;
  /// A slot that it has, by what is known when a connection begins; none: it has no slots.
  virtual std::optional<unsigned> home() const = 0;
  /// The text of an error that was reported to the protocol as "later": MOVED, ASK, TRYAGAIN, CLUSTERDOWN.
  virtual void put_off(std::string_view words, time_point now) = 0;
  /// The node has ended the subscription to the channel of that slot, unasked: the slot is another node's, or it is a
  /// replica now.
  virtual void unsubscribed(unsigned slot, time_point now) = 0;

 protected:
  ~cluster_node() = default;
};

}  // namespace conch::redis
