// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/cleanups.hpp"

#include "base/failure.hpp"
#include "protocol/drift.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace conch::protocol {

cleanups::~cleanups() {
  pending_.splice_back(resting_);
  while (!pending_.empty()) delete &pending_.pop_front();
}

cleanup& cleanups::make(server_place& p, grant_id id) {
  auto* const c = new cleanup{p, id, *this, [](cleanup& one, time_point when) { one.in->due(one, when); }};
  ++p.references;
  pending_.push_back(*c);
  return *c;
}

cleanup& cleanups::add(server_place& p, grant_id id, receipt* r, time_point now) {
  drop_kick(p);
  p.of = &mine_;  // an idle place does not know that its slot has moved
  cleanup& c = make(p, id);
  ++count_;
  c.late_until = p.late.until;
  c.old_connection_until = on_.link.old_connection_until(p);
  // A waiter from before the server's role changed may still be connected to the replica. It learns of its turn by a
  // message, and the release waits for it. A hold that was taken over may be from before, too.
  if (p.run != on_.link.runs().number() || p.adopts()) c.patient_until = now + time_to_greet;
  // The client that its first question has told to come is still connecting.
  c.patient_until = std::max(c.patient_until, p.waiting.patient_until);
  c.floor = p.vote.terms.floor_asked();
  c.next_fence_floor = p.vote.terms.next_fence_floor;
  c.kept_for = kept_for(p, now);
  c.over = forgotten_by(c, now);
  wait_for(c, r);
  on_.env.timers.arm(c.due, c.over);
  if (id != 0 && on_.link.connected()) send(c, now);
  return c;
}

void cleanups::add_where_it_went(server_place& p, grant_id id, acquire_reply const& reply, time_point now) {
  using kind = acquire_reply::kind;
  cleanups& there = on_.slots.at(p.slot).pending_cleanups();  // an idle place may not know
  bool const has_left_something =
      reply.what == kind::granted || reply.what == kind::queued || reply.what == kind::unfinished;
  bool const is_dead = p.id != id || p.state == place_state::idle;
  if (has_left_something && is_dead && there.find(id) == nullptr) there.add(p, id, nullptr, now);
}

/// The longest lease that was asked for under its id, or the configured lease if that is longer; and the delay after a
/// loss. A place in line lasts as long as the server has said.
duration cleanups::kept_for(server_place const& p, time_point now) const {
  duration lease = std::max<duration>(std::max(p.lease, p.late.longest_lease), on_.env.settings.lease);
  if (p.waiting.listed_until > now) lease = std::max(lease, p.waiting.listed_until - now);
  return lease + on_.env.settings.lock_delay;
}

/// When the server has forgotten by itself what it has carried out until `now`: nothing of it is renewed after that.
time_point cleanups::forgotten_by(cleanup const& c, time_point now) const {
  return now + c.kept_for + drift_of(c.kept_for) + on_.env.settings.command_timeout;
}

/// Keeps the clean-up for what the server may have carried out of its id until `until`.
void cleanups::extend(cleanup& c, time_point until) {
  if (until != time_point::min()) c.over = std::max(c.over, forgotten_by(c, until));
}

void cleanups::send(cleanup& c, time_point now) {
  if (may_send()) return send(c, 0, false, now);
  c.unlink();
  resting_.push_back(c);
}

void cleanups::send(cleanup& c, grant_id new_id, bool with_source, time_point now) {
  BOOST_ASSERT_MSG(!c.sent, "a clean-up is sent twice on one connection");
  c.sent = true;
  if (c.is_kick) ++on_.env.stats.kicks;
  ++on_.env.stats.scripts;
  server_place& p = *c.lock;
  release_command gives_back{p.name,
                             c.id,
                             false,
                             kept_from_grant(on_.env.settings, p),
                             claim_of(on_.env.settings, p.lease),
                             retention_of(on_.env.settings, longest_of(p)),
                             new_id,
                             with_source,
                             c.floor,
                             c.next_fence_floor,
                             p.permit ? &p.permit : nullptr,
                             0,
                             on_.link.runs().is_patient(now, c.patient_until)};
  in_flight asked{request_kind::cleanup, c.id, new_id, &p, &c, now};
  if (now < c.kept_until) {
    BOOST_ASSERT_MSG(new_id == 0, "a release within a minimum interval asks again");
    gives_back.ends_in = std::chrono::ceil<milliseconds>(c.kept_until - now);
    gives_back.patient = false;  // it passes nothing on
    gives_back.next_fence_floor = 0;
    asked.of = script_kind::release_later;
  }
  on_.sent.send(gives_back, asked);
}

