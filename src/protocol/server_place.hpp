// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "engine/backend.hpp"
#include "engine/grant_id.hpp"

#include <conch/clock.hpp>
#include <conch/error.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace conch::protocol {

using namespace engine;

class grant_ids;
class place_keeper;
struct cleanup;

/// The client that owns a lock at one server, as that server reported it to another voter.
struct rival {
  std::int64_t client = 0;  // the first 48 bits of its id; 0: it does not vote
  std::int64_t ticket = 0;
  bool confirmed = false;
  time_point asked = time_point::min();  // when the question was written
};

/// The ticket and the floors with which a vote is asked for, confirmed and given back (src/quorum).
struct vote_terms {
  std::int64_t ticket = 0;  // the same at all servers; 0: not a vote
  std::int64_t floor = 0;   // fences that are given from now on must be above this
  // a fence that a release gives to the next in line should be above this, so that all servers give the same
  std::int64_t next_fence_floor = 0;
  // the place that decides whether the vote may be renewed; none: the vote's own place
  engine::place const* hold = nullptr;

  bool is_vote() const noexcept { return ticket != 0; }
  /// For a release or a confirmation (release_command::floor).
  std::int64_t floor_asked() const noexcept { return is_vote() ? std::max<std::int64_t>(floor, 1) : 0; }
};

/// For a place that asks, waits in the queue or leaves.
struct waiting_state {
  std::int64_t ticket = 0;
  // asked again because of a push, or since its slot is unsubscribed; not answered yet
  bool asks_again = false;
  bool postponed = false;  // asks again, or leaves, when there is room for it (places::postpone)
  // its grant was pushed first: the client that passed the lock on decides how long the fence is kept
  bool by_push = false;
  time_point trouble_since{};  // since when the server gives no answer, or "later"; zero: no trouble
  time_point late_since{};     // since when its grants were too old to be used; zero: none was
  // until then the server keeps the place in line: for the lease of the holder, and its own
  time_point listed_until = time_point::min();
  // asked for the first time in this run: the clients before it may still be at the earlier server
  time_point patient_until = time_point::min();
};

/// What an owned place has; it ends with the hold.
struct owned_state {
  bool renewing = false;          // a renewal is under way
  bool renewed_alone = false;     // a renewal with others failed, because of the key of one of them
  bool requested = false;         // another client has asked for the lock
  bool watches_requests = false;  // to be reported to the cohort
  error_code refused_renewal;     // what the server has answered to the last renewal; none: it was renewed
  time_point fence_until{};       // the server keeps the fence until then at least, without a renewal that prolongs it
};

/// What may still reach the server under the id of a place.
struct late_state {
  time_point until = time_point::min();  // after this the server refuses every request that was written so far
  time_point old_connection_until =
      time_point::min();           // the same, for requests that an earlier connection may still hold
  std::uint32_t last_sent_on = 0;  // the last connection on which something about the place was written
  milliseconds longest_lease{};    // that was asked for: the cohort may ask for less later
};

/// The clients to which this one has passed the lock on, while others waited, and when to check that they have taken it
/// (cleanups::verify_successor).
class successor {
 public:
  /// Is there something to check?
  bool any() const noexcept { return next_ != time_point::max(); }
  time_point next() const noexcept { return next_; }
  /// `of_permit`: others may have been let in that are to be checked, too.
  void look_later(time_point when, bool of_permit);
  /// What was passed on with a claim that ends by `now` needs no check any more.
  void checked_until(time_point now);
  void nothing_to_check() noexcept;

  cleanup* kick = nullptr;

 private:
  time_point next_ = time_point::max();
  std::vector<time_point> later_;  // in order
};

/// For a vote (src/quorum).
struct vote_state {
  vote_terms terms;
  rival seen;                   // the client behind which it is queued
  std::int64_t accepted = 0;    // the floor of the last confirmation
  std::int64_t refused_by = 0;  // the fence above that floor that the confirmation met; 0: none
};

/// What the protocol with one server knows of a place. Each group has one part that writes it, but for what
/// docs/design/server.md names.
struct server_place final : engine::place, list_hook<server_place> {
  server_place(place_keeper& keeper, std::string_view lock_name, engine::permit const& share);
  ~server_place() override;

  /// As `run` of a place that was asked for at another server.
  static constexpr std::uint32_t no_run = static_cast<std::uint32_t>(-1);

  place_keeper* of;                // the server that it is with
  grant_ids* listed_in = nullptr;  // found there by its id (grant_ids::enter)
  unsigned slot = 0;               // in a Cluster
  grant_id id;
  std::uint32_t run = 0;  // the run of the server at which the place was asked for (server_runs::number)
  timer check;            // safety check, retry, or the end of patience with an absent server
  waiting_state waiting;
  owned_state owned;
  late_state late;
  successor next_owner;
  vote_state vote;

  bool adopts() const noexcept { return !origin.empty(); }
  /// A request with the lease that is asked for is about to be sent.
  void asks_for_lease() noexcept { late.longest_lease = std::max({late.longest_lease, lease, at_least}); }
  bool may_renew(time_point now) const noexcept {
    engine::place const& p = vote.terms.hold != nullptr ? *vote.terms.hold : *this;
    return p.may_renew(now);
  }
};

inline server_place& made_here(engine::place& p) noexcept { return static_cast<server_place&>(p); }
inline server_place const& made_here(engine::place const& p) noexcept { return static_cast<server_place const&>(p); }
inline server_place* made_here(engine::place* s) noexcept { return static_cast<server_place*>(s); }

}  // namespace conch::protocol
