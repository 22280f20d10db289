// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "quorum/election.hpp"
#include "quorum/minority.hpp"
#include "quorum/releases.hpp"
#include "quorum/room.hpp"
#include "quorum/vote_requests.hpp"

namespace conch::quorum {

/// An attempt at a lock, from its start to the decision whether it is ours.
class attempts {
 public:
  attempts(quorum_environment& on, servers& all, room& of_asking, vote_requests& requests, releases& given_back,
           minority& few) noexcept
      : on_{on},
        servers_{all},
        room_{of_asking},
        requests_{requests},
        releases_{given_back},
        minority_{few} {}

  void start(quorum_lock& q, time_point now);
  /// Those that wait for room.
  void start_next(time_point now);
  void decide(quorum_lock& q, time_point now);
  enum class outcome {
    busy,
    left,
    attempt_failed,  // others of this process that wait for the lock wait on
    failed,
  };
  void end(quorum_lock& q, outcome how, error_code why, time_point now);
  /// Sets when to look at this lock again.
  void plan(quorum_lock& q, time_point now);
  void due(quorum_lock& q, time_point now);

 private:
  election count(quorum_lock const& q, time_point now) const;
  bool is_silent(quorum_lock const& q, vote const& v, time_point now) const;
  void win(quorum_lock& q, time_point deadline, std::int64_t fence, time_point now);
  error_code worst_trouble(quorum_lock const& q, time_point now) const;
  std::int64_t agreed_fence(quorum_lock& q, election const& e, time_point now);
  template <class Holds>
  std::size_t servers_with(quorum_lock const& q, time_point now, Holds holds) const;
  static bool accepts(vote const& v, std::int64_t fence);
  static void ask_to_accept(quorum_lock& q, std::int64_t fence, time_point now);

  quorum_environment& on_;
  servers& servers_;
  room& room_;
  vote_requests& requests_;
  releases& releases_;
  minority& minority_;
};

}  // namespace conch::quorum
