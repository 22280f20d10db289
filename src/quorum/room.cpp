// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/room.hpp"

#include "base/turns.hpp"

#include <algorithm>
#include <utility>

namespace conch::quorum {

void room::asked(quorum_lock& q, time_point now) {
  q.together = window_.written(1);
  window_.uses(std::min<duration>(q.lease, on_.settings.quorum.vote_claim), now);
}

void room::answered(quorum_lock& q, time_point now) {
  q.unlink();
  if (q.together == 0) return;
  window_.answered(1, std::exchange(q.together, 0), q.since, !waiting_.empty(), now);
  if (has_waiting() && has_room()) resume_soon(now);
}

}  // namespace conch::quorum
