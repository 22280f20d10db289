// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/fault.hpp"
#include "engine/grant_id.hpp"
#include "engine/lease.hpp"
#include "engine/permit.hpp"

#include <conch/clock.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

// What goes between the engine and one server, in the terms of the protocol and before any encoding. A shell turns
// commands into bytes (src/servers/redis), carries them out itself (src/servers/memory), or loses them on purpose
// (tests/sim).
namespace conch::engine {
struct lock_report;
}

namespace conch::protocol {

using namespace engine;
using conch::fault;

struct acquire_reply;
struct tries_reply;
struct release_reply;
struct renew_reply;
struct order_reply;
struct session_reply;
struct watch_reply;
struct identity_reply;

using std::chrono::milliseconds;

/// Server parts of fences count microseconds since 2020.
constexpr std::int64_t fence_epoch_us = 1'577'836'800'000'000;
/// Server parts are below this: a token (hand_offs_per_grant) is a positive 64-bit number (until 2091).
constexpr std::int64_t fence_limit = std::int64_t{1} << 51;

/// The count of a vote's id is its ticket times this, plus a count of attempts. So a client that finds the lock taken
/// can be told the ticket of its owner. This costs a lock on one server nothing.
constexpr std::int64_t attempts_per_ticket = 1000;

struct acquire_command {
  std::string_view name;
  grant_id id = 0;
  bool wait = true;
  milliseconds lease{}, claim{}, retention{};
  std::int64_t ticket = 0;        // 0: behind all others
  std::int64_t not_after_us = 0;  // server time; 0: no limit
  bool with_source = false;
  std::int64_t proposal = 0;               // a vote: no fence below this; 0: not a vote
  engine::permit const* permit = nullptr;  // of a lock with several owners; none: a mutex
  bool patient = false;                    // the first in line may not have connected again yet, and is not passed over
  // takes over what that grant, "CLIENT.N FENCE", has left, or nothing; empty: asks for the lock
  std::string_view origin = {};
};

/// A try of one mutex among many.
struct attempt {
  std::string_view name;
  grant_id id = 0;
  milliseconds lease{};
};

/// Takes the locks in this order, up to the first that is not free. The locks behind that one are not touched.
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
  grant_id new_id = 0;  // the client queues again under this id; 0: it does not
  bool with_source = false;
  std::int64_t floor = 0;                  // a vote: all fences from now on are above this; 0: not a vote
  std::int64_t next_fence_floor = 0;       // a vote: the fence of a waiter that gets the lock now is above this, too
  engine::permit const* permit = nullptr;  // as in acquire_command; it has no new_id
  std::uint32_t rest = 0;                  // of a permit: how much of it the client keeps
  // as in acquire_command: the release of an owner is then perhaps not carried out, and answered with 3
  bool patient = false;
  // of an owner, within the minimum interval: its lease ends in this time, and the lock is not free before; 0: it is
  // given back. Only of a mutex, and without keep, new_id, next_fence_floor and patient.
  milliseconds ends_in{};
};

struct renewal {
  std::string_view name;
  grant_id id = 0;
  milliseconds lease{};
  std::int64_t floor = 0;  // of a vote, as in release_command
  // of the grant: another grant under this id is not renewed; none: any grant (a vote names none)
  std::optional<std::int64_t> fence{};
};

/// Locks in one renewal script. The bound keeps a script from blocking the server for more than about 0.2 ms.
inline constexpr std::size_t renewals_per_script = 200;

struct renew_command {
  std::span<renewal const> items;
  bool with_source = false;
  bool permits = false;  // of locks with several owners; mutexes have a script of their own
  milliseconds
      // for long holds, and the first time for a pushed grant: their fences are kept for this time from now on; 0: for
      // other holds
      retention{};
  bool asking = false;  // of locks that are on their way to this server, after an asking_command
};

/// The same for votes.
struct confirm_command {
  std::span<renewal const> items;
  milliseconds retention{};
  bool with_source = false;
  bool keep_fences = false;  // as in renew_command
};

/// The commands of operators (cohort/admin_request.hpp). This one asks for the owners of a lock.
struct inspect_command {
  std::string_view name;
  bool with_source = false;
};

/// Takes a lock from its owners, notifies them, and passes it on.
struct force_command {
  std::string_view name;
  milliseconds claim{}, retention{};
  std::optional<std::int64_t> fence{};  // only from the owner with this fence; none: from all owners
  bool with_source = false;
  // To continue after an answer with more to do: the values of that answer.
  std::optional<std::int64_t> last{};  // the greatest fence that is meant; none: this is the first command
  std::int64_t from_us = 0;            // only owners whose lease ends after this
};

/// Asks the owners of a lock to let it go.
struct request_command {
  std::string_view name;
  std::optional<std::int64_t> fence{};  // only the owner with this fence; none: all owners
  bool with_source = false;
};

/// Has the owner with this fence been asked to let go?
struct requested_command {
  std::string_view name;
  std::int64_t fence = 0;
};

/// Is the lock free? If it is not, `id` is notified when it is.
struct watch_command {
  std::string_view name;
  grant_id id = 0;  // 0: only notifies others, if the lock is free and a script has left some of them
  milliseconds lease{};
  bool with_source = false;
};

/// That id no longer wants to be notified.
struct unwatch_command {
  std::string_view name;
  grant_id id = 0;
};

/// What a client tells others about itself (base/introduction.hpp), which the server keeps for that time. Empty: it is
/// forgotten.
struct introduce_command {
  std::string_view name;  // of the client: its id
  std::string_view text;
  milliseconds kept{};
};

/// What has that client told about itself?
struct identify_command {
  std::string_view name;  // as of introduce_command
};

