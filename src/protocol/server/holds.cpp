// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/holds.hpp"

#include "protocol/drift.hpp"

#include <algorithm>

namespace conch::protocol {

void holds::begin(place& s, grant const& g, time_point deadline, time_point now) {
  enter(s, place::state::owned);
  on_.all.hold(s);
  if (!s.permit) s.heir.nothing_to_check();  // of a lock with several owners another permit was passed on
  s.fence = g.fence;
  s.segment = static_cast<std::uint32_t>(g.segment);
  // The client that passed the lock on may keep fences for less.
  s.owned.fence_until = g.pushed ? g.from : g.from + on_.env.settings.fence_retention + g.lease;
  s.deadline = deadline;
  s.valid_from = s.heard_from = g.from;
  s.confirmed = g.confirmed;
  s.waiting.patient_until = time_point::min();  // nobody stands before it any more
  if (s.heir.any()) owed_.look_after(s, ids_.next(s), now);
  on_.env.up.granted(s, g.pushed, now);
}

cleanup& holds::give_back(place& s, receipt* r, time_point now) {
  BOOST_ASSERT_MSG(s.at == place::state::owned, "only an owned place is given back");
  grant_id const dead = s.id;
  bool const valid = s.deadline > now;
  places::end(s);
  ++s.references;
  cleanup& c = owed_.owe(s, 0, r, now);
  c.id = dead;
  c.was_valid = valid;
  return c;
}

void holds::heard_again(place& s, std::int64_t fence, time_point from, time_point deadline, bool confirmed, time_point now) {
  BOOST_ASSERT_MSG(s.at == place::state::owned, "news of a hold that there is not");
  if (fence != s.fence) {
    lose_and_give_back(s, now);  // the earlier grant was over, and the lock perhaps another client's, before this grant
    return;
  }
  if (deadline > s.deadline) {
    s.deadline = deadline;
    s.valid_from = from;
  }
  s.confirmed = s.confirmed || confirmed;
  s.heard_from = std::max(s.heard_from, from);
  on_.env.up.extended(s, now);
}

/// Nothing is owed for it: no clean-up may name this id from now on. A request that an earlier connection still holds can only make its lease
/// longer, or stand in line for a client that gives back what it did not ask for.
void holds::detach(place& s) {
  BOOST_ASSERT_MSG(s.at == place::state::owned, "only an owned place is detached");
  places::end(s);
}

void holds::lose(place& s, time_point now) {
  // If the pushed grant was false, the server never gave it, and our place is still in line.
  bool const may_stand_in_line = s.waiting.by_push && !s.confirmed;
  ++on_.env.stats.renewals_refused;
  end_lost(s, may_stand_in_line || on_.link.earlier().may_echo(on_.link.echo_until(s), now), now);
}

void holds::lose_and_give_back(place& s, time_point now) {
  ++on_.env.stats.renewals_refused;
  end_lost(s, true, now);
}

/// The holder is told first: the server may carry out what is sent, and grant the lock to another client, before this returns. What is owed is
/// noted before that: whoever waits here asks at once, in the same place and under another id.
void holds::end_lost(place& s, bool gives_back, time_point now) {
  BOOST_ASSERT_MSG(s.at == place::state::owned, "only an owned place is lost");
  places::end(s);
  ++s.references;
  grant_id const gone = s.id;
  cleanup* const owed = gives_back ? &owed_.owe(s, 0, nullptr, now) : nullptr;
  if (owed != nullptr) owed->id = gone;
  on_.env.up.lost(s, now);
  if (owed != nullptr && on_.link.connected()) owed_.send(*owed, now);
  if (gives_back && owed == nullptr) owed_.owe(s, gone, nullptr, now);
  on_.all.drop(s);
}

/// From the grant on a fence is kept for the retention and the lease, which is longer
/// than most holds. A long hold renews this, so that at least half of the retention is left when it ends, by itself or because this client
/// is gone. With the defaults that is every five minutes.
bool holds::fence_is_due(place const& s, time_point now) const { return now + s.lease + on_.env.settings.fence_retention / 2 > s.owned.fence_until; }

/// A server that has not granted a hold, or not in this run, may not have it, or for less long than its holder believes. So it is also asked
/// about one that is not renewed.
bool holds::is_of_other_run(place const& s) const { return s.run != on_.link.runs().number() && !s.vote.terms.is_vote(); }

void holds::prolonged(place& s, time_point written, milliseconds lease, bool keeps_fence, time_point now) {
  ++on_.env.stats.renewals;
  if (keeps_fence) s.owned.fence_until = written + on_.env.settings.fence_retention + lease;
  heard_again(s, s.fence, written, written + lease - drift_of(lease), true, now);
}

/// A server that did not grant the hold may have our place of before that grant.
void holds::not_prolonged(place& s, time_point now) {
  if (is_of_other_run(s)) lose_and_give_back(s, now);
  else lose(s, now);
}

/// Reports the loss to the holder. Then a release goes to the server, which may have failed to pass on the lock.
void holds::taken_away(place& s, grant_id id, time_point now) {
  if (s.id != id || s.at != place::state::owned) return;
  ++on_.env.stats.revocations;
  end_lost(s, true, now);
}

}  // namespace conch::protocol
