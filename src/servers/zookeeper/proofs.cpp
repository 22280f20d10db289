// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/proofs.hpp"

#include <algorithm>

namespace conch::zookeeper {

time_point proofs::written(time_point now) {
  time_point const proves = provable(now);
  newest_ = std::max(newest_, proves);
  return proves;
}

std::optional<time_point> proofs::next_use(time_point now) const {
  auto const unproved =
      std::find_if(samples_.begin(), samples_.end(), [&](sample const& one) { return one.sent > newest_; });
  if (unproved == samples_.end()) return {};
  return std::max(now, reported(*unproved));
}

void proofs::forget() {
  samples_.clear();
  newest_ = time_point::min();
}

/// When a write shows that the leader knows of it.
time_point proofs::reported(sample const& s) const { return s.answered + margin_; }

time_point proofs::provable(time_point now) {
  while (samples_.size() > 1 && reported(samples_[1]) <= now) samples_.pop_front();
  return !samples_.empty() && reported(samples_.front()) <= now ? samples_.front().sent : time_point::min();
}

}  // namespace conch::zookeeper
