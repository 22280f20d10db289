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

namespace conch {

class timer_queue;

/// A function of an owner, which takes the time: `{this, call<&session::beat>}`, or with a lambda without captures
/// `{this, [](session& s, time_point now) { … }}`. Neither allocates.
class callback {
 public:
  template <class Owner, class Function>
  constexpr callback(Owner* owner, Function) noexcept
      : owner_{owner},
        call_{[](void* of, time_point now) { Function{}(*static_cast<Owner*>(of), now); }} {}

  void operator()(time_point now) const { call_(owner_, now); }

 private:
  void* owner_;
  void (*call_)(void* owner, time_point now);
};

template <auto Member>
struct member_call {
  template <class Owner>
  void operator()(Owner& owner, time_point now) const {
    (owner.*Member)(now);
  }
};
template <auto Member>
inline constexpr member_call<Member> call;

/// Fires a callback at a time. It is a member of its owner, and leaves the queue when it is destroyed.
class timer {
 public:
  /// When several timers are due, one of an earlier rank fires first. All but the last rank are urgent.
  enum class rank : std::uint8_t { first, second, last };

  explicit timer(callback fire, rank r = rank::last) noexcept : rank_{r}, fire_{fire} {}
  template <class Owner, class Function>
  timer(Owner* owner, Function f, rank r = rank::last) noexcept : timer{callback{owner, f}, r} {}
  timer(timer const&) = delete;
  timer& operator=(timer const&) = delete;
  ~timer() { cancel(); }

  bool armed() const noexcept { return queue_ != nullptr; }
  time_point at() const noexcept { return at_; }
  void cancel() noexcept;
  bool has_rank(enum rank r) const noexcept { return rank_ == r; }
  /// For a timer that is not armed.
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
  callback fire_;
};

/// Timers by due time: a binary heap for each rank, which knows the position of each timer. Has no clock.
class timer_queue {
 public:
  static constexpr time_point never = time_point::max();

  timer_queue() = default;
  timer_queue(timer_queue const&) = delete;
  timer_queue& operator=(timer_queue const&) = delete;

  time_point next() const noexcept { return std::min(next_urgent(), heaps_[2].next()); }
  time_point next_urgent() const noexcept { return std::min(heaps_[0].next(), heaps_[1].next()); }

  /// Arms a timer, or moves an armed one.
  void arm(timer& t, time_point when) {
    bool const armed = t.queue_ != nullptr;
    t.queue_ = this;
    t.at_ = when;
    armed ? heap_of(t).settle(t.place_) : heap_of(t).add(t);
  }

  /// Fires the timers that are due: those of the first rank first, and of each rank the earliest first; at most `most`
  /// of each. An action may arm and cancel any timer. If next() is due after this, there are more.
  void run(time_point now, std::size_t most = std::numeric_limits<std::size_t>::max()) {
    for (heap& of : heaps_) {
      for (std::size_t left = most; left != 0 && of.next() <= now; --left) {
        timer& t = of.first();
        t.cancel();
        t.fire_(now);
      }
    }
  }

 private:
  friend class timer;

  class heap {
   public:
    ~heap() {
      while (!timers_.empty()) timers_.back()->cancel();
    }

    time_point next() const noexcept { return timers_.empty() ? never : timers_.front()->at_; }
    timer& first() const noexcept { return *timers_.front(); }

    void add(timer& t) {
      timers_.push_back(&t);
      t.place_ = static_cast<std::uint32_t>(timers_.size() - 1);
      rise(t.place_);
    }

    void remove(timer const& t) noexcept {
      std::uint32_t const place = t.place_;
      timer* const last = timers_.back();
      timers_.pop_back();
      if (last == &t) return;
      put(last, place);
      settle(place);
    }

    void settle(std::uint32_t place) noexcept {
      rise(place);
      sink(timers_[place]->place_);
    }

   private:
    void rise(std::uint32_t place) noexcept {
      timer* const t = timers_[place];
      while (place > 0) {
        std::uint32_t const parent = (place - 1) / 2;
        if (timers_[parent]->at_ <= t->at_) break;
        put(timers_[parent], place);
        place = parent;
      }
      put(t, place);
    }

    void sink(std::uint32_t place) noexcept {
      timer* const t = timers_[place];
      auto const size = static_cast<std::uint32_t>(timers_.size());
      for (;;) {
        std::uint32_t child = 2 * place + 1;
        if (child >= size) break;
        if (child + 1 < size && timers_[child + 1]->at_ < timers_[child]->at_) ++child;
        if (t->at_ <= timers_[child]->at_) break;
        put(timers_[child], place);
        place = child;
      }
      put(t, place);
    }

    void put(timer* t, std::uint32_t place) noexcept {
      timers_[place] = t;
      t->place_ = place;
    }

    std::vector<timer*> timers_;
  };

  heap& heap_of(timer const& t) noexcept { return heaps_[static_cast<std::size_t>(t.rank_)]; }

  void remove(timer& t) noexcept {
    heap_of(t).remove(t);
    t.queue_ = nullptr;
  }

  std::array<heap, 3> heaps_;
};

inline void timer::cancel() noexcept {
  if (queue_ != nullptr) queue_->remove(*this);
}

}  // namespace conch
