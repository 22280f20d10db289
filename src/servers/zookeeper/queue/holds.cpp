// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue/holds.hpp"

#include "protocol/drift.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace conch::zookeeper {

using engine::milliseconds;
using engine::place_state;

/// A hold lasts as long as the session does, and not longer than the lease that was asked for. No message: the
/// heartbeat is for all holds.
void holds::renew(std::span<engine::place* const> places, time_point now) {
  bool any_waits = false;
  for (engine::place* one : places) {
    auto& p = static_cast<queue_place&>(*one);
    if (p.state != place_state::owned || !p.may_renew(now) || p.made_in != on_.sent.session_number()) continue;
    watch_own(p, now);
    if (prolong(p, now)) {
      on_.env.up.extended(p, now);
    } else {
      p.wants_renewal = any_waits = true;
    }
  }
  if (any_waits) on_.session.prove_soon(now);
}

/// A hold that lasts long enough to be renewed watches its node for removal. A short one costs no message for that.
void holds::watch_own(queue_place& p, time_point now) {
  if (!on_.session.is_open() || std::exchange(p.watches_itself, true)) return;
  on_.all.watch(p, p.node, now);
}

bool holds::prolong(queue_place& p, time_point now) {
  time_point const full = now + protocol::good_for(lease_of(p));
  time_point const until = std::min(on_.session.deadline(), full);
  if (until <= p.deadline || now >= p.deadline) return false;
  p.deadline = until;
  p.valid_from = p.heard_from = now;
  p.confirmed = p.confirmed || until >= p.full_until;
  p.wants_renewal = false;
  ++on_.env.stats.renewals;
  return true;
}

/// It is not being asked for, so others may have the lock by now.
void holds::removed(queue_place& p, time_point now) {
  std::vector<queue_place*> const all = shared_nodes::sharing_with(p);
  for (queue_place* one : all) {
    ++one->references;
    shared_nodes::leave_node(*one);
  }
  all.front()->sharers.clear();
  for (queue_place* one : all) {
    if (one->state == place_state::owned) {
      shared_.become_idle(*one, now);
      on_.env.up.lost(*one, now);
    } else if (one->waits()) {  // it was to have the node as well
      shared_.ask_again(*one, now);
    }
    on_.all.drop(*one);
  }
}

milliseconds holds::lease_of(queue_place const& p) const {
  return std::min(p.lease, engine::whole_ms(on_.session.timeout()));
}

}  // namespace conch::zookeeper
