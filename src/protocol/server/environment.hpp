// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/log_sink.hpp"
#include "base/random.hpp"
#include "base/timer_queue.hpp"
#include "cohort/backend.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <cstdint>

namespace conch::protocol {

using namespace engine;

/// What every part of a server uses and none of them owns.
struct environment {
  config const& settings;
  timer_queue& timers;
  backend_events& up;
  log_sink& log;
  statistics& stats;
};

/// How long other clients may need to connect again, beyond the pause between two attempts: to be told or to notice, and to be greeted.
constexpr milliseconds time_to_greet{200};

/// The claim with which a lock of that lease is passed on. Nobody is waited for longer than a holder that has died.
milliseconds claim_of(config const& settings, milliseconds lease);
/// How long the server keeps the fence of a grant of that lease.
milliseconds retention_of(config const& settings, duration lease);

/// Random pauses, so that clients that wait for the same thing do not all ask at once.
class pauses {
 public:
  explicit pauses(std::uint64_t seed) : random_{seed} {}

  /// Less than `up_to`.
  duration jitter(duration up_to);
  /// When to ask a server again that answered "later".
  time_point again_at(time_point now) { return now + milliseconds{20} + jitter(milliseconds{80}); }

 private:
  random_numbers random_;
};

/// The timer behind which work goes on that one turn does not finish. Any part may ask for it; only catch_up does the work.
class next_turn {
 public:
  next_turn(timer_queue& timers, void* owner, timer::action go_on) noexcept : timers_{timers}, timer_{owner, go_on} {}

  void at(time_point when) { timers_.arm(timer_, when); }
  bool is_due() const noexcept { return timer_.armed(); }

 private:
  timer_queue& timers_;
  timer timer_;
};

}  // namespace conch::protocol
