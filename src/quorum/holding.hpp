// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "quorum/releases.hpp"
#include "quorum/servers.hpp"
#include "quorum/vote_requests.hpp"

#include <span>

namespace conch::quorum {

/// While the lock is ours: renewed, mended, lost.
class holding {
 public:
  holding(quorum_environment& on, servers& all, vote_requests& requests, releases& given_back) noexcept
      : on_{on},
        servers_{all},
        requests_{requests},
        releases_{given_back} {}

  void renew(std::span<engine::place* const> places, time_point now);
  /// As backend::has_room_for_renewal: have as many servers as are needed so little to do?
  bool has_room_for_renewal(engine::place const& p) const noexcept;
  void lose(quorum_lock& q, time_point now);
  /// Reports to the cohort how long the votes are valid now, if that has changed.
  void refresh(quorum_lock& q, time_point now);
  void repair(quorum_lock& q, time_point now);

 private:
  quorum_environment& on_;
  servers& servers_;
  vote_requests& requests_;
  releases& releases_;
};

}  // namespace conch::quorum
