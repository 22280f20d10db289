// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <cstdint>
#include <limits>
#include <vector>

namespace conch::engine {

class timer_queue;

/// Something that is due at a moment. Lives in its owner and leaves the queue with it.
class timer {
 public:
  using action = void (*)(void* owner, time_point now);

  timer(void* owner, action fire) noexcept : owner_{owner}, fire_{fire} {}
  timer(timer const&) = delete;
  timer& operator=(timer const&) = delete;
  ~timer() { cancel(); }

  bool armed() const noexcept { return queue_ != nullptr; }
  time_point at() const noexcept { return at_; }
  void cancel() noexcept;

 private:
  friend class timer_queue;

  time_point at_{};
  timer_queue* queue_ = nullptr;
  std::uint32_t place_ = 0;
  void* owner_;
  action fire_;
};

/// Timers by due time: a binary heap that knows where each timer stands. Knows no clock.
class timer_queue {
 public:
  static constexpr time_point never = time_point::max();

  timer_queue() = default;
  timer_queue(timer_queue const&) = delete;
  timer_queue& operator=(timer_queue const&) = delete;
  ~timer_queue() {
    while (!heap_.empty()) heap_.back()->cancel();
  }

  time_point next() const noexcept { return heap_.empty() ? never : heap_.front()->at_; }

  /// Arms, or moves an armed timer.
  void arm(timer& t, time_point at) {
    if (t.queue_ == nullptr) {
      heap_.push_back(&t);
      t.queue_ = this;
      t.place_ = static_cast<std::uint32_t>(heap_.size() - 1);
      t.at_ = at;
      rise(t.place_);
      return;
    }
    t.at_ = at;
    settle(t.place_);
  }

  /// Fires what is due, earliest first. An action may arm and cancel any timer.
  void run(time_point now) {
    while (!heap_.empty() && heap_.front()->at_ <= now) {
      timer& t = *heap_.front();
      t.cancel();
      t.fire_(t.owner_, now);
    }
  }

 private:
  friend class timer;

  void remove(timer& t) noexcept {
    std::uint32_t const place = t.place_;
    timer* const last = heap_.back();
    heap_.pop_back();
    t.queue_ = nullptr;
    if (last == &t) return;
    put(last, place);
    settle(place);
  }

  void settle(std::uint32_t place) noexcept {
    rise(place);
    sink(heap_[place]->place_);
  }

  void rise(std::uint32_t place) noexcept {
    timer* const t = heap_[place];
    while (place > 0) {
      std::uint32_t const parent = (place - 1) / 2;
      if (heap_[parent]->at_ <= t->at_) break;
      put(heap_[parent], place);
      place = parent;
    }
    put(t, place);
  }

  void sink(std::uint32_t place) noexcept {
    timer* const t = heap_[place];
    auto const size = static_cast<std::uint32_t>(heap_.size());
    for (;;) {
      std::uint32_t child = 2 * place + 1;
      if (child >= size) break;
      if (child + 1 < size && heap_[child + 1]->at_ < heap_[child]->at_) ++child;
      if (t->at_ <= heap_[child]->at_) break;
      put(heap_[child], place);
      place = child;
    }
    put(t, place);
  }

  void put(timer* t, std::uint32_t place) noexcept {
    heap_[place] = t;
    t->place_ = place;
  }

  std::vector<timer*> heap_;
};

inline void timer::cancel() noexcept {
  if (queue_ != nullptr) queue_->remove(*this);
}

}  // namespace conch::engine
