// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace conch {

/// A timer that finds a server silent may come late itself: the process was paused, or a handler ran long. What the
/// server has sent meanwhile is read first, so the judgement waits once. One place decides this for all servers.
class reprieve {
 public:
  /// Until when the judgement waits that was due at `due`: for as long as the timer is late, within these bounds. None:
  /// the timer is not late, or the judgement has waited once since the last answer.
  std::optional<time_point> grant(time_point due, duration at_least, duration at_most, time_point now) noexcept {
    duration const late = now - due;
    if (late <= duration::zero() || std::exchange(given_, true)) return std::nullopt;
    return now + std::clamp(late, at_least, at_most);
  }
  /// For a connection with that limit for an answer. What was sent may have left this process only after a handler that
  /// ran long.
  std::optional<time_point> grant_connection(time_point due, duration limit, time_point now) noexcept {
    return grant(due, limit / 8, limit / 4, now);
  }
  void reset() noexcept { given_ = false; }

 private:
  bool given_ = false;
};

}  // namespace conch
