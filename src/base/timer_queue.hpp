// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <boost/assert.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace conch::engine {

class timer_queue;

/// Fires an action at a time. It is a member of its owner, and leaves the queue when it is destroyed.
class timer {
 public:
  using action = void (*)(void* owner, time_point now);

  /// Of those that are due, a timer of an earlier rank fires first. All but the last are urgent: a thousand others wait for them.
  enum class rank : std::uint8_t { first, second, third, last };

  timer(void* owner, action fire, rank r = rank::last) noexcept : rank_{r}, owner_{owner}, fire_{fire} {}
  timer(timer const&) = delete;
  timer& operator=(timer const&) = delete;
  ~timer() { cancel(); }

  bool armed() const noexcept { return queue_ != nullptr; }
  time_point at() const noexcept { return at_; }
  void cancel() noexcept;
  enum rank rank() const noexcept { return rank_; }
  /// Of a timer that is not armed.
  void rank_is(enum rank r) noexcept {
    BOOST_ASSERT(!armed());
    rank_ = r;
  }

 private:
  friend class timer_queue;

  time_point at_{};
  timer_queue* queue_ = nullptr;
  std::uint32_t place_ = 0;
  enum rank rank_;
  void* owner_;
  action fire_;
};

/// Timers by due time: a heap for each rank, which knows where each timer stands. Has no clock. A client with 100,000
/// holds moves a timer for each of them several times in a lease: so the times stand in the heap itself, and a parent has four children, which
/// share a cache line.
class timer_queue {
 public:
  static constexpr time_point never = time_point::max();

  timer_queue() = default;
  timer_queue(timer_queue const&) = delete;
  timer_queue& operator=(timer_queue const&) = delete;

  time_point next() const noexcept { return std::min(next_urgent(), heaps_.back().next()); }
  time_point next_urgent() const noexcept { return std::min(std::min(heaps_[0].next(), heaps_[1].next()), heaps_[2].next()); }

  /// Arms a timer, or moves an armed one.
  void arm(timer& t, time_point at) {
    bool const armed = t.queue_ != nullptr;
    t.queue_ = this;
    t.at_ = at;
    armed ? heap_of(t).moved(t) : heap_of(t).add(t);
  }

  /// Fires the timers that are due: those of the first rank first, and of each rank the earliest first; at most `most` of each. An action may arm
  /// and cancel any timer. If next() is due after this, there are more.
  void run(time_point now, std::size_t most = std::numeric_limits<std::size_t>::max()) {
    for (enum timer::rank const r : {timer::rank::first, timer::rank::second, timer::rank::third, timer::rank::last}) run(r, now, most);
  }

  /// The same of one rank only. False: none was due.
  bool run(enum timer::rank r, time_point now, std::size_t most) {
    heap& of = heaps_[static_cast<std::size_t>(r)];
    bool const any = of.next() <= now;
    for (; most != 0 && of.next() <= now; --most) {
      timer& t = of.first();
      t.cancel();
      t.fire_(t.owner_, now);
    }
    return any;
  }

 private:
  friend class timer;

  class heap {
   public:
    ~heap() {
      while (!timers_.empty()) timers_.back().of->cancel();
    }

    time_point next() const noexcept { return timers_.empty() ? never : timers_.front().at; }
    timer& first() const noexcept { return *timers_.front().of; }

    void add(timer& t) {
      timers_.push_back({t.at_, &t});
      rise(static_cast<std::uint32_t>(timers_.size() - 1), timers_.back());
    }

    void remove(timer const& t) noexcept {
      std::uint32_t const place = t.place_;
      one const last = timers_.back();
      timers_.pop_back();
      if (last.of != &t) settle(place, last);
    }

    /// Its time has changed.
    void moved(timer& t) noexcept { settle(t.place_, {t.at_, &t}); }

   private:
    struct one {
      time_point at;
      timer* of;
    };
    static constexpr std::uint32_t children = 4;

    /// There is no timer at that place any more but `o`.
    void settle(std::uint32_t place, one o) noexcept {
      if (place > 0 && o.at < timers_[(place - 1) / children].at) rise(place, o);
      else sink(place, o);
    }

    void rise(std::uint32_t place, one o) noexcept {
      while (place > 0) {
        std::uint32_t const parent = (place - 1) / children;
        if (timers_[parent].at <= o.at) break;
        put(timers_[parent], place);
        place = parent;
      }
      put(o, place);
    }

    void sink(std::uint32_t place, one o) noexcept {
      auto const size = static_cast<std::uint32_t>(timers_.size());
      for (;;) {
        std::uint32_t const from = children * place + 1;
        if (from >= size) break;
        std::uint32_t child = from;
        for (std::uint32_t other = from + 1; other < std::min(from + children, size); ++other) {
          if (timers_[other].at < timers_[child].at) child = other;
        }
        if (o.at <= timers_[child].at) break;
        put(timers_[child], place);
        place = child;
      }
      put(o, place);
    }

    void put(one o, std::uint32_t place) noexcept {
      timers_[place] = o;
      o.of->place_ = place;
    }

    std::vector<one> timers_;
  };

  heap& heap_of(timer const& t) noexcept { return heaps_[static_cast<std::size_t>(t.rank_)]; }

  void remove(timer& t) noexcept {
    heap_of(t).remove(t);
    t.queue_ = nullptr;
  }

  std::array<heap, 4> heaps_;
};

inline void timer::cancel() noexcept {
  if (queue_ != nullptr) queue_->remove(*this);
}

}  // namespace conch::engine
