// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/levels.hpp"

#include "base/hex.hpp"

#include <boost/assert.hpp>

#include <utility>

namespace conch::engine {

permit permit_of_level(permit_kind kind, std::string_view owner_id, level_use use) {
  permit p{.kind = kind, .limit = most_permits, .weight = 1};
  if (kind == permit_kind::reentrant) {
    p.detail = in_hex(owner_id);
  } else if (use == level_use::write) {
    p.weight = most_permits;
  }
  return p;
}

owner_levels::table::iterator owner_levels::made(level_lock const& lock) {
  auto const found = locks_.find(lock);
  if (found != locks_.end()) return found;
  auto const [client, name, kind] = lock;
  return locks_.try_emplace(key{client, name, kind}).first;
}

void owner_levels::tidy(table::iterator it) noexcept {
  if (!it->second.hold && !it->second.asked_for) locks_.erase(it);
}

owner_levels::entry owner_levels::enter(level_lock const& lock, level_use use, bool attempt, time_point now) {
  auto const found = made(lock);
  at_lock& here = found->second;
  bool const valid = here.hold && now < here.hold->deadline();
  if (valid) {  // the levels of a lost hold end by themselves
    if (use == level_use::write && here.hold->writes == 0) return {step::refused};
    ++here.hold->count(use);
    return {step::nests, here.hold};
  }
  if (std::get<permit_kind>(lock) == permit_kind::reentrant) {
    tidy(found);
    return {step::asks};
  }
  if (!here.asked_for) {
    here.asked_for = true;
    return {step::asks};
  }
  return {attempt ? step::busy : step::waits};
}

void owner_levels::wait(level_lock const& lock, waiting_level& one) {
  auto const found = locks_.find(lock);
  BOOST_ASSERT_MSG(found != locks_.end() && found->second.asked_for,
                   "an acquire waits for its owner, which does not ask");
  found->second.line.push_back(one);
}

owner_levels::wait_end owner_levels::end_wait(level_lock const& lock, waiting_level& one, bool cancelled) {
  one.unlink();
  bool const turn = std::exchange(one.has_turn, false);
  if (cancelled) {
    if (turn) not_granted(lock);
    return wait_end::is_cancelled;
  }
  if (!one.called) return wait_end::timed_out;
  return turn ? wait_end::asks : wait_end::looks_anew;
}

leveled_hold_ptr owner_levels::granted(level_lock const& lock, leveled_hold_ptr first) {
  at_lock& here = made(lock)->second;
  BOOST_ASSERT_MSG(here.asked_for || std::get<permit_kind>(lock) == permit_kind::reentrant,
                   "an owner was granted what it did not ask for");
  here.asked_for = false;
  while (!here.line.empty()) {
    waiting_level& one = here.line.pop_front();
    one.called = true;
    one.wake();
  }
  return std::exchange(here.hold, std::move(first));
}

void owner_levels::not_granted(level_lock const& lock) noexcept {
  auto const found = locks_.find(lock);
  BOOST_ASSERT_MSG(found != locks_.end() && found->second.asked_for, "an owner forgot that it asks");
  at_lock& here = found->second;
  if (here.line.empty()) {
    here.asked_for = false;
    tidy(found);
    return;
  }
  waiting_level& next = here.line.pop_front();
  next.called = next.has_turn = true;
  next.wake();
}

owner_levels::after_exit owner_levels::exit(level_lock const& lock, leveled_hold& from, level_use use,
                                            time_point now) noexcept {
  BOOST_ASSERT_MSG(from.count(use) != 0, "a level ends twice");
  --from.count(use);
  if (from.writes + from.reads != 0) {
    bool const last_writer = use == level_use::write && from.writes == 0;
    return last_writer && now < from.deadline() ? after_exit::becomes_reader : after_exit::nothing;
  }
  auto const found = locks_.find(lock);
  if (found != locks_.end() && found->second.hold.get() == &from) {
    found->second.hold.reset();  // the caller refers to it as well
    tidy(found);
  }
  return after_exit::release;
}

bool owner_levels::has(level_lock const& lock, level_use use, time_point now) const noexcept {
  auto const found = locks_.find(lock);
  if (found == locks_.end() || !found->second.hold) return false;
  leveled_hold const& hold = *found->second.hold;
  return now < hold.deadline() && (use == level_use::read || hold.writes != 0);
}

reader_order_end end_of_reader_order(error_code why, bool given_back, bool valid) noexcept {
  bool const was_held = why != errc::lost && (given_back || valid);
  // A server that cannot downgrade a writer keeps counting one, which does no harm: this level has ended.
  if (why == errc::not_supported) return {{}, was_held, false};
  bool const again = why == errc::unreachable && !given_back && was_held;
  return {was_held && why != errc::not_held ? why : error_code{}, was_held, again};
}

}  // namespace conch::engine
