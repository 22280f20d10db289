// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/holds.hpp"

#include "protocol/drift.hpp"

#include <algorithm>

namespace conch::protocol {

void holds::begin(server_place& p, grant const& g, time_point deadline, time_point now) {
  enter(p, place_state::owned);
  on_.all.hold(p);
  if (!p.permit) p.next_owner.nothing_to_check();  // of a lock with several owners another permit was passed on
  p.fence = g.fence;
  p.chosen = static_cast<std::uint32_t>(g.chosen);
  // The client that passed the lock on may keep fences for less.
  p.owned.fence_until = g.pushed ? g.from : g.from + on_.env.settings.fence_retention + g.lease;
  p.deadline = deadline;
  p.valid_from = p.heard_from = g.from;
  p.confirmed = g.confirmed;
  p.waiting.patient_until = time_point::min();  // no client is before it any more
  if (p.next_owner.any()) cleanups_.verify_successor(p, ids_.next(p), now);
  on_.env.up.granted(p, g.pushed, now);
}

cleanup& holds::give_back(server_place& p, receipt* r, time_point now) {
  BOOST_ASSERT_MSG(p.state == place_state::owned, "only an owned place is given back");
  grant_id const dead = p.id;
  bool const valid = p.deadline > now;
  places::end(p);
  ++p.references;
  cleanup& c = cleanups_.add(p, 0, r, now);
  c.id = dead;
  c.was_valid = valid;
  c.kept_until = p.kept_until;
  return c;
}

void holds::heard_again(server_place& p, std::int64_t fence, time_point from, time_point deadline, bool confirmed,
                        time_point now) {
  BOOST_ASSERT_MSG(p.state == place_state::owned, "news of a hold that there is not");
  if (fence != p.fence) {
    lose_and_give_back(p, now);  // the earlier grant was over, and the lock perhaps another client's, before this grant
    return;
  }
  if (deadline > p.deadline) {
    p.deadline = deadline;
    p.valid_from = from;
  }
  p.confirmed = p.confirmed || confirmed;
  p.heard_from = std::max(p.heard_from, from);
  on_.env.up.extended(p, now);
}

/// It leaves no clean-up behind: no clean-up may name this id from now on. A request that an earlier connection still
/// holds can only make its lease longer, or queue for a client that gives back what it did not ask for.
void holds::detach(server_place& p) {
  BOOST_ASSERT_MSG(p.state == place_state::owned, "only an owned place is detached");
  places::end(p);
}

void holds::lose(server_place& p, time_point now) {
  // If the pushed grant was false, the server never gave it, and our place is still in line.
  bool const may_stand_in_line = p.waiting.by_push && !p.confirmed;
  ++on_.env.stats.renewals_refused;
  end_lost(p, may_stand_in_line || on_.link.earlier().may_echo(on_.link.old_connection_until(p), now), now);
}

void holds::lose_and_give_back(server_place& p, time_point now) {
  ++on_.env.stats.renewals_refused;
  end_lost(p, true, now);
}

/// The holder is told first: the server may carry out what is sent, and grant the lock to another client, before this
/// returns. Each clean-up is noted before that: a waiter of this client asks at once, in the same place and under
/// another id.
void holds::end_lost(server_place& p, bool gives_back, time_point now) {
  BOOST_ASSERT_MSG(p.state == place_state::owned, "only an owned place is lost");
  places::end(p);
  ++p.references;
  grant_id const gone = p.id;
  cleanup* const pending = gives_back ? &cleanups_.add(p, 0, nullptr, now) : nullptr;
  if (pending != nullptr) pending->id = gone;
  if (pending != nullptr) pending->kept_until = p.kept_until;
  on_.env.up.lost(p, now);
  if (pending != nullptr && on_.link.connected()) cleanups_.send(*pending, now);
  if (gives_back && pending == nullptr) cleanups_.add(p, gone, nullptr, now);
  on_.all.drop(p);
}

/// From the grant on a fence is kept for the retention and the lease, which is longer than most holds. A long hold
/// renews this, so that at least half of the retention is left when it ends, by itself or because this client is gone.
/// With the defaults that is every five minutes.
bool holds::fence_is_due(server_place const& p, time_point now) const {
  return now + p.lease + on_.env.settings.fence_retention / 2 > p.owned.fence_until;
}

/// A server that has not granted a hold, or not in this run, may not have it, or for less long than its holder
/// believes. So it is also asked about one that is not renewed.
bool holds::is_of_other_run(server_place const& p) const {
  return p.run != on_.link.runs().number() && !p.vote.terms.is_vote();
}

void holds::prolonged(server_place& p, time_point written, milliseconds lease, bool keeps_fence, time_point now) {
  ++on_.env.stats.renewals;
  if (keeps_fence) p.owned.fence_until = written + on_.env.settings.fence_retention + lease;
  heard_again(p, p.fence, written, written + lease - drift_of(lease), true, now);
}

/// A server that did not grant the hold may still have the place that we had before that grant.
void holds::not_prolonged(server_place& p, time_point now) {
  if (is_of_other_run(p)) lose_and_give_back(p, now);
  else lose(p, now);
}

/// Reports the loss to the holder. Then a release goes to the server, which may have failed to pass on the lock.
void holds::taken_away(server_place& p, grant_id id, time_point now) {
  if (p.id != id || p.state != place_state::owned) return;
  ++on_.env.stats.revocations;
  end_lost(p, true, now);
}

}  // namespace conch::protocol
