// Whether a short history of one lock has an order that explains it: by trying all orders. It shares nothing with the
// search that it checks but the operations themselves, and goes by them one after the other instead of by the two ends
// of each hold.
#pragma once

#include "support/history/linearizable.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace conch::history {

class brute_force {
 public:
  brute_force(operations const& of_one_lock, specification const& what)
      : all_{of_one_lock},
        what_{what},
        placed_(of_one_lock.size()) {
    for (operation const& o : all_) {
      deadlines_[o.hold] = std::max(deadlines_[o.hold], o.deadline);
      nanoseconds& excused = excused_.try_emplace(o.hold, never).first->second;
      excused = std::min(excused, o.excused);
    }
  }

  bool is_linearizable() { return place_rest({}, 0); }

 private:
  struct present {
    std::uint32_t weight;
    nanoseconds may_end;  // by itself, from then on
  };
  struct lock {
    std::map<std::uint64_t, present> holds;
    std::map<std::uint64_t, bool> was_there, ended_by_itself;
    std::int64_t last_fence = 0;
    std::uint32_t in_use() const {
      std::uint32_t sum = 0;
      for (auto const& [number, h] : holds) sum += h.weight;
      return sum;
    }
  };

  bool place_rest(lock const& now, nanoseconds t) {
    bool all_placed = true;
    for (std::size_t i = 0; i < all_.size(); ++i) all_placed = all_placed && (placed_[i] || is_optional(all_[i]));
    if (all_placed) return true;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (placed_[i]) continue;
      placed_[i] = true;
      bool const found = place_after_ends(all_[i], now, t);
      placed_[i] = false;
      if (found) return true;
    }
    return false;
  }

  /// Before it, any of the holds that are there may end by themselves.
  bool place_after_ends(operation const& o, lock const& before, nanoseconds t) {
    std::vector<std::uint64_t> numbers;
    for (auto const& [number, h] : before.holds) numbers.push_back(number);
    for (std::size_t chosen = 0; chosen < (std::size_t{1} << numbers.size()); ++chosen) {
      lock now = before;
      nanoseconds when = std::max(t, o.invoked);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        if ((chosen >> i & 1) == 0) continue;
        when = std::max(when, now.holds[numbers[i]].may_end);
        now.holds.erase(numbers[i]);
        now.ended_by_itself[numbers[i]] = true;
      }
      if (when <= latest(o) && carry_out(o, now) && place_rest(now, when)) return true;
    }
    return false;
  }

  /// Does it give that answer, carried out now?
  bool carry_out(operation const& o, lock& now) const {
    bool const is_there = now.holds.contains(o.hold);
    bool const was_there = now.was_there[o.hold], has_ended = now.ended_by_itself[o.hold];
    switch (o.what) {
      case action::acquire:
      case action::attempt:
        if (o.how == outcome::refused) return true;
        if (o.how == outcome::busy)
          return what_.busy == specification::busy_rule::anything || now.in_use() + o.weight > what_.limit;
        if (now.in_use() + o.weight > what_.limit) return false;
        now.was_there[o.hold] = true;
        if (o.how == outcome::unknown) {
          now.holds[o.hold] = {o.weight, o.invoked};
          return true;
        }
        if (what_.fences_rise && o.fence <= now.last_fence) return false;
        now.last_fence = o.fence;
        now.holds[o.hold] = {o.weight, std::min(deadlines_.at(o.hold), o.excused)};
        return true;
      case action::extend:
        return o.how == outcome::unknown ||
               (o.how == outcome::held ? is_there || (was_there && excused_.at(o.hold) <= o.invoked)
                                       : was_there && !is_there);
      case action::release:
        if (o.how == outcome::held && o.invoked >= deadlines_.at(o.hold)) return false;
        if (o.how == outcome::held ? !is_there && !(has_ended && excused_.at(o.hold) <= o.completed)
                                   : o.how == outcome::not_held && (!was_there || is_there))
          return false;
        now.holds.erase(o.hold);
        return true;
      case action::lost: now.holds.erase(o.hold); return was_there;
      case action::forgotten: now.last_fence = 0; return true;
    }
    return false;
  }

  /// Nobody heard of it: perhaps it was never carried out.
  static bool is_optional(operation const& o) {
    return o.how == outcome::unknown && o.what != action::lost && o.what != action::forgotten;
  }
  static nanoseconds latest(operation const& o) { return is_optional(o) ? never : o.completed; }

  operations const& all_;
  specification const what_;
  std::vector<char> placed_;
  std::map<std::uint64_t, nanoseconds> deadlines_, excused_;
};

}  // namespace conch::history
