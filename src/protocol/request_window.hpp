// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/turns.hpp"

#include <conch/clock.hpp>

#include <algorithm>
#include <cstddef>

namespace conch::protocol {

/// How many requests and renewals may be in flight to a server: as many as it answers well before the shortest lease in
/// use ends. The others wait in the client, so that the renewal of a first hold never queues behind more than that, and
/// a grant never arrives after its lease has ended. The number is learned from how long answers take, as a congestion
/// window is (RFC 5681; with the delay as the signal, as in RFC 6817; it grows only while it is used, as in RFC 7661).
/// No I/O, no clock.
class request_window {
 public:
  /// However slow the server is: to wait for one answer after another would make a distant server seem a slow one.
  static constexpr std::size_t least = 4;
  /// Before anything is known of the server. With 100 us for each, which is slow, all of them take 26 ms.
  static constexpr std::size_t first = 256;
  /// The window does not grow beyond what the server works on for this long. What is waited for in the client can still
  /// be cancelled at once.
  static constexpr duration enough = std::chrono::milliseconds{100};
  /// Nothing but `least` is begun for this long, or a third of the lease if that is less, when a hold is renewed late.
  static constexpr duration pause = std::chrono::seconds{1};
  /// Fewer holds in a renewal than these are not the reason why it is late.
  static constexpr std::size_t many = 32;

  request_window() noexcept : size_{std::max(least, std::min(first, in_one_turn))} {}

  /// May one more request be written now? Renewals leave at least half of the window to requests.
  bool has_room() const noexcept { return in_flight_ + std::min(renewals_, size_ / 2) < size_; }
  /// May one more hold be renewed now, unless it is one of the first, which wait for nothing? Requests leave half of
  /// the window to renewals.
  bool has_room_for_renewal() const noexcept { return renewals_ < size_ / 2; }
  std::size_t size() const noexcept { return size_; }
  std::size_t in_flight() const noexcept { return in_flight_ + renewals_; }

  /// A request with that lease is asked for, or a hold with that lease renewed.
  void uses(duration lease, time_point now) noexcept;
  /// Requests for this many locks are written. Returns how many are in flight now, which answered() needs.
  std::size_t written(std::size_t count) noexcept {
    in_flight_ += count;
    return in_flight();
  }
  /// `count` of them are answered. `together`: what written() returned. `others_wait`: for room.
  void answered(std::size_t count, std::size_t together, time_point written, bool others_wait, time_point now) noexcept;
  /// As written() and answered(), for renewals of `count` holds.
  std::size_t renewals_written(std::size_t count) noexcept {
    renewals_ += count;
    return in_flight();
  }
  void renewals_answered(std::size_t count, std::size_t together, time_point written, time_point now) noexcept;
  /// A renewal of this many holds was answered when `left` remained of one of them, and no less of the others.
  void renewed(std::size_t count, duration lease, duration left, time_point now) noexcept;
  /// The renewals that are due at that time are not written yet.
  void renewals_due(time_point due, time_point now) noexcept;
  /// May a lock be asked for that was not asked for before? A client that renews its holds late has as many as it can
  /// keep: of more it would lose some. For a while it asks only for a few, so that every wait ends.
  bool may_begin(time_point now) const noexcept { return now >= late_until_ || few_ != 0 || now >= few_again_at_; }
  void begins(time_point now) noexcept;
  /// When may_begin() may have another answer.
  time_point begins_again() const noexcept { return std::min(late_until_, few_again_at_); }
  /// Nothing that is in flight will be answered. What is known of the server stays, except the network's delay.
  void connection_ended() noexcept;

 private:
  void learn(std::size_t count, std::size_t together, time_point written, bool may_grow, time_point now) noexcept;
  void renewed_late(time_point now) noexcept { late_until_ = now + std::min(shortest_ / 3, pause); }

  std::size_t size_;
  std::size_t in_flight_ = 0;                      // requests
  std::size_t renewals_ = 0;                       // holds of renewals in flight
  duration shortest_ = duration::max();            // lease
  time_point shortest_until_ = time_point::min();  // a lease that is no longer used counts for its own length
  time_point many_until_ = time_point::min();      // there are many holds, as far as is known
  time_point late_until_ = time_point::min();      // holds are renewed late, as far as is known
  std::size_t few_ = 0;                            // may begin meanwhile
  time_point few_again_at_ = time_point::min();
  duration way_ = duration::max();  // the shortest time to an answer: to the server and back
};

}  // namespace conch::protocol
