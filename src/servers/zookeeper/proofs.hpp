// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <deque>
#include <optional>

namespace conch::zookeeper {

/// Which messages the leader of an ensemble has provably received: what moves the deadline of a session, which says
/// why. It is about one connection after another. No I/O, no clock.
class proofs {
 public:
  /// A follower reports to the leader at least once in such a time which sessions it has heard from.
  explicit proofs(duration margin) noexcept : margin_{margin} {}

  /// A message that was sent at `sent` is answered now.
  void answered(time_point sent, time_point now) { samples_.push_back({sent, now}); }
  /// A write is sent now. Result: when the newest message was sent that its success proves the leader to have received;
  /// min(): there is none.
  time_point written(time_point now);
  /// Would a write, sent now, prove more than those that are under way?
  bool is_write_of_use(time_point now) { return provable(now) > newest_; }
  /// The first moment of such a write. None: no message has been answered since.
  std::optional<time_point> next_use(time_point now) const;
  /// The connection has ended, and with it what is under way.
  void forget();

 private:
  struct sample {
    time_point sent, answered;
  };

  time_point provable(time_point now);
  time_point reported(sample const& s) const;

  duration const margin_;
  std::deque<sample> samples_;             // sent later: answered later
  time_point newest_ = time_point::min();  // that a write under way may prove
};

}  // namespace conch::zookeeper
