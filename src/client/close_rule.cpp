// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/close_rule.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace conch::detail {

close_rule::close_rule(duration command_timeout) noexcept
    : look_every_{std::min<duration>(command_timeout, std::chrono::seconds{1})} {}

time_point close_rule::begin(time_point now, duration drain_for) noexcept {
  phase_ = phase::draining;
  return later_by(now, std::max(drain_for, duration::zero()));
}

close_rule::action close_rule::due(std::uint64_t progress, bool ending) noexcept {
  if (!under_way()) return action::none;
  bool const stands_still = std::exchange(progress_, progress) == progress && !ending;
  if (phase_ == phase::draining) {
    phase_ = phase::giving_back;
    return action::give_back;
  }
  if (!stands_still) return action::late;
  phase_ = phase::done;
  return action::give_up;
}

}  // namespace conch::detail
