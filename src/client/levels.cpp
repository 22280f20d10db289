// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/levels.hpp"

#include "client/core.hpp"

#include <boost/assert.hpp>

#include <chrono>
#include <string_view>
#include <utility>

namespace conch::detail {

namespace {

using key_view = std::tuple<client_core const*, std::string_view, lock_status::kind_of_lock>;

key_view key_of(settings_ptr const& lock) noexcept { return {lock->core.get(), lock->name, lock->kind}; }

/// With the owner locked. The timer fires also if the wait for it begins only now.
void call(waiting_level& one) noexcept {
  one.called = true;
  one.alarm.expires_at(asio::steady_timer::time_point::min());
}

}  // namespace

level_turn& level_turn::operator=(level_turn&& other) noexcept {
  pass_on();
  who_ = std::move(other.who_);
  lock_ = std::move(other.lock_);
  return *this;
}

void level_turn::pass_on() noexcept {
  if (!who_) return;
  owner_ptr const who = std::move(who_);
  settings_ptr const lock = std::move(lock_);
  std::lock_guard const guard{who->mutex};
  auto const found = who->locks.find(key_of(lock));
  owner_state::at_lock& at = found->second;
  BOOST_ASSERT_MSG(at.asked_for, "an owner forgot that it asks");
  if (at.line.empty()) {
    at.asked_for = false;
    if (!at.level) who->locks.erase(found);
    return;
  }
  at.line.front()->turn.emplace(who, lock);
  call(*at.line.front());
  at.line.pop_front();
}

void level_turn::granted(owner_state::at_lock& at) noexcept {
  if (!who_) return;
  who_.reset();
  lock_.reset();
  at.asked_for = false;
  for (waiting_level_ptr const& one : at.line) call(*one);
  at.line.clear();
}

level_place& level_place::operator=(level_place&& other) noexcept {
  leave();
  who_ = std::move(other.who_);
  lock_ = std::move(other.lock_);
  one_ = std::move(other.one_);
  return *this;
}

level_place::end_of_wait level_place::leave() noexcept {
  if (!one_) return {false, {}};
  owner_ptr const who = std::move(who_);
  settings_ptr const lock = std::move(lock_);
  waiting_level_ptr const one = std::move(one_);
  std::lock_guard const guard{who->mutex};
  if (!one->called) who->locks.find(key_of(lock))->second.line.remove(one);
  return {one->called, one->turn ? std::move(*one->turn) : level_turn{}};
}

asio::steady_timer::time_point alarm_time(time_point until) noexcept {
  using timer_clock = asio::steady_timer::clock_type;
  if (until == time_point::max()) return timer_clock::time_point::max();
  return timer_clock::now() + std::chrono::duration_cast<timer_clock::duration>(until - clock::now());
}

level_entry enter_level(owner_ptr const& who, settings_ptr const& lock, level_use use, bool attempt) {
  using step = level_entry::step;
  bool const is_shared = lock->kind == lock_status::kind_of_lock::shared_mutex;
  std::lock_guard const guard{who->mutex};
  auto const found = who->locks.try_emplace(level_key{key_of(lock)}).first;
  owner_state::at_lock& at = found->second;
  if (at.level && at.level->held.valid()) {  // the levels of a lost hold end by themselves
    if (use == level_use::write && at.level->writes == 0) return {step::refused};
    ++at.level->count(use);
    return {step::nested, at.level};
  }
  if (!is_shared) {
    if (!at.level) who->locks.erase(found);
    return {step::ask};  // the server lets an owner nest
  }
  if (!at.asked_for) {
    at.asked_for = true;
    return {step::ask, nullptr, {}, level_turn{who, lock}};
  }
  if (attempt) return {step::busy};
  auto const waiting = std::make_shared<waiting_level>(lock->core->executor());
  at.line.push_back(waiting);
  return {step::wait, nullptr, level_place{who, lock, waiting}};
}

// cppcheck-suppress passedByValue ; moved: a hold cannot be copied
shared_hold_ptr enter_first(owner_ptr const& who, settings_ptr const& lock, level_use use, hold h, level_turn& turn) {
  auto const level = std::make_shared<shared_hold>(shared_hold{who, lock, std::move(h)});
  level->count(use) = 1;
  shared_hold_ptr before;  // a lost one; ends with the owner unlocked
  std::lock_guard const guard{who->mutex};
  owner_state::at_lock& at = who->locks[level_key{key_of(lock)}];
  before = std::exchange(at.level, level);
  turn.granted(at);
  return level;
}

level_exit exit_level(shared_hold& level, level_use use) noexcept {
  owner_state& state = *level.by;
  std::lock_guard const guard{state.mutex};
  --level.count(use);
  if (level.writes + level.reads == 0) {
    auto const known = state.locks.find(key_of(level.lock));
    if (known != state.locks.end() && known->second.level.get() == &level) {
      known->second.level.reset();  // the caller refers to it as well
      if (!known->second.asked_for) state.locks.erase(known);
    }
    return {std::move(level.held)};
  }
  bool const becomes_reader = use == level_use::write && level.writes == 0 && level.held.valid();
  return {{}, becomes_reader ? level.held.node() : node_ref{}};
}

bool has_level(owner_ptr const& who, settings_ptr const& lock, level_use use) {
  std::lock_guard const guard{who->mutex};
  auto const found = who->locks.find(key_of(lock));
  if (found == who->locks.end() || !found->second.level) return false;
  shared_hold const& level = *found->second.level;
  return level.held.valid() && (use == level_use::read || level.writes != 0);
}

std::uint32_t depth_of_level(shared_hold const& level) noexcept {
  std::lock_guard const guard{level.by->mutex};
  return level.writes + level.reads;
}

}  // namespace conch::detail
