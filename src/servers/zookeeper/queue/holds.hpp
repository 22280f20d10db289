// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/queue/common_parts.hpp"
#include "servers/zookeeper/queue/shared_nodes.hpp"

#include <span>

namespace conch::zookeeper {

/// The life of a hold: how long it lasts, and its loss.
class holds {
 public:
  holds(common_parts& on, shared_nodes& shared) noexcept : on_{on}, shared_{shared} {}
  holds(holds const&) = delete;
  holds& operator=(holds const&) = delete;

  void renew(std::span<engine::place* const> places, time_point now);
  bool prolong(queue_place& p, time_point now);
  void removed(queue_place& p, time_point now);
  engine::milliseconds lease_of(queue_place const& p) const;

 private:
  void watch_own(queue_place& p, time_point now);

  common_parts& on_;
  shared_nodes& shared_;
};

}  // namespace conch::zookeeper
