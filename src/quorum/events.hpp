// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "quorum/attempts.hpp"
#include "quorum/holding.hpp"
#include "quorum/locks.hpp"

#include <string_view>

namespace conch::quorum {

/// What the servers answer and push, and what their connections do.
class events {
 public:
  events(quorum_environment& on, servers& all, locks& in_use, room& of_asking, vote_requests& requests,
         releases& given_back, holding& held, attempts& tried) noexcept
      : on_{on},
        servers_{all},
        locks_{in_use},
        room_{of_asking},
        requests_{requests},
        releases_{given_back},
        held_{held},
        attempts_{tried} {}

  void vote_granted(vote& v, bool pushed, time_point now);
  void vote_queued(vote& v, time_point now);
  void vote_refused(vote& v, time_point now);
  void vote_failed(vote& v, error_code why, time_point now);
  void vote_not_renewed(vote& v, time_point now);
  void vote_extended(vote& v, time_point now);
  void vote_lost(vote& v, time_point now);
  void vote_released(engine::receipt& r, bool was_mine, time_point now) { releases_.vote_released(r, was_mine, now); }
  void vote_settled(vote& v) { locks_.retire(v.in); }
  void connection_changed(member& m, time_point now);
  void connection_refused(time_point now);
  quorum_lock* find(std::string_view name) { return locks_.find(name); }
  quorum_lock& find_or_make(std::string_view name) { return locks_.get(name); }
  /// The timer of a lock.
  void due(quorum_lock& q, time_point now) { attempts_.due(q, now); }

 private:
  void leave_line(member& m, time_point until, time_point now);
  void look_for_doubles(member& m, time_point now);
  void vote_changes(member& m, time_point now);

  quorum_environment& on_;
  servers& servers_;
  locks& locks_;
  room& room_;
  vote_requests& requests_;
  releases& releases_;
  holding& held_;
  attempts& attempts_;
};

}  // namespace conch::quorum
