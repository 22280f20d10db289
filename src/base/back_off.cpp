// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/back_off.hpp"

#include <algorithm>
#include <chrono>

namespace conch {

duration back_off::next(config const& settings, duration lease) noexcept {
  duration wait = duration::zero();
  if (attempts_ > 0) {
    auto const longest = settings.reconnect_min * (std::int64_t{1} << std::min(attempts_ - 1, 20u));
    wait = std::min({longest, settings.reconnect_max, lease / 10});
    auto const half = static_cast<std::uint64_t>(wait.count() / 2);
    wait = wait / 2 + duration{static_cast<duration::rep>(random_.next() % (half + 1))};
  }
  ++attempts_;
  return wait;
}

void back_off::lasted(duration time) noexcept {
  if (time > steady_after) attempts_ = 0;
}

}  // namespace conch
