// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/back_off.hpp"
#include "base/timer_queue.hpp"
#include "engine/backend.hpp"

#include <conch/clock.hpp>
#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace conch::zookeeper {

/// What every part uses and none of them owns.
struct environment {
  config const& settings;
  std::string client_id;
  std::string root, secret;
  timer_queue& timers;
  engine::backend_events& up;
  statistics& stats;
};

/// Before what a server could not do is asked for again.
class pauses {
 public:
  pauses(config const& settings, std::uint64_t seed) noexcept : settings_{settings}, pauses_{seed} {}

  duration next() { return std::max(settings_.reconnect_min, pauses_.next(settings_)); }
  void begin_anew() noexcept { pauses_.begin_anew(); }

 private:
  config const& settings_;
  back_off pauses_;
};

}  // namespace conch::zookeeper
