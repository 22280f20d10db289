// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/timer_queue.hpp"
#include "engine/acquisition.hpp"
#include "engine/backend.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <string>

namespace conch::engine {

/// What every part of a cohort uses and none of them owns.
struct cohort_environment {
  config const& settings;
  timer_queue& timers;
  acquisition_events& shell;
  statistics& stats;
  bool const is_observed;
  backend* servers = nullptr;
  holder_source* holders = nullptr;  // none: errors do not name holders
  std::string where{};               // the server, or the servers, as errors name them
};

}  // namespace conch::engine
