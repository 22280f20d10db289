// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Guarded writes: where the resource lies on the same Redis server as the lock, a script checks the owner of the lock
// and writes in one step. A stale write is then impossible. conch opens no connection for it: send the commands by any
// client of Redis.
namespace conch {

/// What a script needs to check that a hold still has its lock. hold::guard() makes it.
///
/// The id is a secret: a user who knows it, and may use the keys of the lock, can release the lock. Do not log it or
/// send it to others. A guard stays as it is when the hold ends: the server then refuses what it guards.
///
/// Thread safety: as a struct of strings.
struct write_guard {
  std::string
      /// of the lock on the server, for KEYS: config::key_prefix and `{NAME}`, NAME with `%` as `%25` and `}` as `%7D`.
      /// Empty: no guard
      key;
  std::string id;  ///< of the grant
  /// hold::fence(). The server knows only fence / 4096: the grant, not the hand-off inside this process
  std::int64_t fence = 0;
  /// 0: a mutex. Else the lock has several owners, and this is the least share that the owner must still have:
  /// 1'000'000 for the writer of a shared_mutex, which is refused after a downgrade; 1 for all others.
  std::uint32_t least_share = 0;

  /// False of the guard of an empty, released or lost hold.
  explicit operator bool() const noexcept { return !key.empty(); }

  /// What conch_is_owner takes as its second argument. For a mutex: the value of `key` up to the space before its
  /// state. Empty if there is no guard.
  CONCH_API std::string grant() const;

  /// For WATCH and MULTI: does this value of `key`, read by GET, show that the hold has the mutex? False for a lock
  /// with several owners: a change of any of them would end the transaction, and the end of a lease would not. Use a
  /// script there.
  CONCH_API bool owns(std::string_view value) const;

  bool operator==(write_guard const&) const = default;  ///< Both are from the same grant of the same lock.
};

/// The Lua text with which a script of yours begins (after a line `#!lua`, if it has one). It defines one local
/// function: `conch_is_owner(key, grant)` is true if the lock belongs to that hold in this moment, by the server's
/// clock, and false if not: released, expired, taken away, granted to another client, or granted again to this one.
/// `key` is write_guard::key, and belongs into KEYS; `grant` is write_guard::grant(). It runs GET for a mutex; HGET and
/// TIME for a lock with several owners. Where the user may not run them, the script ends with that error.
CONCH_API std::string_view guard_prelude() noexcept;

/// How a command names its script.
enum class script_by {
  source,  ///< EVAL with the source, about 1.1 kB
  sha1,    ///< EVALSHA: answered with NOSCRIPT if no EVAL was sent since the server started; then send it by source
};

/// The first word of the error with which the server refuses a guarded command.
inline constexpr std::string_view not_owner_error = "NOTOWNER";

/// The arguments of a command that runs `command` only if the lock belongs to the hold, in one step. `command`: a
/// command of Redis, its only key, and up to 7000 further arguments, as {"INCRBY", "stock:{NAME}", "-1"}. In a Cluster
/// the key needs the hash tag of the lock.
///
/// Result: EVAL or EVALSHA with its arguments, for any client of Redis: over the server and the database of the lock.
/// The answer is that of the command, or an error that begins with not_owner_error; then nothing was written.
/// Throws boost::system::system_error: errc::not_held if there is no guard; errc::invalid_config if there is no key, or
/// too many arguments.
/// Thread safety: any thread. Round trips: none; to send the result is one.
CONCH_API std::vector<std::string> guarded_command(write_guard const& guard, std::vector<std::string> command,
                                                   script_by how = script_by::source);

/// The same for SET. `options`: what follows the value, as {"PX", "60000"}.
CONCH_API std::vector<std::string> guarded_set(write_guard const& guard, std::string key, std::string value,
                                               std::vector<std::string> options = {},
                                               script_by how = script_by::source);

}  // namespace conch
