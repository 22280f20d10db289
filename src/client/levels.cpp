// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/levels.hpp"

#include "client/core.hpp"

#include <chrono>
#include <utility>

namespace conch::detail {

namespace {

using step = engine::owner_levels::step;
using wait_end = engine::owner_levels::wait_end;
using after_exit = engine::owner_levels::after_exit;

engine::permit_kind kind_of(settings_ptr const& lock) noexcept { return static_cast<engine::permit_kind>(lock->kind); }

engine::level_lock level_lock_of(settings_ptr const& lock) noexcept {
  return {lock->core.get(), lock->name, kind_of(lock)};
}

engine::level_use use_of(level_use use) noexcept {
  return use == level_use::write ? engine::level_use::write : engine::level_use::read;
}

}  // namespace

shared_hold::shared_hold(owner_ptr who, settings_ptr of, level_use first, hold h) noexcept
    : leveled_hold{use_of(first)},
      by{std::move(who)},
      lock{std::move(of)},
      held{std::move(h)} {}

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
  who->levels.not_granted(level_lock_of(lock));
}

void level_turn::granted() noexcept {
  who_.reset();
  lock_.reset();
}

level_place& level_place::operator=(level_place&& other) noexcept {
  leave(true);
  who_ = std::move(other.who_);
  lock_ = std::move(other.lock_);
  one_ = std::move(other.one_);
  return *this;
}

level_place::end level_place::leave(bool cancelled) noexcept {
  if (!one_) return {wait_end::is_cancelled, {}};
  owner_ptr const who = std::move(who_);
  settings_ptr const lock = std::move(lock_);
  level_alarm_ptr const one = std::move(one_);
  std::lock_guard const guard{who->mutex};
  wait_end const why = who->levels.end_wait(level_lock_of(lock), *one, cancelled);
  return {why, why == wait_end::asks ? level_turn{who, lock} : level_turn{}};
}

asio::steady_timer::time_point alarm_time(time_point until) noexcept {
  using timer_clock = asio::steady_timer::clock_type;
  if (until == time_point::max()) return timer_clock::time_point::max();
  return timer_clock::now() + std::chrono::duration_cast<timer_clock::duration>(until - clock::now());
}

level_entry enter_level(owner_ptr const& who, settings_ptr const& lock, level_use use, bool attempt) {
  std::lock_guard const guard{who->mutex};
  auto [next, in] = who->levels.enter(level_lock_of(lock), use_of(use), attempt, clock::now());
  level_entry entered{next, std::static_pointer_cast<shared_hold>(std::move(in))};
  if (next == step::waits) {
    auto const one = std::make_shared<level_alarm>(lock->core->executor());
    who->levels.wait(level_lock_of(lock), *one);
    entered.place = level_place{who, lock, one};
  } else if (next == step::asks && lock->kind == lock_status::kind_of_lock::shared_mutex) {
    entered.turn = level_turn{who, lock};
  }
  return entered;
}

// cppcheck-suppress passedByValue ; moved: a hold cannot be copied
shared_hold_ptr enter_first(owner_ptr const& who, settings_ptr const& lock, level_use use, hold h, level_turn& turn) {
  auto level = std::make_shared<shared_hold>(who, lock, use, std::move(h));
  engine::leveled_hold_ptr before;  // a lost one; ends with the owner unlocked
  std::lock_guard const guard{who->mutex};
  before = who->levels.granted(level_lock_of(lock), level);
  turn.granted();
  return level;
}

level_exit exit_level(shared_hold& level, level_use use) noexcept {
  std::lock_guard const guard{level.by->mutex};
  switch (level.by->levels.exit(level_lock_of(level.lock), level, use_of(use), clock::now())) {
    case after_exit::nothing: return {};
    case after_exit::release: return {std::move(level.held)};
    case after_exit::becomes_reader: break;
  }
  return {{}, level.held.node()};
}

bool has_level(owner_ptr const& who, settings_ptr const& lock, level_use use) {
  if (!lock->core->is_here()) return false;
  std::lock_guard const guard{who->mutex};
  return who->levels.has(level_lock_of(lock), use_of(use), clock::now());
}

std::uint32_t depth_of_level(shared_hold const& level) noexcept {
  if (!level.lock->core->is_here()) return 0;
  std::lock_guard const guard{level.by->mutex};
  return level.writes + level.reads;
}

}  // namespace conch::detail
