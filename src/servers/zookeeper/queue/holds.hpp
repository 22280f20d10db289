// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/queue/common_parts.hpp"
#include "servers/zookeeper/queue/riders.hpp"

#include <span>

namespace conch::zookeeper {

/// The life of a hold: how long it lasts, and its loss.
class holds {
 public:
  holds(common_parts& on, riders& shares) noexcept : on_{on}, shares_{shares} {}
  holds(holds const&) = delete;
  holds& operator=(holds const&) = delete;

  void renew(std::span<engine::place* const> places, time_point now);
  bool prolong(standing& s, time_point now);
  void removed(standing& s, time_point now);
  engine::milliseconds lease_of(standing const& s) const;

 private:
  void watch_own(standing& s, time_point now);

  common_parts& on_;
  riders& shares_;
};

}  // namespace conch::zookeeper
