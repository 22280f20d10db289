// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/closing.hpp"

#include "base/turns.hpp"

#include <algorithm>
#include <utility>

namespace conch::engine {

void closing::close(time_point now) {
  closed_ = end_waits_ = true;
  entries_.start_visit();
  end_some(now);
}

void closing::give_back_everything(time_point now) {
  end_holds_ = true;
  if (end_waits_) return;  // the waits are ended first
  entries_.start_visit();
  end_some(now);
}

/// Ends a limited number of waits or holds in one turn, so that other handlers of the event loop do not wait for all of
/// them.
void closing::end_some(time_point now) {
  constexpr std::size_t buckets_for_one = 16;  // an empty bucket costs little
  for (std::size_t left = in_one_turn * buckets_for_one; is_under_way();
       left -= std::min(left, end_one(now) ? buckets_for_one : 1)) {
    if (left == 0) {
      on_.timers.arm(rest_, in_next_turn(now));
      return;
    }
  }
}

/// Ends one wait or one hold. False: there was none in this entry or bucket.
bool closing::end_one(time_point now) {
  auto const step = entries_.visit_next([&](lock_entry& e) { return end_something(e, now); });
  if (step != lock_entries::visited::all) return step == lock_entries::visited::one;
  if (!std::exchange(end_waits_, false)) end_holds_ = false;
  if (end_holds_) entries_.start_visit();
  return false;
}

/// Ends one wait or the hold of this entry; false if there is none. The entry may be gone after that.
bool closing::end_something(lock_entry& e, time_point now) {
  if (end_waits_) {
    if (e.waiting.empty()) return false;
    acquisition& a = e.waiting.front();
    if (a.phase == acquisition_phase::waiting) {
      waits_.stop_waiting(a, make_error_code(errc::closed), cancel_type::terminal, now);
    } else {
      reporter_.finish(a, acquired::failed, make_error_code(errc::closed), now);
    }
    return true;
  }
  if (e.holder == nullptr && !e.proving) return false;
  if (e.holder == nullptr) {
    line_.give_back(e, nullptr, now);
    return true;
  }
  acquisition& a = *e.holder;
  if (a.phase == acquisition_phase::detaching) {
    ends_.end_detaching(a, make_error_code(errc::closed), now);
    return true;
  }
  bool const is_over = a.phase == acquisition_phase::lost || now >= a.deadline();
  if (a.phase == acquisition_phase::holding) watchdog_.report_lost(a, make_error_code(errc::closed), now);
  e.holder = nullptr;
  a.lock = nullptr;
  if (is_over) line_.give_back_lost(e, now);
  else line_.give_back(e, nullptr, now);
  return true;
}

}  // namespace conch::engine
