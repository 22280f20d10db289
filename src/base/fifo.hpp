// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <boost/circular_buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>

namespace conch {

/// First in, first out. Up to `warm` items reuse the same memory. The items that a burst adds beyond that have memory
/// of their own, which is freed with them. The items are never all moved at once.
template <class T>
class fifo {
 public:
  static constexpr std::size_t warm = 2048;

  bool empty() const noexcept { return ring_.empty(); }
  T const& front() const { return ring_.front(); }

  /// Returns the copy.
  T& push_back(T const& one) {
    if (ring_.size() == warm) return more_.emplace_back(one);
    if (ring_.full()) ring_.set_capacity(std::max<std::size_t>(16, 2 * ring_.capacity()));
    ring_.push_back(one);
    return ring_.back();
  }

  void pop_front() {
    ring_.pop_front();
    if (more_.empty()) return;
    ring_.push_back(more_.front());
    more_.pop_front();
  }

  template <class F>
  void for_each(F const& f) const {
    std::for_each(ring_.begin(), ring_.end(), f);
    std::for_each(more_.begin(), more_.end(), f);
  }

  template <class F>
  void for_each(F const& f) {
    std::for_each(ring_.begin(), ring_.end(), f);
    std::for_each(more_.begin(), more_.end(), f);
  }

  template <class F>
  bool any_of(F const& f) const {
    return std::any_of(ring_.begin(), ring_.end(), f) || std::any_of(more_.begin(), more_.end(), f);
  }

  void swap(fifo& other) noexcept {
    ring_.swap(other.ring_);
    more_.swap(other.more_);
  }

 private:
  boost::circular_buffer<T> ring_;
  std::deque<T> more_;  // after the ring, which is full then
};

}  // namespace conch