void cleanups::try_again(cleanup& c, time_point now) {
  if (!c.sent && on_.link.connected()) send(c, now);
}

void cleanups::report_released(cleanup& c, bool was_mine, time_point now) {
  if (c.caller == nullptr) return;
  receipt& caller = *c.caller;
  forget(caller);
  on_.env.up.released(caller, was_mine, {}, now);
}

void cleanups::due(cleanup& c, time_point now) {
  if (c.is_kick) {
    if (c.over <= now) {
      if (!c.sent) finish(c, false, {}, now);
    } else if (on_.link.connected() && !c.sent) {
      send(c, now);
    }  // without a connection it is sent on the next
    return;
  }
  if (c.over <= now && !c.sent && on_.link.may_arrive_late()) {
    // No caller waits for it any more, but it is sent once more when the old connection has been ended.
    if (c.caller != nullptr) {
      receipt& caller = *c.caller;
      forget(caller);
      on_.env.up.released(caller, c.was_valid, not_done(c), now);
    }
    if (!std::exchange(c.lapsed, true)) ++lapsed_;
    return;
  }
  extend(c, on_.link.earlier().ended_at());
  if (c.over <= now && !c.sent) {
    // it waited for room until the lease was over
    bool const needs_no_answer = on_.link.connected() && !c.resent && c.refusals == 0;
    finish(c, c.was_valid, c.caller != nullptr && !needs_no_answer ? not_done(c) : error_code{}, now);
  } else if (c.over <= now) {
    on_.env.timers.arm(c.due, now + on_.env.settings.command_timeout);
  } else {
    if (on_.link.connected() && !c.sent) send(c, now);
    on_.env.timers.arm(c.due, c.over);
  }
}

void cleanups::finish(cleanup& c, bool was_mine, error_code why, time_point now) {
  BOOST_ASSERT_MSG(!c.sent, "a clean-up ends while its answer is under way");
  BOOST_ASSERT_MSG(c.is_kick || count_ != 0, "more clean-ups end than began");
  BOOST_ASSERT_MSG(!c.lapsed || lapsed_ != 0, "more clean-ups have lapsed than were counted");
  server_place& p = *c.lock;
  receipt* const caller = c.caller;
  if (caller != nullptr) forget(*caller);
  if (c.is_kick) {
    if (p.next_owner.kick == &c) p.next_owner.kick = nullptr;
    p.next_owner.checked_until(now);
  } else {
    --count_;
  }
  if (c.lapsed) --lapsed_;
  delete &c;
  if (caller != nullptr) on_.env.up.released(*caller, was_mine, why, now);
  on_.all.drop(p);
}

error_code cleanups::not_done(cleanup const& c) const {
  return explained(c.refused ? c.refused : on_.link.no_answer(), {failed_task::kind::releasing, c.lock->name});
}

error_code cleanups::why_not_done(receipt const& r) const {
  auto const* const c = static_cast<cleanup const*>(r.pending);
  return c == nullptr ? on_.link.no_answer() : not_done(*c);
}

time_point cleanups::late_after(receipt const& r) const {
  auto const* const c = static_cast<cleanup const*>(r.pending);
  bool const on_its_way = c != nullptr && c->refusals == 0 && on_.link.connected();
  return on_its_way ? on_.sent.last_answer() + on_.env.settings.command_timeout : time_point::min();
}

/// The new owner may be dead behind a connection that the server still believes in. Then the waiters behind it sleep
/// until the lease expires that the server reported to them. The client that passed the lock on checks on it when the
/// claim expires, whatever it does by then.
void cleanups::passed_on(server_place& p, milliseconds lease, time_point now) {
  p.next_owner.look_later(after_claim(claim_of(on_.env.settings, lease), now), static_cast<bool>(p.permit));
}

/// A place in line asks again at that time. Otherwise the release of a dead id is repeated: if no client has confirmed
/// the lock by then, the lock goes to the next waiter. The next waiter may be dead as well, and is checked in the same
/// way.
void cleanups::verify_successor(server_place& p, grant_id dead, time_point now) {
  if (!p.next_owner.any()) return;
  if (p.state == place_state::in_line) on_.env.timers.arm(p.check, std::min(p.check.at(), p.next_owner.next()));
  // The owner of a permit may keep it for long, while others wait for the permit that was passed on.
  bool const away = p.state == place_state::idle || (p.state == place_state::owned && p.permit);
  if (!away) return;
  drop_kick(p);
  cleanup& c = make(p, dead);
  c.is_kick = true;
  c.floor = p.vote.terms.floor_asked();
  // By then every waiter has asked again.
  c.over = p.next_owner.next() + std::max<duration>(p.lease, on_.env.settings.lease);
  p.next_owner.kick = &c;
  // the script tells those in the queue to check themselves
  if (closing_ && on_.link.connected()) send(c, 0, false, now);
  else on_.env.timers.arm(c.due, std::max(now, p.next_owner.next()));
}

