// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace conch {

/// How long an answer usually takes. It decides how long the client still waits for an answer that is under way when
/// the wait of its caller is over, and after which silence a server counts as one that cannot be reached then. One
/// place decides this for all servers.
class usual_time {
 public:
  /// An answer took this long. A single slow answer hardly changes what is usual. How far the answers vary shows at
  /// once, and a dozen answers that do not vary end it.
  void sample(duration took) noexcept {
    using std::chrono::milliseconds;
    constexpr duration most = milliseconds{200};
    if (!std::exchange(is_known_, true)) {
      took_ = took;
      varies_by_ = std::min(took / 2, most);
    } else {
      duration const off = took > took_ ? took - took_ : took_ - took;
      varies_by_ += (std::min(off, most) - varies_by_) / 4;
      took_ += (std::min(took, 4 * took_ + milliseconds{1}) - took_) / 8;
    }
  }

  /// What takes longer than this is unusual: a few round trips, and time for a busy machine to read the answer. A
  /// server whose answers vary may pause for longer: as in the time-out of TCP (RFC 6298), by four mean deviations.
  duration soon() const noexcept { return std::chrono::milliseconds{100} + 4 * (took_ + varies_by_); }

 private:
  duration took_ = duration::zero();
  duration varies_by_ = duration::zero();
  bool is_known_ = false;
};

}  // namespace conch
