// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "engine/grant_id.hpp"
#include "engine/permit.hpp"

#include <conch/clock.hpp>
#include <conch/error.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Requests about a lock that have no place in its line.
namespace conch::engine {

/// A question or an order about a lock.
struct order {
  enum class kind : std::uint8_t {
    inspect,    // asks for the owners of the lock
    identify,   // asks what the client whose id is `name` tells about itself
    force,      // takes the lock from its owners
    request,    // asks its owners to let it go
    wait_free,  // waits until the lock is free
    set_limit,  // sets the limit of a semaphore
    downgrade,  // makes the client's own permit smaller
  };

  kind what = kind::inspect;
  std::string name;
  std::optional<std::int64_t> fence{};  // force, request: the fence of the owner that is meant; none: all owners are
  std::uint32_t size = 0;               // set_limit: the new limit; downgrade: what is left of the permit
  // set_limit: is added to the present limit, or to `size` if the lock is not in use; 0: `size` is the new limit
  std::int64_t by = 0;
  bool if_unset = false;  // set_limit: not if it was set before
  grant_id id = 0;        // downgrade, wait_free: set by the backend
  engine::permit permit;  // downgrade: the permit as it was asked for
};

/// A question or an order about a lock. The backend sends it again after a reconnect, until the server answers or
/// `offline_timeout` is over. A `force` that was written is sent again only if it names the owners that it means: it
/// must not take the lock from a later owner. A set_limit that was written is not sent again if it adds.
///
/// The shell owns it, and may free it after on_admin_answered.
struct admin_request : order, list_hook<admin_request> {
  admin_request() noexcept;
  ~admin_request();  // withdraws the request if it is not answered yet

  struct place const* held_at = nullptr;  // downgrade: the place that holds the permit
  bool gives_up = true;                   // false: not after `offline_timeout`
  duration wait = duration::max();        // wait_free: ends with timed_out then; zero: one question

  // Set by the backend.
  class backend* server = nullptr;
  std::uint64_t serial = 0;
  bool written = false;                      // written and not answered yet
  std::int64_t taken = 0;                    // force: how many owners the scripts so far have taken it from
  std::optional<std::int64_t> last{};        // force: where the next script continues ...
  std::int64_t from_us = 0;                  // ... (force_command)
  time_point wait_ends = time_point::max();  // wait_free: not of one question
  bool is_known = false;                     // wait_free: the server has recorded it, and will notify
  time_point until{};
  timer due;
};

/// The owners of a lock, and the clients that wait.
struct lock_report {
  struct owner {
    std::array<std::uint32_t, 4> client;  // 128 bits; the first 32 bits come first
    std::int64_t fence, left_ms;
    std::uint32_t permits, segment;
    bool confirmed;
    std::array<std::uint32_t, 4> asked_by{};  // the client that asked it to let go ...
    std::int64_t asked_us = 0;                // ... and when, by the server's clock; 0: none did

    bool operator==(owner const&) const = default;
  };

  struct waiter {
    std::array<std::uint32_t, 4> client;
    std::int64_t since_us;  // by the server's clock: its place in the line
    std::uint32_t permits;  // as of an owner

    bool operator==(waiter const&) const = default;
  };

  permit_kind kind = permit_kind::none;
  std::uint64_t waiting = 0;
  std::uint32_t held = 0, taken = 0, limit = 0;
  std::vector<owner> owners{};    // the first 100 by their fences; none if there are more than 1000
  std::vector<waiter> waiters{};  // the first 100 in line

  bool operator==(lock_report const&) const = default;
};

struct admin_result {
  // force: how many owners lost the lock; request: how many are asked; set_limit: how many permits are taken
  std::int64_t count = 0;
  std::optional<lock_report> status{};  // inspect
  std::string identity{};               // identify: empty, if the server knows nothing
  std::uint32_t limit = 0;              // set_limit: from now on
};

/// Receives the answers. No function here may call back into the engine before it has returned.
class admin_events {
 public:
  /// Called once for each request that was asked and not withdrawn.
  virtual void on_admin_answered(admin_request& i, admin_result const& result, error_code why) = 0;

 protected:
  ~admin_events() = default;
};

}  // namespace conch::engine
