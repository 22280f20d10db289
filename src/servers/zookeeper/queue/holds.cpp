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
  for (engine::place* p : places) {
    auto& s = static_cast<standing&>(*p);
    if (s.state != place_state::owned || !s.may_renew(now) || s.made_in != on_.sent.session_number()) continue;
    watch_own(s, now);
    if (prolong(s, now)) {
      on_.env.up.extended(s, now);
    } else {
      s.wants_renewal = any_waits = true;
    }
  }
  if (any_waits) on_.session.prove_soon(now);
}

/// A hold that lasts long enough to be renewed watches its node for removal. A short one costs no message for that.
void holds::watch_own(standing& s, time_point now) {
  if (!on_.session.is_open() || std::exchange(s.watches_itself, true)) return;
  on_.all.watch(s, s.node, now);
}

bool holds::prolong(standing& s, time_point now) {
  time_point const full = now + protocol::good_for(lease_of(s));
  time_point const until = std::min(on_.session.deadline(), full);
  if (until <= s.deadline || now >= s.deadline) return false;
  s.deadline = until;
  s.valid_from = s.heard_from = now;
  s.confirmed = s.confirmed || until >= s.full_until;
  s.wants_renewal = false;
  ++on_.env.stats.renewals;
  return true;
}

/// It is not being asked for, so others may have the lock by now.
void holds::removed(standing& s, time_point now) {
  std::vector<standing*> const all = riders::sharing_with(s);
  for (standing* one : all) {
    ++one->references;
    riders::dismount(*one);
  }
  all.front()->riders.clear();
  for (standing* one : all) {
    if (one->state == place_state::owned) {
      shares_.become_idle(*one, now);
      on_.env.up.lost(*one, now);
    } else if (one->waits()) {  // it was to have the node as well
      shares_.ask_anew(*one, now);
    }
    on_.all.drop(*one);
  }
}

milliseconds holds::lease_of(standing const& s) const {
  return std::min(s.lease, engine::whole_ms(on_.session.timeout()));
}

}  // namespace conch::zookeeper
