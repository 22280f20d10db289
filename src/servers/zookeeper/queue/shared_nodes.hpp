// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/queue/cleanups.hpp"
#include "servers/zookeeper/queue/common_parts.hpp"
#include "servers/zookeeper/queue/keeps.hpp"

#include <string>
#include <unordered_map>
#include <vector>

namespace conch::zookeeper {

/// Several places of one owner at one reentrant lock have one node in this client. The primary is the one that is
/// queued with it; the sharers have what it has, and one of them takes the node over when the primary leaves. The last
/// one that leaves removes the node.
class shared_nodes {
 public:
  shared_nodes(common_parts& on, keeps& kept, cleanups& pending) noexcept : on_{on}, keeps_{kept}, cleanups_{pending} {}
  shared_nodes(shared_nodes const&) = delete;
  shared_nodes& operator=(shared_nodes const&) = delete;

  bool share_node(queue_place& p, time_point now);
  static void leave_node(queue_place& p);
  void rest_sharers(queue_place& primary, time_point now);
  void stop_sharing(queue_place& p);
  void granted_to_owner(queue_place& p, time_point now);
  queue_place& pass_on(queue_place& from, time_point now);
  void pass_on_the_asking(queue_place& from, time_point now);
  void ask_again(queue_place& p, time_point now);
  static std::vector<queue_place*> sharing_with(queue_place& p);
  void become_idle(queue_place& p, time_point now);
  bool withdraw(queue_place& p, time_point now);

 private:
  static void join_node(queue_place& p, queue_place& primary);
  queue_place& promote_first(queue_place& from);

  common_parts& on_;
  keeps& keeps_;
  cleanups& cleanups_;
  // by owner and lock: the place whose node others of that owner join
  std::unordered_map<std::string, queue_place*> primaries_;
};

}  // namespace conch::zookeeper
