// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"

#include <conch/reentrant_mutex.hpp>

#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

// What an owner has and wants of each lock in this process, so that a nested acquire finds it. It decides who nests, who is refused, who asks
// the server and who waits; it sends nothing.
namespace conch::detail {

/// The kind counts: a level of a reentrant_mutex must not nest in the hold of a reentrant_shared_mutex of the same name.
using level_key = std::tuple<client_core const*, std::string, lock_status::kind_of_lock>;

/// With the owner locked, but for `held`: that is moved away with the last level only, so each level may read it without.
struct shared_hold {
  owner_ptr const by;
  settings_ptr const lock;
  hold held;
  std::uint32_t writes = 0, reads = 0;

  std::uint32_t& count(level_use use) noexcept { return use == level_use::write ? writes : reads; }
};

struct waiting_level;
using waiting_level_ptr = std::shared_ptr<waiting_level>;

struct owner_state {
  explicit owner_state(std::string of) : id{std::move(of)} {}

  struct at_lock {
    shared_hold_ptr level;              // may be lost
    bool asked_for = false;             // there is a level_turn
    std::list<waiting_level_ptr> line;  // only while there is one
  };

  std::string const id;
  std::mutex mutex;
  std::map<level_key, at_lock, std::less<>> locks;
};

/// The right to ask the server for a reentrant_shared_mutex on behalf of an owner. One acquire has it at a time: two holds of one owner
/// could not tell whether it reads or writes, and a reader in line would wait for its own writer.
class level_turn {
 public:
  level_turn() noexcept = default;
  level_turn(owner_ptr who, settings_ptr lock) noexcept : who_{std::move(who)}, lock_{std::move(lock)} {}
  level_turn(level_turn&&) noexcept = default;
  level_turn& operator=(level_turn&& other) noexcept;
  ~level_turn() { pass_on(); }

  explicit operator bool() const noexcept { return who_ != nullptr; }

  /// The acquire was granted, and the first level stands: all that wait look anew. With the owner locked.
  void granted(owner_state::at_lock& at) noexcept;

 private:
  /// The acquire was not granted: the next in the owner's line has the turn.
  void pass_on() noexcept;

  owner_ptr who_;  // empty: it is none
  settings_ptr lock_;
};

/// An acquire that waits for another acquire of its owner. Used with the owner locked.
struct waiting_level {
  explicit waiting_level(asio::any_io_executor const& io) : alarm{io} {}

  // `.wait` is measured by this timer, and so does not count the time in which the machine sleeps.
  asio::steady_timer alarm;        // fires when the acquire is called, too late, or cancelled
  bool called = false;             // and not in the line any more
  std::optional<level_turn> turn;  // called to ask the server; else to look anew
};

/// An acquire's place in the line of its owner. It leaves the line when it is destroyed, also with the context: the owner may live longer
/// than that, and must not keep a timer of it.
class level_place {
 public:
  struct end_of_wait {
    bool called;
    level_turn turn;
  };

  level_place() noexcept = default;
  level_place(owner_ptr who, settings_ptr lock, waiting_level_ptr one) noexcept
      : who_{std::move(who)}, lock_{std::move(lock)}, one_{std::move(one)} {}
  level_place(level_place&&) noexcept = default;
  level_place& operator=(level_place&& other) noexcept;
  ~level_place() { leave(); }

  waiting_level_ptr const& waiting() const noexcept { return one_; }
  end_of_wait leave() noexcept;

 private:
  owner_ptr who_;
  settings_ptr lock_;
  waiting_level_ptr one_;
};

/// When the timer of a waiting acquire fires.
asio::steady_timer::time_point alarm_time(time_point until) noexcept;

/// What an acquire of a level does next.
struct level_entry {
  enum class step : std::uint8_t {
    nested,   // `level` has one more level
    refused,  // it would wait for its own owner
    busy,     // an attempt, while another acquire of its owner is under way
    wait,     // at `place`
    ask,      // the server, with `turn`
  };

  step next;
  shared_hold_ptr level = nullptr;
  level_place place = {};
  level_turn turn = {};
};

/// `attempt`: it does not wait.
level_entry enter_level(owner_ptr const& who, settings_ptr const& lock, level_use use, bool attempt);
/// The first level of a new hold. If two coroutines of one owner were granted a reentrant_mutex at the same time, nested levels use the
/// younger hold.
shared_hold_ptr enter_first(owner_ptr const& who, settings_ptr const& lock, level_use use, hold h, level_turn& turn);

/// What is left to be done when a level is left.
struct level_exit {
  hold last = {};                // released by its destructor, at the latest
  node_ref becomes_reader = {};  // the last level that writes is gone, and others read
};
level_exit exit_level(shared_hold& level, level_use use) noexcept;

}  // namespace conch::detail
