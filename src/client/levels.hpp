// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "engine/levels.hpp"

#include <conch/reentrant_mutex.hpp>

#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

// The shell around engine::owner_levels: locks the owner, reads the clock, and has the timers of those that wait.
namespace conch::detail {

/// With the owner locked, but for `held`: that is moved away with the last level only, so each level may read it
/// without.
struct shared_hold final : engine::leveled_hold {
  shared_hold(owner_ptr who, settings_ptr of, level_use first, hold h) noexcept;

  time_point deadline() const noexcept override { return held.deadline(); }

  owner_ptr const by;
  settings_ptr const lock;
  hold held;
};

struct owner_state {
  explicit owner_state(std::string of) : id{std::move(of)} {}

  std::string const id;
  std::mutex mutex;
  engine::owner_levels levels;  // with the owner locked
};

/// The right to ask the server for a reentrant_shared_mutex on behalf of an owner. One acquire has it at a time. Where
/// it is destroyed the acquire was not granted, and the next in the owner's line has it.
class level_turn {
 public:
  level_turn() noexcept = default;
  level_turn(owner_ptr who, settings_ptr lock) noexcept : who_{std::move(who)}, lock_{std::move(lock)} {}
  level_turn(level_turn&&) noexcept = default;
  level_turn& operator=(level_turn&& other) noexcept;
  ~level_turn() { pass_on(); }

  /// The acquire was granted: no acquire has the turn any more. With the owner locked.
  void granted() noexcept;

 private:
  void pass_on() noexcept;

  owner_ptr who_;  // empty: it is none
  settings_ptr lock_;
};

/// An acquire that waits for another acquire of its owner. Used with the owner locked.
struct level_alarm final : engine::waiting_level {
  explicit level_alarm(asio::any_io_executor const& io) : timer{io} {}

  /// The timer fires also if the wait for it begins only now.
  void wake() noexcept override { timer.expires_at(asio::steady_timer::time_point::min()); }

  // `.wait` is measured by this timer, and so does not count the time in which the machine sleeps.
  asio::steady_timer timer;  // fires when the acquire is called, too late, or cancelled
};

using level_alarm_ptr = std::shared_ptr<level_alarm>;

/// An acquire's place in the line of its owner. It leaves the line when it is destroyed, also with the context: the
/// owner may live longer than that, and must not keep a timer of it.
class level_place {
 public:
  struct end {
    engine::owner_levels::wait_end why;
    level_turn turn;
  };

  level_place() noexcept = default;
  level_place(owner_ptr who, settings_ptr lock, level_alarm_ptr one) noexcept
      : who_{std::move(who)},
        lock_{std::move(lock)},
        one_{std::move(one)} {}
  level_place(level_place&&) noexcept = default;
  level_place& operator=(level_place&& other) noexcept;
  ~level_place() { leave(true); }

  level_alarm_ptr const& waiting() const noexcept { return one_; }
  end leave(bool cancelled) noexcept;

 private:
  owner_ptr who_;
  settings_ptr lock_;
  level_alarm_ptr one_;
};

/// When the timer of a waiting acquire fires.
asio::steady_timer::time_point alarm_time(time_point until) noexcept;

/// What an acquire of a level does next, and with what.
struct level_entry {
  engine::owner_levels::step next;
  shared_hold_ptr level = nullptr;  // that it nests in
  level_place place = {};           // where it waits
  level_turn turn = {};             // with which it asks the server
};

/// `attempt`: it does not wait.
level_entry enter_level(owner_ptr const& who, settings_ptr const& lock, level_use use, bool attempt);
/// The first level of a new hold.
shared_hold_ptr enter_first(owner_ptr const& who, settings_ptr const& lock, level_use use, hold h, level_turn& turn);

/// What is left to be done when a level is left.
struct level_exit {
  hold last = {};                // released by its destructor, at the latest
  node_ref becomes_reader = {};  // the last level that writes is gone, and others read
};
level_exit exit_level(shared_hold& level, level_use use) noexcept;

}  // namespace conch::detail
