// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/redis/dialogue.hpp"
#include "servers/redis/locator.hpp"
#include "servers/redis/topology/cluster.hpp"

#include <span>
#include <string>
#include <string_view>

namespace conch::redis {

/// The exchange with the node that is asked for the map: HELLO, and CLUSTER SLOTS again and again. And which node that
/// is: both roles of the connection. No I/O.
class cluster_talk final : public dialogue, public locator {
 public:
  using owner = topology_owner;

  /// `core` and `of` outlive this.
  cluster_talk(cluster& core, owner& of) : core_{core}, owner_{of} {}

  location locate(address& to, time_point now) override;
  std::string begin(address const& where, std::string const& client_name) override;
  progress received(std::span<resp::node const> message, bool is_push, time_point now) override;
  void ended(protocol::fault what, std::string_view why) override;

  /// The bytes that ask for the map. Only on a connection that received() has found good.
  std::string question();

 private:
  progress hello(std::span<resp::node const> message);

  cluster& core_;
  owner& owner_;
  address where_;
  bool greeted_ = false;     // HELLO is answered
  unsigned unanswered_ = 0;  // questions
};

}  // namespace conch::redis