/// Sets or changes the limit of a semaphore.
struct limit_command {
  std::string_view name;
  milliseconds claim{}, retention{};
  std::uint32_t limit = 0;
  bool with_source = false;
  // is added to the present limit, or to `limit` if the server knows nothing of the lock; 0: `limit` is the new one
  std::int64_t by = 0;
  bool if_unset = false;  // not if the limit was set before

  bool changes() const noexcept { return by != 0 || if_unset; }
};

/// One connection as the server knows it.
struct session {
  std::uint64_t client_id = 0;
  std::string address;                           // of this end, as the server sees it
  std::int64_t server_us = 0;                    // server time in its greeting ...
  time_point asked{};                            // ... which was asked for at this local time
  std::string run{};                             // names this run of the server; empty: not known
  std::optional<std::chrono::seconds> uptime{};  // of that run; empty: not known
  bool has_channel = true;                       // a node of a Cluster has none without slots
  std::string server_address{};                  // the address of the server, not its name; empty: not known
};

struct kill_command {
  std::uint64_t client_id;
  std::string_view address;
};

struct subscribe_command {};
struct prove_publish_command {};
struct ping_command {};

/// The next command is about a slot that is on its way to this node of a Cluster.
struct asking_command {};

/// A publication without subscribers. It is replicated.
struct mark_command {};

/// Waits until this many replicas have what this connection has written. Answered with how many have it, then or after
/// that time.
struct wait_command {
  std::uint32_t replicas = 1;
  milliseconds timeout{};
};

using command =
    std::variant<acquire_command, acquire_all_command, release_command, renew_command, confirm_command, inspect_command,
                 force_command, request_command, requested_command, watch_command, unwatch_command, introduce_command,
                 identify_command, limit_command, kill_command, subscribe_command, prove_publish_command, ping_command,
                 asking_command, mark_command, wait_command>;

/// The flags for "passed on" in the answer of a release (lua/release.lua, lua/permit_release.lua) or of an order.
constexpr std::int64_t passed_on_flag = 1;   // the lock was granted to a client that may be dead
constexpr std::int64_t unfinished_flag = 2;  // there is more to do than one script does: send a release at once

/// The answer to a command. Every command gets exactly one, in the order of the commands. protocol/replies.hpp reads
/// it.
struct answer {
  fault what = fault::none;
  std::string_view words{};
  /// A server answers with a flat list of whole numbers: only the sender of the command knows which script they are of.
  /// It answers identify_command with a text. A server in this process gives the reply itself, and its reader may move
  /// it away.
  std::variant<std::span<std::int64_t const>, std::string_view, acquire_reply*, tries_reply*, release_reply*,
               renew_reply*, lock_report*, order_reply*, session_reply*, watch_reply*, identity_reply*>
      content{};
  /// The error concerns the keys of this command, not the server: the user lacks a right to one, or another session has
  /// one locked. If the command was for several locks, it may still succeed for each of the others.
  bool of_its_keys = false;

  /// The numbers of a server's answer; otherwise empty.
  std::span<std::int64_t const> numbers() const noexcept {
    auto const* const sent = std::get_if<std::span<std::int64_t const>>(&content);
    return sent != nullptr ? *sent : std::span<std::int64_t const>{};
  }
};

/// A grant that the server pushes.
struct pushed_grant {
  std::string_view name;
  grant_id id = 0;
  std::int64_t fence = 0;  // 0: a fence of which no token can be made
  std::int64_t granted_us = 0;
  milliseconds claim{};
  permit_kind kind = permit_kind::none;  // of a lock with several owners
  std::uint32_t chosen = 0;              // as place::chosen
};

/// The lock was taken away by force.
struct revocation {
  std::string_view name;
  grant_id id = 0;
};

/// Another client asks the owner to let the lock go.
struct request_to_let_go {
  std::string_view name;
  grant_id id = 0;
};

/// The lock for which that watcher waits has become free.
struct end_of_hold {
  std::string_view name;
  grant_id id = 0;
  bool more = false;  // others wait for it too, and the server has notified only some of them
};

/// The turn of this place came, but no subscriber received the grant: ask again.
struct missed_turn {
  std::string_view name;
  grant_id id = 0;
};

/// The lock that this place in line, or this watcher, waits for has another owner than it knows of.
struct end_of_lease {
  std::string_view name;
  grant_id id = 0;
  milliseconds left{};  // until the lease of that owner ends, if it is not renewed
};

/// What a server pushes to a client. The names live as long as the call.
using push = std::variant<pushed_grant, revocation, request_to_let_go, end_of_hold, missed_turn, end_of_lease>;

/// Where the engine's commands go. No function here may call back into the engine before it has returned.
class wire {
 public:
  virtual void send(command const& c) = 0;
  virtual void want_connection() = 0;
  virtual void drop_connection(std::string_view why) = 0;
  /// What the attempt to connect that is under way waits for. Empty: there is none.
  virtual std::string unfinished_attempt() const { return {}; }

 protected:
  ~wire() = default;
};

/// What a wire reports of its connection and of what arrives on it, in the order in which that happens.
class wire_events {
 public:
  virtual void connected_as(session const& s, time_point now) = 0;
  virtual void connect_failed(fault what, std::string_view words, time_point now) = 0;
  /// An established connection has ended. Commands that were not answered will not be answered.
  virtual void disconnected(std::string_view why, time_point now) = 0;
  virtual void answered(answer const& a, time_point now) = 0;
  virtual void pushed(push const& p, time_point now) = 0;

 protected:
  ~wire_events() = default;
};

}  // namespace conch::protocol