/// When to check on a claim. Not before it has expired by the server's clock, which may be slower than ours: a kick
/// that comes too early finds an owner, and no other kick follows it.
time_point cleanups::after_claim(milliseconds claim, time_point now) {
  duration const drift = drift_of(claim);
  return now + claim + drift + milliseconds{5} + on_.pause.jitter(claim / 20);
}

void cleanups::drop_kick(server_place& p) {
  cleanup* const c = p.next_owner.kick;
  if (c == nullptr || c->sent) return;
  p.next_owner.kick = nullptr;
  delete c;
  --p.references;  // the caller is about to use the place: it stays
}

void cleanups::drop_kicks(time_point now) {
  closing_ = true;
  std::vector<server_place*> places;
  auto const look = [&](cleanup& c) {
    if (c.is_kick && !c.sent && on_.link.connected()) send(c, 0, false, now);
    if (c.is_kick && !c.sent) places.push_back(c.lock);
    c.lock->next_owner.nothing_to_check();
  };
  pending_.for_each(look);
  resting_.for_each(look);
  for (server_place* s : places) {
    ++s->references;
    drop_kick(*s);
    on_.all.drop(*s);
  }
}

bool cleanups::has_for(server_place const& p) {
  bool found = false;
  auto const look = [&](cleanup& c) { found = found || (c.lock == &p && !c.is_kick); };
  pending_.for_each(look);
  resting_.for_each(look);
  return found;
}

cleanup* cleanups::find(grant_id id) {
  cleanup* found = nullptr;
  auto const look = [&](cleanup& c) {
    if (c.id == id && !c.is_kick) found = &c;
  };
  pending_.for_each(look);
  resting_.for_each(look);
  return found;
}

// ------------------------------------------------------------------------------------------------- the connection

void cleanups::end(time_point now) {
  pending_.splice_back(resting_);
  pending_.for_each([&](cleanup& c) {
    c.resent = c.resent || c.sent;
    // The server may have carried it out at any moment until now: after a pause, or as the master before a change of
    // roles.
    if (!c.is_kick) c.over = std::max(c.over, forgotten_by(c, now));
    c.old_connection_until = c.late_until;
    c.sent = false;
  });
}

void cleanups::repeat(std::size_t& left, time_point now) {
  for (; left != 0 && on_.sent.window().has_room() && !resting_.empty(); --left) {
    cleanup& c = resting_.pop_front();
    pending_.push_back(c);
    if (c.is_kick) {
      bool const is_due = !c.due.armed() && !c.sent;  // or was not answered
      if (is_due && c.over <= now) finish(c, false, {}, now);
      else if (is_due) send(c, 0, false, now);
      continue;
    }
    if (c.sent) continue;
    extend(c, on_.link.earlier().are_ended() ? on_.link.earlier().ended_at() : now);
    if (c.over <= now) {
      finish(c, c.was_valid, {}, now);
    } else {
      if (std::exchange(c.lapsed, false)) --lapsed_;
      send(c, 0, false, now);
    }
  }
}

// ----------------------------------------------------------------------------------- from one server to another

void cleanups::part(time_point now) {
  auto const part_with = [&](cleanup& c) {
    if (!on_.slots.has(*c.lock)) on_.slots.at(c.lock->slot).receive(c, now);
  };
  pending_.for_each(part_with);
  resting_.for_each(part_with);
}

/// The other server may have carried it out at any time until now.
void cleanups::receive(cleanup& c, time_point now) {
  BOOST_ASSERT_MSG(c.in != this, "a clean-up comes from the server that it is with");
  cleanups& from = *c.in;
  c.unlink();
  c.in = this;
  c.lock->of = &mine_;
  on_.link.runs().wait_for_others(now);
  if (!c.is_kick) {
    --from.count_;
    ++count_;
    if (c.lapsed) --from.lapsed_;
    if (c.lapsed) ++lapsed_;
    c.resent = c.resent || c.sent;
    c.over = std::max(c.over, forgotten_by(c, now));
    c.patient_until = std::max(c.patient_until, now + time_to_greet);
  }
  c.sent = false;
  (on_.link.connected() ? resting_ : pending_).push_back(c);
}

void cleanups::hasten(std::set<unsigned> const& slots, time_point now) {
  pending_.for_each([&](cleanup& c) {
    if (!c.sent && c.refusals != 0 && slots.contains(c.lock->slot)) on_.env.timers.arm(c.due, now);
  });
}

}  // namespace conch::protocol
