// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/admin_request.hpp"
#include "protocol/wire.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The answers of the scripts as types. Only the readers below know which number is where (docs/protocol.md describes
// it). A server in this process answers with these types. Each reader takes both kinds of answers.
namespace conch::protocol {

using namespace engine;

/// The reply of the acquire scripts; also what a release answers about the place that it asked for anew.
struct acquire_reply {
  enum class kind : std::uint8_t {
    granted,     // fence, chosen
    queued,      // left_ms, ticket
    busy,        // a try: another client has the lock
    too_late,    // carried out after its not-after: nothing was done
    unfinished,  // not known yet: send the same command again; ticket
    malformed,
  };

  kind what = kind::malformed;
  std::int64_t fence = 0, chosen = 0;
  std::int64_t left_ms = 0, ticket = 0;
  std::int64_t server_us = 0;  // what the server's clock showed; 0: unknown
  /// For a vote: the client that has the lock at that server, and its ticket.
  struct owner {
    std::int64_t client, ticket;
    bool confirmed;

    bool operator==(owner const&) const = default;
  };
  std::optional<owner> seen{};
  bool passed_on = false;  // the lock went to another client, which may be dead
  bool more_to_do = false;

  bool operator==(acquire_reply const&) const = default;
};

/// `proposal`: the fence that the acquire proposed. An answer with a fault gives a malformed reply.
acquire_reply read_acquire(answer const& a, std::int64_t proposal);

/// The reply of acquire_all: the fences of the locks that it took, in order. The locks behind them are busy or were not
/// tried.
struct tries_reply {
  bool too_late = false;  // then there are no fences
  std::int64_t server_us = 0;
  std::vector<std::int64_t> fences{};

  bool operator==(tries_reply const&) const = default;
};

/// Empty if the answer is malformed or has a fault.
std::optional<tries_reply> read_tries(answer const& a, std::size_t tried);

/// The reply of the release scripts.
struct release_reply {
  enum class kind : std::uint8_t {
    released,     // or left the queue; was_mine says which
    still_owned,  // with `keep`: fence, chosen
    not_done,     // patient: the first in line has not connected again yet, so the owner stays the owner
    malformed,
  };

  kind what = kind::malformed;
  bool was_mine = false;
  bool passed_on = false;  // the lock went to another client, which may be dead
  bool more_in_line = false;
  bool more_to_do = false;     // more than one script does: send a release at once
  std::int64_t server_us = 0;  // 0: unknown
  std::int64_t fence = 0, chosen = 0;
  acquire_reply again{};  // if the release asked for a new place

  bool operator==(release_reply const&) const = default;
};

/// `asked_again`: the release has a new id. `of_permit`: the lock has several owners. An answer with a fault gives a
/// malformed reply.
release_reply read_release(answer const& a, bool asked_again, bool of_permit);

/// The reply of renew and confirm.
struct renew_reply {
  enum class kind : std::uint8_t {
    failed,  // could not be read or written just now
    not_mine,
    renewed,
  };
  struct one {
    kind what = kind::failed;
    bool overtaken = false;       // of a confirmation: the server had given a fence above its floor, last_fence
    std::int64_t last_fence = 0;  // of a confirmation: the last fence before it; 0: none

    bool operator==(one const&) const = default;
  };

  std::int64_t server_us = 0;
  std::vector<one> locks{};  // in the order of the command

  bool operator==(renew_reply const&) const = default;
};

/// Empty if the answer is malformed or has a fault.
std::optional<renew_reply> read_renew(answer const& a, std::size_t locks, bool confirms);

/// The reply of inspect; empty if the answer is malformed or has a fault.
std::optional<lock_report> read_inspect(answer const& a);

/// The reply of an order that may let other clients in: force, the limit of a semaphore, a downgrade.
struct order_reply {
  std::int64_t count = 0;   // force: how many owners lost the lock; limit: how many permits are taken
  bool passed_on = false;   // the lock went to other clients, which may be dead, and more wait
  bool more_to_do = false;  // more than one script does: send a release at once
  engine::permit permit{};  // the kind and the limit of the lock
  /// Force: where the next script continues.
  struct from_there {
    std::int64_t last = 0, from_us = 0;

    bool operator==(from_there const&) const = default;
  };
  std::optional<from_there> goes_on{};

  bool operator==(order_reply const&) const = default;
};

/// Empty if the answer is malformed or has a fault.
std::optional<order_reply> read_force(answer const& a);
std::optional<order_reply> read_limit(answer const& a, std::uint32_t limit);

/// The reply of watch.
struct watch_reply {
  bool is_free = false;
  std::int64_t left_ms = 0;  // not free: the present leases end in that time

  bool operator==(watch_reply const&) const = default;
};

/// Empty if the answer is malformed or has a fault.
std::optional<watch_reply> read_watch(answer const& a);

/// The reply of identify: what the client has told about itself, or nothing.
struct identity_reply {
  std::string text{};

  bool operator==(identity_reply const&) const = default;
};

/// Empty if the answer is malformed or has a fault.
std::optional<identity_reply> read_identity(answer const& a);

/// The reply of a command about the connection.
struct session_reply {
  std::int64_t count = 0;  // of a proof: how many subscribers received it

  bool operator==(session_reply const&) const = default;
};

session_reply read_session(answer const& a);

}  // namespace conch::protocol
