// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/messages.hpp"

#include <span>
#include <string>

// Which other users may change a node. No I/O, no clock.
namespace conch::zookeeper {

struct strangers {
  bool anyone = false;  // anyone that reaches the servers may, or anyone from certain addresses
  std::string named{};  // users that may: "digest:admin, sasl:ops"; no password is in it

  bool any() const noexcept { return anyone || !named.empty(); }
};

/// Those that may write to a node, or make and remove nodes in it, and are none of this client's users. `of`: the
/// rights to the node; `mine`: those to a node that this client has made for its own users alone. A server that hides
/// the password of a digest has 'x' in its place: then each user of `mine` is one entry of `of`, and another entry with
/// that name is another user.
strangers writers_beside(std::span<right const> mine, std::span<right const> of);

}  // namespace conch::zookeeper
