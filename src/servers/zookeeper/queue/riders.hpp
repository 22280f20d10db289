// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/queue/cleanups.hpp"
#include "servers/zookeeper/queue/common_parts.hpp"
#include "servers/zookeeper/queue/keeps.hpp"

#include <string>
#include <unordered_map>
#include <vector>

namespace conch::zookeeper {

/// Several places of one owner at one reentrant lock have one node in this client. The carrier is the one that is
/// queued with it; the others ride: they have what it has, and one of them takes the node over when it goes. The last
/// one that goes takes the node with it.
class riders {
 public:
  riders(common_parts& on, keeps& kept, cleanups& owed) noexcept : on_{on}, keeps_{kept}, owed_{owed} {}
  riders(riders const&) = delete;
  riders& operator=(riders const&) = delete;

  bool ride(standing& s, time_point now);
  static void dismount(standing& s);
  void rest_riders(standing& carrier, time_point now);
  void carry_no_more(standing& s);
  void granted_to_owner(standing& s, time_point now);
  standing& pass_on(standing& from, time_point now);
  void pass_on_the_asking(standing& from, time_point now);
  void ask_anew(standing& s, time_point now);
  static std::vector<standing*> sharing_with(standing& s);
  void become_idle(standing& s, time_point now);
  bool step_out(standing& s, time_point now);

 private:
  static void mount(standing& s, standing& carrier);
  standing& succeed(standing& from);

  common_parts& on_;
  keeps& keeps_;
  cleanups& owed_;
  // by owner and lock: the place on which others of that owner ride
  std::unordered_map<std::string, standing*> carriers_;
};

}  // namespace conch::zookeeper
