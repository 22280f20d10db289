// What is asked of each lock in the simulated world of an ensemble.
#pragma once

#include "engine/permit.hpp"
#include "sim/worlds/random.hpp"

#include <cstdint>
#include <string_view>

namespace conch::sim {

struct zookeeper_lock_plan {
  engine::permit_kind kind = engine::permit_kind::none;
  std::uint32_t limit = 1;  // of a semaphore
  int owners = 1;           // of a reentrant lock, in each client
  bool owners_everywhere = false;
  // By mistake, in a hundred acquires:
  int of_other_kind = 0, of_other_limit = 0;
  engine::permit_kind other_kind = engine::permit_kind::none;
  std::uint32_t other_limit = 1;
};

zookeeper_lock_plan draw_zookeeper_lock(random_source& r);

/// What one acquire wants.
engine::permit draw_permit(zookeeper_lock_plan const& p, std::string_view client, random_source& r);

}  // namespace conch::sim
