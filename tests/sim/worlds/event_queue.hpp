// What is to happen in a simulated world, in the order of its time; at the same moment in the order in which it was
// asked for.
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
    for (entry const& one : heap_) one.what->destroy();
  }

  bool empty() const { return heap_.empty(); }
  nanos next() const { return heap_.front().at; }

  template <class F>
  void at(nanos when, F&& what) {
    action* place = nullptr;
    if (free_.empty()) {
      place = &actions_.emplace_back();
    } else {
      place = free_.back();
      free_.pop_back();
    }
    place->emplace(std::forward<F>(what));
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
    running const guard{*this, *e.what};  // it may throw a violation
    e.what->run();
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
    action* what;
  };

  struct running {
    event_queue& in;
    action& done;
    ~running() {
      done.destroy();
      in.free_.push_back(&done);
    }
  };

  static bool later(entry const& a, entry const& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }

  std::uint64_t order_ = 0;
  std::vector<entry> heap_;
  std::deque<action> actions_;  // they stay where they are
  std::vector<action*> free_;
};

}  // namespace conch::sim
