// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "engine/permit.hpp"

#include <conch/clock.hpp>
#include <conch/error.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

// The rules of a lock that its owner may acquire again: which acquire nests, is refused, asks the server or waits in
// this process, and what is left to do when a level ends. No I/O, no clock.
namespace conch::engine {

/// As detail::level_use of the public headers.
enum class level_use : bool { read, write };

/// Identifies a lock: the client, the name, the kind. The kind counts: a level of a reentrant_mutex must not nest in
/// the hold of a reentrant_shared_mutex of the same name.
using level_lock = std::tuple<void const*, std::string_view, permit_kind>;

/// What an owner's first acquire asks the server for. `owner_id` counts for a reentrant_mutex only, which nests at the
/// server, too.
permit permit_of_level(permit_kind kind, std::string_view owner_id, level_use use);

/// The hold that all levels of an owner share. The shell derives its own.
struct leveled_hold {
  explicit leveled_hold(level_use first) noexcept { ++count(first); }
  virtual ~leveled_hold() = default;

  /// time_point::min() once it is lost or given back.
  virtual time_point deadline() const noexcept = 0;

  std::uint32_t writes = 0, reads = 0;  // its levels

  std::uint32_t& count(level_use use) noexcept { return use == level_use::write ? writes : reads; }
};

using leveled_hold_ptr = std::shared_ptr<leveled_hold>;

/// An acquire that waits for another acquire of its owner. The shell derives its own, and destroys it only after
/// owner_levels::end_wait.
struct waiting_level : list_hook<waiting_level> {
  virtual ~waiting_level() = default;

  /// Called once, when the wait has ended: end_wait says what is next. It must not call back into owner_levels.
  virtual void wake() noexcept = 0;

  bool called = false;    // and not in the line any more
  bool has_turn = false;  // called to ask the server
};

/// What one owner has and wants of each lock in this process. Not thread-safe: the shell locks the owner.
///
/// For a reentrant_shared_mutex, one acquire of an owner asks the server at a time; that is its turn, and it ends in
/// granted() or not_granted(). Two holds of one owner would not show whether it reads or writes, and a reader in the
/// server's queue would wait for its own writer. A reentrant_mutex knows no turns: the server lets its owner nest.
class owner_levels {
 public:
  enum class step : std::uint8_t {
    nests,    // in `in`, which has one more level
    refused,  // it would wait for its own owner
    busy,     // an attempt, while another acquire of its owner is under way
    waits,    // wait() takes it into the owner's line
    asks,     // the server
  };
  struct entry {
    step next;
    leveled_hold_ptr in = nullptr;
  };

  /// An acquire begins, or was called to look anew. `attempt`: it does not wait.
  entry enter(level_lock const& lock, level_use use, bool attempt, time_point now);
  /// After step::waits.
  void wait(level_lock const& lock, waiting_level& one);

  enum class wait_end : std::uint8_t {
    asks,         // the server: it has the turn
    looks_anew,   // enter() once more
    timed_out,    // not called yet
    is_cancelled  // if it was its turn, that is another's now
  };
  wait_end end_wait(level_lock const& lock, waiting_level& one, bool cancelled);

  /// The server has granted what was asked for. All that wait are called. If two acquires of a reentrant_mutex were
  /// granted at the same time, nested levels use the younger hold. Returns the hold that `first` replaces, or none; the
  /// caller frees it with the owner unlocked.
  leveled_hold_ptr granted(level_lock const& lock, leveled_hold_ptr first);
  /// The acquire whose turn it was has ended without a hold: the next one in the owner's queue has the turn. Not for a
  /// reentrant_mutex.
  void not_granted(level_lock const& lock) noexcept;

  enum class after_exit : std::uint8_t {
    nothing,
    release,         // that was the last level
    becomes_reader,  // the last level that writes is gone, and others read: the server must count a reader
  };
  after_exit exit(level_lock const& lock, leveled_hold& from, level_use use, time_point now) noexcept;

  /// Does the owner have a valid hold with a level for `use`? Of a writer all levels may read.
  bool has(level_lock const& lock, level_use use, time_point now) const noexcept;

  /// Nothing is held, asked for or waited for.
  bool empty() const noexcept { return locks_.empty(); }

 private:
  struct at_lock {
    leveled_hold_ptr hold;       // may be lost
    bool asked_for = false;      // an acquire has the turn
    list<waiting_level> line{};  // only while one has it
  };
  using key = std::tuple<void const*, std::string, permit_kind>;
  using table = std::map<key, at_lock, std::less<>>;

  table::iterator made(level_lock const& lock);
  void tidy(table::iterator it) noexcept;

  table locks_;
};

/// The downgrade of a writer to a reader has ended. A loss is not an error there: the hold is just no longer held.
struct reader_order_end {
  error_code told;
  bool was_held;
  bool again;  // the server has not been told yet: it would keep readers out
};
/// `given_back`: the last level of the hold has ended meanwhile. That gives back all there is, and has its own answer.
reader_order_end end_of_reader_order(error_code why, bool given_back, bool valid) noexcept;

}  // namespace conch::engine
