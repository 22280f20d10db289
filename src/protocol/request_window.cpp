// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/request_window.hpp"

namespace conch::protocol {

void request_window::uses(duration lease, time_point now) noexcept {
  if (lease <= duration::zero() || (lease > shortest_ && now < shortest_until_)) return;
  shortest_ = lease;
  shortest_until_ = detail::later_by(now, lease);
}

void request_window::answered(std::size_t count, std::size_t together, time_point written, bool others_wait,
                              time_point now) noexcept {
  bool const is_used = in_flight() >= size_ / 2;
  in_flight_ -= std::min(in_flight_, count);
  learn(count, together, written, others_wait && is_used, now);
}

void request_window::renewals_answered(std::size_t count, std::size_t together, time_point written,
                                       time_point now) noexcept {
  renewals_ -= std::min(renewals_, count);
  learn(count, together, written, false, now);
}

/// A renewal is written after a third of the lease, and must be answered in the second half of it. So what is in flight
/// may take a quarter of the lease beyond the network's delay. The window doubles in the time of an answer, so it grows
/// only while that is less than a quarter of the limit. It does not grow while it is not used: nothing is known of a
/// server that had less to do.
void request_window::learn(std::size_t count, std::size_t together, time_point written, bool may_grow,
                           time_point now) noexcept {
  duration const took = now - written;
  duration const late = shortest_ / 4;
  bool const is_least = size_ <= least;
  // With the least window our own requests do not cause the delay: the network has become slower. It may take at most
  // half a lease.
  duration const at_most = shortest_ / 2;
  way_ = is_least ? std::max(std::min(way_, took), std::min(took, at_most)) : std::min(way_, took);
  duration const waited = took - std::min(way_, at_most);
  if (waited > late) {
    // How many of those that were in flight together would have been answered in half the time.
    double const share = static_cast<double>(late.count()) / 2 / static_cast<double>(waited.count());
    auto const in_time = static_cast<std::size_t>(static_cast<double>(together) * share);
    size_ = std::max(least, std::min(size_, in_time));
  } else if (may_grow && waited <= std::min(late / 2, enough) / 2) {
    size_ += count;
  }
}

/// It is written when two thirds of the lease are left, or one half.
void request_window::renewed(std::size_t count, duration lease, duration left, time_point now) noexcept {
  if (count < many) return;
  many_until_ = detail::later_by(now, lease);
  if (left < lease / 5 * 2) renewed_late(now);
}

void request_window::renewals_due(time_point due, time_point now) noexcept {
  if (now < many_until_ && due < now - shortest_ / 32) renewed_late(now);
}

void request_window::begins(time_point now) noexcept {
  if (now >= late_until_) return;
  if (now >= few_again_at_) {
    few_ = least;
    few_again_at_ = late_until_;
  }
  if (few_ != 0) --few_;
}

void request_window::connection_ended() noexcept {
  in_flight_ = renewals_ = 0;
  way_ = duration::max();
}

}  // namespace conch::protocol
