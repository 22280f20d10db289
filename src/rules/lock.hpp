// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/replies.hpp"
#include "protocol/wire.hpp"
#include "rules/members.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

// What a lock is, and what each request does to it: the definition (docs/protocol.md). The scripts in lua/ and the
// functions in sql/ do the same on their servers, and tests compare them with this. memory:// uses it as it is.
//
// A lock is a value. A request is a function of that value and a moment; it is carried out as a whole and answers at
// once. There is no I/O, no clock and no thread here, and nothing about what a server can do in one go: a script may
// stop half-way and report it (docs/protocol.md, bounded work), and is compared with this when it has finished. A mutex
// is a lock with the limit 1.
namespace conch::rules {

using engine::permit_kind;

/// What a client receives without having asked.
struct push {
  enum class kind : std::uint8_t {
    granted,     // its turn came: fence, chosen
    taken_away,  // by force
    requested,   // another client asks the owner to let the lock go
    ends,        // to a waiter or watcher: the lease of the present owner ends in `left`, if it is not renewed
    free,        // to a watcher: the lock is free
  } what;
  id const& to;
  std::int64_t fence = 0, chosen = 0;
  ms left = 0;
};

/// The clients that a request reaches.
class audience {
 public:
  /// False: that client is not connected, and receives nothing.
  virtual bool send(push const& p) = 0;
  virtual bool is_listening(std::string_view client) const = 0;

 protected:
  ~audience() = default;
};

/// When a request is carried out, which client sent it, and where messages go.
struct moment {
  us now = 0;  // may be less than in the request before
  std::string_view client{};
  audience& clients;
  // how long a new owner that was told by a push has to renew, and how long fences are kept
  ms claim = 0, retention = 0;

  std::int64_t clock() const { return now - protocol::fence_epoch_us; }  // as a fence
};

/// After each request:
/// - L1 The sizes of all owners together are at most the limit, or the limit was lowered since. A mutex has at most one
/// owner.
/// - L2 No two owners have the same segment. All owners of a reentrant lock belong to one conch::owner (`whose`).
/// - L3 As long as it is kept, `fence` is the greatest fence that was granted. The fences of owners differ.
/// - L4 Each owner was told that it is one: by the answer to its request, or by a push that its client received.
/// - L5 No waiter fits, or none whose turn it is. (Not after a request that is patient, nor after the lease of an owner
/// has ended by
///   itself, nor after one that frees nothing: a renewal, a confirmation, an adoption, a question.)
/// - L6 The queue outlives the latest request of a waiter: by the leases at that moment, or a claim, and by the
/// waiter's own lease.
/// - L7 A fence is kept for the retention after its grant, and until the clock has passed it.
struct lock {
  permit_kind kind = permit_kind::none;  // none: a mutex
  std::int64_t limit = 1;
  bool limit_is_set = false;  // by an operator; otherwise it is that of the first owner
  rules::owners owners;
  std::string whose;     // of a reentrant lock: the conch::owner that has it
  std::string segments;  // of a lock with segments, for each '1' if an owner has it, else '0'
  us kept = 0;           // until then; then kind, limit and owners are forgotten. 0: there is nothing to forget

  rules::line line;
  us line_kept = 0;
  // Where waiters that want nothing of what is free are passed over: up to this ticket none wants it. Avoids looking at
  // them again.
  std::int64_t passed_over = 0;

  std::int64_t fence = 0;
  us fence_kept = 0;

  struct request {
    std::string asker;
    us when = 0;
  };
  std::map<std::int64_t, request> requests;  // by the fence of the owner that is asked to let go
  us requests_kept = 0;

  struct watcher {
    us since = 0;
    id who;

    friend bool operator<(watcher const& a, watcher const& b) {
      return a.since != b.since ? a.since < b.since : a.who.text < b.who.text;
    }
  };
  std::set<watcher> watchers;  // are notified when the lock is free
  us watchers_kept = 0;
};

// ---- what happens by itself ----------------------------------------------------------------------------------------

/// When the first part of it is forgotten. 0: nothing is known of the lock.
us next_end(lock const& l) noexcept;

/// Forgets what has expired. It does not come back when the clock goes back. Each request does this first.
void end_what_is_over(lock& l, us now);

/// Which of L1 to L7 does not hold, of those that can be seen in a lock. Empty: all do. `passed_on`: L5, too. Builds
/// with assertions ask this after each request.
std::string broken_rule(lock const& l, us now, bool passed_on = false);

// ---- requests ------------------------------------------------------------------------------------------------------
// Each is a command of the protocol (protocol/wire.hpp). std::nullopt: the name is that of another kind of lock;
// nothing has changed.

/// Takes the lock, or joins its queue (`wait`). A client that is already an owner is renewed.
std::optional<protocol::acquire_reply> acquire(lock& l, moment const& when, protocol::acquire_command const& c);

/// Takes a mutex if it is free and has no waiters, and renews it if it is the sender's. 0: neither; else the fence.
std::int64_t take(lock& l, moment const& when, protocol::attempt const& c);

/// Takes over what `origin` has, with its fence.
std::optional<protocol::acquire_reply> adopt(lock& l, moment const& when, protocol::acquire_command const& c);

/// Gives the lock back, or leaves the line. What is free goes to the first in line.
std::optional<protocol::release_reply> release(lock& l, moment const& when, protocol::release_command const& c);

/// True: the lock is the sender's, and its lease is at least as long as that from now on. A claim becomes a hold.
bool renew(lock& l, moment const& when, protocol::renewal const& c, bool of_mutex);

/// The same for a vote. No fence from now on is at or below its floor.
protocol::renew_reply::one confirm(lock& l, moment const& when, protocol::renewal const& c, bool keep_fence);

/// Takes the lock from its owners, or from one of them, notifies them, and passes it on.
protocol::order_reply force(lock& l, moment const& when, protocol::force_command const& c);

/// Asks the owners, or one of them, to let the lock go.
protocol::order_reply request(lock& l, moment const& when, protocol::request_command const& c);

/// Sets the limit of a semaphore. Nothing is taken away.
std::optional<protocol::order_reply> set_limit(lock& l, moment const& when, protocol::limit_command const& c);

/// Is the lock free? Otherwise the sender is notified when it is.
protocol::watch_reply watch(lock& l, moment const& when, protocol::watch_command const& c);

/// True: it watched.
bool unwatch(lock& l, moment const& when, protocol::unwatch_command const& c);

engine::lock_report inspect(lock& l, moment const& when);

}  // namespace conch::rules
