// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/timer_queue.hpp"
#include "cohort/backend.hpp"
#include "cohort/grant_id.hpp"

#include <conch/clock.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace conch::protocol {

using namespace engine;

class grant_ids;
class place_keeper;
struct cleanup;

/// The client that owns a lock at one server, as that server told it to another voter.
struct rival {
  std::int64_t client = 0;  // the first 48 bits of its id; 0: it does not vote
  std::int64_t ticket = 0;
  bool confirmed = false;
  time_point asked = time_point::min();  // when the question was written
};

/// The ticket and the floors with which a vote is asked for, confirmed and given back (src/quorum).
struct vote_terms {
  std::int64_t ticket = 0;              // the same at all servers; 0: not a vote
  std::int64_t floor = 0;               // fences that are given from now on must be above this
  std::int64_t next_fence_floor = 0;    // a fence that a release gives to the next in line should be above this, so that all servers give the same
  engine::place const* hold = nullptr;  // the place that decides whether the vote may be renewed; none: the vote's own place

  bool is_vote() const noexcept { return ticket != 0; }
  /// For a release or a confirmation (release_command::floor).
  std::int64_t floor_asked() const noexcept { return is_vote() ? std::max<std::int64_t>(floor, 1) : 0; }
};

/// What the protocol with one server knows of a place.
struct place final : engine::place, list_hook<place> {
  place(place_keeper& keeper, std::string_view lock_name, engine::permit const& share);
  ~place() override;

  place_keeper* of;                // the server that it is with
  grant_ids* listed_in = nullptr;  // found there by its id (grant_ids::enter)
  unsigned slot = 0;               // in a Cluster
  grant_id id;
  std::int64_t ticket = 0;
  bool renewing = false;                        // a renewal is under way
  bool asks_again = false;                      // asked again because of a push, or since nothing is heard of its slot any more; not answered yet
  bool postponed = false;                       // asks again, or leaves, when there is room for it (places::postpone)
  error_code refused_renewal;                   // owned: what the server has answered to the last renewal; none: it was renewed
  bool renewed_alone = false;                   // owned: a renewal with others failed, because of the key of one of them
  bool requested = false;                       // owned: another client has asked for the lock
  bool watches_requests = false;                // owned: the cohort is to hear of it
  bool by_push = false;                         // its grant was pushed first: the client that passed the lock on decides how long the fence is kept
  time_point fence_until{};                     // owned: the server keeps the fence until then at least, without a renewal that prolongs it
  time_point late_until = time_point::min();    // after this the server refuses every request under this id that was written so far
  time_point echo_until = time_point::min();    // the same, for requests that an earlier connection may still hold
  time_point listed_until = time_point::min();  // the server keeps the place in line until then: for the lease of whoever has the lock, and its own
  time_point trouble_since{};                   // asking: since when the server gives no answer, or "later"; zero: no trouble
  milliseconds longest_lease{};                 // that was asked for under this id: the cohort may ask for less later
  time_point late_since{};                      // asking: since when its grants were too old to be used; zero: none was
  /// This client passed the lock on while others waited: when to check that the new owner has taken it (cleanups::look_after); max: nothing
  /// to check.
  time_point follow_up = time_point::max();
  std::vector<time_point> later_follow_ups;  // of a permit: others were passed on while that was to be checked; in order

  /// A request with the lease that is asked for is about to be sent.
  void asks_for_lease() noexcept { longest_lease = std::max(longest_lease, lease); }

  void look_later(time_point when);
  /// What was passed on with a claim that ends by `now` needs no check any more.
  void checked_until(time_point now);
  void nothing_to_check() noexcept;
  /// As `run` of a place that was asked for at another server.
  static constexpr std::uint32_t no_run = static_cast<std::uint32_t>(-1);
  std::uint32_t run = 0;                         // the run of the server at which the place was asked for (server_runs::number)
  std::uint32_t told_on = 0;                     // the last connection on which something about this place was written
  time_point patient_until = time_point::min();  // asked for the first time in this run: who stands before it may still be at the earlier server
  cleanup* kick = nullptr;
  bool adopts() const noexcept { return !origin.empty(); }
  timer check;  // safety check, retry, or the end of patience with an absent server

  // A vote:
  vote_terms terms;
  rival seen;                   // the client behind which it stands in line
  std::int64_t accepted = 0;    // the floor of the last confirmation
  std::int64_t refused_by = 0;  // the fence above that floor that the confirmation met; 0: none

  bool may_renew(time_point now) const noexcept {
    engine::place const& s = terms.hold != nullptr ? *terms.hold : *this;
    return s.may_renew(now);
  }
};

inline place& made_here(engine::place& s) noexcept { return static_cast<place&>(s); }
inline place const& made_here(engine::place const& s) noexcept { return static_cast<place const&>(s); }
inline place* made_here(engine::place* s) noexcept { return static_cast<place*>(s); }

}  // namespace conch::protocol
