// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace conch::protocol {

/// How long a connection may be silent before it is pinged. Proxies and load balancers close a connection that is
/// silent for a time of theirs. Where two connections in a row have ended after the same silence, that is such a time,
/// and pings come in half of it from then on. No I/O, no clock.
class keep_alive {
 public:
  /// `configured`: config::keep_alive, which outlives this; zero: there are no pings, and nothing is learned.
  explicit keep_alive(duration const& configured) noexcept : configured_{configured} {}

  bool is_on() const noexcept { return configured_ > duration::zero(); }
  duration every() const noexcept { return std::min(configured_, learned_); }

  /// A connection has ended by itself that was silent for this long, while no answer was due. True: pings come more
  /// often from now on.
  bool ended_idle(duration silence) noexcept {
    if (!is_on() || silence < shortest_silence) return false;
    duration const before = std::exchange(silence_, silence);
    duration const apart = before < silence ? silence - before : before - silence;
    if (apart > std::max<duration>(silence / 20, std::chrono::milliseconds{100}) || silence / 2 >= every())
      return false;
    learned_ = silence / 2;
    return true;
  }

 private:
  static constexpr duration shortest_silence = std::chrono::seconds{1};

  duration const& configured_;
  duration learned_ = duration::max();
  duration silence_{};  // of the connection before
};

}  // namespace conch::protocol
