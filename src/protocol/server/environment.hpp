// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/log_sink.hpp"
#include "base/random.hpp"
#include "base/timer_queue.hpp"
#include "engine/backend.hpp"
#include "protocol/wire.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <algorithm>
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

/// How long other clients may need to connect again, beyond the pause between two attempts: to be notified or to
/// notice, and to be greeted.
constexpr milliseconds time_to_greet{200};

/// The claim with which a lock of that lease is passed on. No new owner is waited for longer than a holder that has
/// died.
milliseconds claim_of(config const& settings, milliseconds lease);
/// How long the server is asked to keep a grant of which the client believes that lease: config::lock_delay longer.
milliseconds kept_at_server(config const& settings, milliseconds lease);
/// The same from the grant on: for place::at_least, too. No renewal makes it shorter.
milliseconds kept_from_grant(config const& settings, place const& p);
/// The longer of its lease and its minimum interval.
inline milliseconds longest_of(place const& p) noexcept { return std::max(p.lease, p.at_least); }
/// How long the server keeps the fence of a grant of that lease.
milliseconds retention_of(config const& settings, duration lease);

/// How long to sleep when told that a lease ends then. The server's clock may be slower than ours. A check that comes
/// too early is told what is left, and asks again. That costs one request more, but the check is not late by as much as
/// the clocks may differ.
duration sleep_for(config const& settings, milliseconds reported);

/// Random pauses, so that clients that wait for the same thing do not all ask at once.
class pauses {
 public:
  pauses(config const& settings, std::uint64_t seed) : settings_{settings}, random_{seed} {}

  /// Less than `up_to`.
  duration jitter(duration up_to);
  /// When to ask a server again that answered "later".
  time_point again_at(time_point now) { return now + milliseconds{20} + jitter(milliseconds{80}); }
  /// The same for that answer. What has the keys of a command locked may do so for long, and other locks wait behind
  /// each attempt.
  time_point again_at(answer const& a, time_point now) {
    return again_at(now) + (a.of_its_keys ? settings_.command_timeout / 2 : duration::zero());
  }

 private:
  config const& settings_;
  random_numbers random_;
};

/// The timer that resumes work that one turn does not finish. Any part may ask for it; only catch_up does the work.
class next_turn {
 public:
  next_turn(timer_queue& timers, callback resume) noexcept : timers_{timers}, timer_{resume} {}

  void at(time_point when) { timers_.arm(timer_, when); }
  bool is_due() const noexcept { return timer_.armed(); }

 private:
  timer_queue& timers_;
  timer timer_;
};

}  // namespace conch::protocol
