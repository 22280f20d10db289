// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cohort/grant_id.hpp"
#include "cohort/permit.hpp"

#include <conch/clock.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

// What goes between the engine and one server, in the terms of the protocol and before any encoding. A shell turns
// commands into bytes (src/redis), carries them out itself (src/memory), or loses them on purpose (tests/sim).
namespace conch::engine {

using std::chrono::milliseconds;

/// Server parts of fences count microseconds since 2020.
constexpr std::int64_t fence_epoch_us = 1'577'836'800'000'000;
/// Server parts are below this: a token (hand_offs_per_grant) is a positive 64-bit number (until 2091).
constexpr std::int64_t fence_limit = std::int64_t{1} << 51;

/// The count of a vote's id is its ticket times this, plus a count of attempts: whoever finds the lock taken can be told whose
/// turn it was, at no cost to a lock on one server.
constexpr std::int64_t attempts_per_ticket = 1000;

struct acquire_command {
  std::string_view name;
  grant_id id = 0;
  bool wait = true;
  milliseconds lease{}, claim{}, retention{};
  std::int64_t ticket = 0;        // 0: behind everybody
  std::int64_t not_after_us = 0;  // server time; 0: whenever
  bool with_source = false;
  std::int64_t proposal = 0;               // a vote: no fence below this; 0: not a vote
  engine::permit const* permit = nullptr;  // of a lock with several owners; none: a mutex
  bool patient = false;                    // whoever is first in line may not have connected again yet, and is not passed over
};

/// A try of one mutex among many.
struct attempt {
  std::string_view name;
  grant_id id = 0;
  milliseconds lease{};
};

/// Takes them in this order, up to the first that is not free. What is behind that is not touched.
struct acquire_all_command {
  std::span<attempt const> items;
  milliseconds retention{};
  std::int64_t not_after_us = 0;  // as in acquire_command
  bool with_source = false;
};

struct release_command {
  std::string_view name;
  grant_id id = 0;
  bool keep = false;
  milliseconds lease{}, claim{}, retention{};
  grant_id new_id = 0;  // stands in line again under this id; 0: does not
  bool with_source = false;
  std::int64_t floor = 0;                  // a vote: all fences from now on are above this; 0: not a vote
  std::int64_t next_fence_floor = 0;       // a vote: also above this, if somebody in line gets it now
  engine::permit const* permit = nullptr;  // as in acquire_command; it has no new_id
  std::uint32_t rest = 0;                  // of a part: how much of it stays mine
  bool patient = false;                    // as in acquire_command: an owner's is then perhaps not carried out, and answers 3
};

struct renewal {
  std::string_view name;
  grant_id id = 0;
  milliseconds lease{};
  std::int64_t floor = 0;  // of a vote, as in release_command
};

struct renew_command {
  std::span<renewal const> items;
  bool with_source = false;
  bool permits = false;      // of locks with several owners; mutexes have a script of their own
  milliseconds retention{};  // of holds that have lasted long: their fences are kept for this from now on; 0: of others
};

/// The same for votes.
struct confirm_command {
  std::span<renewal const> items;
  milliseconds retention{};
  bool with_source = false;
  bool keep_fences = false;  // as in renew_command
};

/// What an operator asks or orders; it concerns no place of this client (cohort/admin_request.hpp).
struct inspect_command {
  std::string_view name;
  bool with_source = false;
};

/// Takes it from all who own it, tells them, and passes it on.
struct force_command {
  std::string_view name;
  milliseconds claim{}, retention{};
  std::int64_t fence = 0;  // only from the one whose it is; 0: from all
  bool with_source = false;
  // To go on where an answer said that there is more; as it said.
  std::int64_t last = 0;     // the greatest fence that is meant; 0: begins
  std::int64_t from_us = 0;  // those that end after this
};

/// Sets the limit of a semaphore.
struct limit_command {
  std::string_view name;
  milliseconds claim{}, retention{};
  std::uint32_t limit = 0;
  bool with_source = false;
};

/// One connection as the server knows it.
struct session {
  std::uint64_t client_id = 0;
  std::string address;
  std::int64_t server_us = 0;                    // server time in its greeting ...
  time_point asked{};                            // ... which was asked for at this local time
  std::string run{};                             // names this run of the server; empty: not known
  std::optional<std::chrono::seconds> uptime{};  // of that run; empty: not known
};

struct kill_command {
  std::uint64_t client_id;
  std::string_view address;
};

struct subscribe_command {};
struct prove_publish_command {};
struct ping_command {};

using command = std::variant<acquire_command, acquire_all_command, release_command, renew_command, confirm_command, inspect_command, force_command,
                             limit_command, kill_command, subscribe_command, prove_publish_command, ping_command>;

/// What an error answer means. The table from Redis' words is in src/redis/faults.cpp.
enum class fault {
  none,
  no_script,      // send it again, once with its source
  try_later,      // the server is busy or not ready: the same request again after a pause
  reconnect,      // this is not the server to talk to: look it up and connect anew
  wrong_type,     // report
  access_denied,  // report
  refused,        // report; a release tries again
  malformed,      // not an answer to what was asked: report
};

/// What the number of a release for "passed on" is made of (lua/release.lua, lua/permit_release.lua); that of an order likewise.
constexpr std::int64_t passed_on_flag = 1;   // somebody has been granted it who may be dead
constexpr std::int64_t unfinished_flag = 2;  // there was more to do than one script does: a release is to be sent at once

/// Every command gets exactly one, in the order of the commands. All answers are flat lists of whole numbers.
struct answer {
  fault what = fault::none;
  std::string_view words;
  std::span<std::int64_t const> numbers;
};

/// A grant handed over by the server.
struct pushed_grant {
  std::string_view name;
  grant_id id = 0;
  std::int64_t fence = 0;  // 0: one of which no token can be made
  std::int64_t granted_us = 0;
  milliseconds claim{};
  permit_kind kind = permit_kind::none;  // of a lock with several owners
  std::uint32_t segment = 0;             // which one, 0 if it has none
};

/// Where the engine's commands go. Nothing here may call back into the engine before it has returned.
class wire {
 public:
  virtual void send(command const& c) = 0;
  virtual void want_connection() = 0;
  virtual void drop_connection(std::string_view why) = 0;

 protected:
  ~wire() = default;
};

/// What a wire tells of its connection and of what arrives on it, in the order in which that happens.
class wire_events {
 public:
  virtual void connected_as(session const& s, time_point now) = 0;
  virtual void connect_failed(fault what, std::string_view words, time_point now) = 0;
  /// A connection that was there has ended. The commands that were not answered stay so.
  virtual void disconnected(std::string_view why, time_point now) = 0;
  virtual void answered(answer const& a, time_point now) = 0;
  virtual void granted(pushed_grant const& g, time_point now) = 0;
  /// It was taken away by force.
  virtual void revoked(std::string_view name, grant_id id, time_point now) = 0;
  /// Our turn came where nobody heard of it: it is to be asked for again.
  virtual void missed(std::string_view name, grant_id id, time_point now) = 0;

 protected:
  ~wire_events() = default;
};

}  // namespace conch::engine
