// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "quorum/quorum_environment.hpp"
#include "quorum/quorum_lock.hpp"
#include "quorum/room.hpp"
#include "quorum/servers.hpp"
#include "quorum/vote_requests.hpp"

#include <cstddef>
#include <list>
#include <memory>
#include <vector>

namespace conch::quorum {

class releases;

/// A release, or the end of a wait, whose caller waits for the answer.
struct release_round : engine::awaited {
  struct vote_release : engine::receipt {
    release_round* of = nullptr;
    bool open = false;
    bool vote = false;  // the vote was in hand when the release began; a later grant does not count
  };

  release_round(releases& q, std::size_t servers, engine::receipt* r, cohort_place* s);

  releases& in;
  // its reference is counted until `caller` has been notified
  cohort_place* front;
  std::vector<vote_release> votes;                                // never grows: clean-ups point into it
  std::list<std::unique_ptr<release_round>>::iterator listed_at;  // in the quorum's list
  std::size_t open = 0, answered = 0;
  std::size_t votes_open = 0, votes_mine = 0;  // of the votes that were in hand
  bool begun = false;                          // all releases are on their way
  bool late = false;                           // late servers are not waited for any more
  conch::timer timer;
};

/// Gives back at all servers what was asked for or held.
class releases {
 public:
  releases(quorum_environment& on, servers& all, room& of_asking) noexcept : on_{on}, servers_{all}, room_{of_asking} {}

  /// Leaves nothing of this client at any server, also not at those that have not answered. With `r` the reference to
  /// the front place goes to the release_round.
  void back_out(quorum_lock& q, engine::receipt* r, std::int64_t next_fence_floor, time_point now);
  void release_votes(quorum_lock& q, release_round* f, std::int64_t next_fence_floor, time_point now);
  /// After a loss: leaves the votes in hand at their servers for config::lock_delay. Nothing is sent.
  void leave_votes(quorum_lock& q, time_point now);
  void vote_released(engine::receipt& r, bool was_mine, time_point now);
  void report_released(release_round& round, time_point now);
  /// Gives up a reference.
  void drop(cohort_place& front);

  time_point late_after(engine::receipt const& r) const;
  error_code why_not_done(engine::receipt const& r) const;

 private:
  quorum_environment& on_;
  servers& servers_;
  room& room_;
  std::list<std::unique_ptr<release_round>> rounds_;
};

}  // namespace conch::quorum
