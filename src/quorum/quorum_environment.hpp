// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/log_sink.hpp"
#include "base/random.hpp"
#include "base/timer_queue.hpp"
#include "engine/backend.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <algorithm>
#include <cstdint>

namespace conch::quorum {

/// What every part of a quorum uses and none of them owns.
struct quorum_environment {
  config const& settings;
  std::int64_t const me;  // the first 48 bits of the client's id, as rivals see it
  timer_queue& timers;
  engine::backend_events& up;
  log_sink& log;
  statistics& stats;
  entropy& nonces;
  random_numbers random;

  duration jitter(duration from, duration to) {
    auto const range = static_cast<std::uint64_t>(std::max<duration::rep>((to - from).count(), 1));
    return from + duration{static_cast<duration::rep>(random.next() % range)};
  }
};

}  // namespace conch::quorum
