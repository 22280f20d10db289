// What is to happen in a simulated world, in the order of its time; at the same moment in the order in which it was asked
// for.
#pragma once

#include "sim/worlds/plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace conch::sim {

class event_queue {
 public:
  event_queue() = default;
  event_queue(event_queue const&) = delete;
  event_queue& operator=(event_queue const&) = delete;
  ~event_queue() {
    for (entry const& one : heap_) actions_[one.action].destroy();
  }

  bool empty() const { return heap_.empty(); }
  nanos next() const { return heap_.front().at; }

  template <class F>
  void at(nanos when, F&& what) {
    std::uint32_t place = 0;
    if (free_.empty()) {
      place = static_cast<std::uint32_t>(actions_.size());
      actions_.emplace_back();
    } else {
      place = free_.back();
      free_.pop_back();
    }
    actions_[place].emplace(std::forward<F>(what));
    heap_.push_back({when, order_++, place});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  // `move_on` is told the time first.
  template <class F>
  void run_next(F&& move_on) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    entry const e = heap_.back();
    heap_.pop_back();
    move_on(e.at);
    running const guard{*this, e.action};  // it may throw a violation
    actions_[e.action].run();
  }

 private:
  // A callable that stays where it is: millions are made in a second, so none is allocated or moved.
  class action {
   public:
    action() = default;
    action(action const&) = delete;
    action& operator=(action const&) = delete;

    template <class F>
    void emplace(F&& what) {
      using held = std::decay_t<F>;
      static_assert(sizeof(held) <= sizeof room_ && alignof(held) <= alignof(std::max_align_t));
      new (room_) held(std::forward<F>(what));
      run_ = [](void* self) { (*static_cast<held*>(self))(); };
      destroy_ = [](void* self) { static_cast<held*>(self)->~held(); };
    }
    void run() { run_(room_); }
    void destroy() { destroy_(room_); }

   private:
    alignas(std::max_align_t) std::byte room_[176];
    void (*run_)(void*) = nullptr;
    void (*destroy_)(void*) = nullptr;
  };

  struct entry {
    nanos at;
    std::uint64_t order;
    std::uint32_t action;
  };

  struct running {
    event_queue& in;
    std::uint32_t place;
    ~running() {
      in.actions_[place].destroy();
      in.free_.push_back(place);
    }
  };

  static bool later(entry const& a, entry const& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }

  std::uint64_t order_ = 0;
  std::vector<entry> heap_;
  std::deque<action> actions_;
  std::vector<std::uint32_t> free_;
};

}  // namespace conch::sim
