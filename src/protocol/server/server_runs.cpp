// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/server_runs.hpp"

#include "protocol/server/environment.hpp"

#include <algorithm>
#include <utility>

namespace conch::protocol {

/// After a restart of the server, or at another server, the waiters of the run before may have no connection yet.
/// Scripts pass over none of them until they had the time to connect. Those clients pause between attempts as this one
/// does: at most twice as long as this client took so far. To wait for them may cost a claim, as a dead next in line
/// does.
void server_runs::began(session const& before, session const& now_on, time_point lost_at, time_point now) {
  // If this server was a replica meanwhile, another one was the master.
  bool const was_replica = std::exchange(was_replica_, false);
  bool const same_run = !now_on.run.empty() && now_on.run == before.run && !was_replica;
  if (!std::exchange(connected_before_, true) || same_run) return;
  ++number_;
  duration const pause = std::min<duration>(2 * (now - lost_at), settings_.reconnect_max);
  regrouped_ = now + std::min<duration>(settings_.claim, pause + time_to_greet);
  all_know_ = detail::later_by(regrouped_, settings_.lease + settings_.lock_delay + settings_.claim);
}

void server_runs::wait_for_others(time_point now) { regrouped_ = std::max(regrouped_, now + time_to_greet); }

bool server_runs::is_patient(time_point now, time_point until) const noexcept {
  return now < std::max(regrouped_, until);
}

}  // namespace conch::protocol
