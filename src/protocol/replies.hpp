// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cohort/admin_request.hpp"
#include "protocol/wire.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// What the scripts answer, as types: the only place that knows which number stands where (docs/protocol.md has the same in words).
namespace conch::engine {

/// Of the acquire scripts, and what a release says of the place that it asked for anew.
struct acquire_reply {
  enum class kind : std::uint8_t {
    granted,     // fence, segment
    queued,      // left_ms, ticket
    busy,        // a try: another client has it
    too_late,    // carried out after its not-after: nothing was done
    unfinished,  // not known yet, the same once more; ticket
    malformed,
  };

  kind what = kind::malformed;
  std::int64_t fence = 0, segment = 0;
  std::int64_t left_ms = 0, ticket = 0;
  std::int64_t server_us = 0;  // what the server's clock showed; 0: not told
  /// Of a vote: which client has the lock there, and with which ticket.
  struct owner {
    std::int64_t client, ticket;
    bool confirmed;
  };
  std::optional<owner> seen;
  bool passed_on = false;  // the lock went to another client, which may be dead
  bool more_to_do = false;
};

/// `proposal`: the fence that the acquire proposed.
acquire_reply read_acquire(std::span<std::int64_t const> numbers, std::int64_t proposal);

/// Of acquire_all. The fences of what it took, in order; what is behind them is busy or was not looked at.
struct tries_reply {
  bool too_late = false;  // then there are no fences
  std::int64_t server_us = 0;
  std::span<std::int64_t const> fences;
};

/// Nothing: malformed.
std::optional<tries_reply> read_tries(std::span<std::int64_t const> numbers, std::size_t tried);

/// Of the release scripts.
struct release_reply {
  enum class kind : std::uint8_t {
    released,     // or left the line; was_mine says which
    still_owned,  // with `keep`: fence, segment
    not_done,     // patient: the first in line has not connected again yet, so the owner stays the owner
    malformed,
  };

  kind what = kind::malformed;
  bool was_mine = false;
  bool passed_on = false;  // the lock went to another client, which may be dead
  bool more_in_line = false;
  bool more_to_do = false;     // than one script does: a release is to be sent at once
  std::int64_t server_us = 0;  // 0: not told
  std::int64_t fence = 0, segment = 0;
  acquire_reply again;  // if the release asked for a new place
};

/// `asked_again`: the release has a new id. `of_permit`: it is one of a lock with several owners.
release_reply read_release(std::span<std::int64_t const> numbers, bool asked_again, bool of_permit);

/// Of renew and confirm, for each lock in the order of the command.
class renew_reply {
 public:
  enum class kind : std::uint8_t {
    failed,  // could not be read or written just now
    not_mine,
    renewed,
  };
  struct one {
    kind what;
    std::int64_t fence_above = 0;  // of a confirmation: the fence above its floor that had been given; 0: none
  };

  std::int64_t server_us() const { return numbers_[0]; }
  one at(std::size_t i) const;

 private:
  friend std::optional<renew_reply> read_renew(std::span<std::int64_t const> numbers, std::size_t locks, bool confirms);
  renew_reply(std::span<std::int64_t const> numbers, bool confirms) : numbers_{numbers}, each_{confirms ? 2u : 1u} {}

  std::span<std::int64_t const> numbers_;
  std::size_t each_;
};

/// Nothing: malformed.
std::optional<renew_reply> read_renew(std::span<std::int64_t const> numbers, std::size_t locks, bool confirms);

/// Of inspect. Nothing: malformed.
std::optional<lock_report> read_inspect(std::span<std::int64_t const> numbers);

/// Of an order that lets others in: force, the limit of a semaphore, a part made smaller.
struct order_reply {
  std::int64_t count = 0;   // force: from how many it was taken; limit: how many permits are taken
  bool passed_on = false;   // the lock went to other clients, which may be dead, and more wait
  bool more_to_do = false;  // than one script does: a release is to be sent at once
  engine::permit permit{};  // the lock that it concerned
  /// Force: where the next script goes on.
  struct place {
    std::int64_t last, from_us;
  };
  std::optional<place> goes_on{};
};

/// Nothing: malformed.
std::optional<order_reply> read_force(std::span<std::int64_t const> numbers);
std::optional<order_reply> read_limit(std::span<std::int64_t const> numbers, std::uint32_t limit);

}  // namespace conch::engine
