// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "quorum/quorum_environment.hpp"
#include "quorum/quorum_lock.hpp"

namespace conch::quorum {

/// What is asked of one server for one lock.
class vote_requests {
 public:
  explicit vote_requests(quorum_environment& on) noexcept : on_{on} {}

  /// Asks for the votes that are idle.
  void ask_votes(quorum_lock& q, time_point now);
  void ask_vote(quorum_lock& q, vote& v, bool wait, time_point now);
  void confirm_late_votes(quorum_lock& q, time_point now);
  /// Gives a vote back, also one that is only asked for.
  static void give_back(vote& v, engine::receipt* r, std::int64_t next_fence_floor, time_point now);

 private:
  quorum_environment& on_;
};

}  // namespace conch::quorum
