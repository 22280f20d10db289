// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server.hpp"

#include "base/failure.hpp"

#include <algorithm>
#include <utility>

// Clean-ups: releases and leaves until the server has answered them, and kicks, which repeat a release because the client that
// the lock was passed on to may be dead.
namespace conch::protocol {

/// With an id of 0 the caller sends the clean-up. Otherwise it is sent now, or on the next connection.
cleanup& server::owe(place& s, grant_id id, receipt* r, time_point now) {
  drop_kick(s);
  s.of = this;  // an idle place does not know that its slot has moved
  auto* const c = new cleanup{s, id, this, [](void* self, time_point at) {
                                auto& due = *static_cast<cleanup*>(self);
                                static_cast<server*>(due.server_of)->cleanup_due(due, at);
                              }};
  ++s.references;
  ++cleanups_;
  c->late_until = s.late_until;
  c->echo_until = on_.link.echo_until(s);
  // A waiter from before the server's role changed may still be connected to the replica. It learns of its turn by a message, and the
  // release waits for it. A hold that was taken over may be from before, too.
  if (s.run != on_.link.runs().number() || s.adopts()) c->patient_until = now + time_to_greet;
  // Whom its first question has told to come is still on the way.
  c->patient_until = std::max(c->patient_until, s.patient_until);
  c->floor = s.terms.floor_asked();
  c->next_fence_floor = s.terms.next_fence_floor;
  c->kept_for = kept_for(s, now);
  c->over = forgotten_by(*c, now);
  c->whom = r;
  if (r != nullptr) r->pending = c;
  pending_cleanups_.push_back(*c);
  on_.env.timers.arm(c->due, c->over);
  if (id != 0 && on_.link.connected()) send_cleanup(*c, now);
  return *c;
}

/// The longest lease that was asked for under its id, or the configured lease if that is longer. A place in line lasts as long as the server
/// has said.
duration server::kept_for(place const& s, time_point now) const {
  duration lease = std::max<duration>(std::max(s.lease, s.longest_lease), on_.env.settings.lease);
  if (s.listed_until > now) lease = std::max(lease, s.listed_until - now);
  return lease;
}

/// When the server has forgotten by itself what it has carried out until `now`: nothing of it is renewed after that.
time_point server::forgotten_by(cleanup const& c, time_point now) const {
  return now + c.kept_for + drift_of(c.kept_for) + on_.env.settings.command_timeout;
}

/// Keeps the clean-up for what the server may have carried out of its id until `until`.
void server::extend(cleanup& c, time_point until) {
  if (until != time_point::min()) c.over = std::max(c.over, forgotten_by(c, until));
}

/// Now, or when there is room.
void server::send_cleanup(cleanup& c, time_point now) {
  if (may_send()) return send_cleanup(c, 0, false, now);
  c.unlink();
  resting_cleanups_.push_back(c);
}

void server::send_cleanup(cleanup& c, grant_id new_id, bool with_source, time_point now) {
  c.sent = true;
  if (c.is_kick) ++on_.env.stats.kicks;
  ++on_.env.stats.scripts;
  out_.send(release_command{c.lock->name, c.id, false, c.lock->lease, claim_of(on_.env.settings, c.lock->lease),
                            retention_of(on_.env.settings, c.lock->lease), new_id, with_source, c.floor, c.next_fence_floor,
                            c.lock->permit ? &c.lock->permit : nullptr, 0, on_.link.runs().is_patient(now, c.patient_until)});
  push_request({request::cleanup, c.id, new_id, c.lock, &c, now});
}

void server::cleanup_answer(in_flight const& r, answer const& a, time_point now) {
  using kind = release_reply::kind;
  place& s = *r.at;
  release_reply const reply = read_release(a, r.new_id != 0, static_cast<bool>(s.permit));
  if (reply.what != kind::malformed) on_.link.clock().sample(r.written, reply.server_us, now);
  if (r.moved) return drop(s);  // the clean-up has gone with its place, and may be over
  cleanup& c = *r.of_cleanup;
  c.sent = false;
  if (reply.what == kind::not_done) {
    cleanup_put_off(c, r, now);
  } else if (reply.what != kind::malformed) {
    cleanup_done(c, r, reply, now);
  } else if (a.what == fault::no_script) {
    // What was written meanwhile has been carried out already. After a leave the release must not take a new place; after a question that was granted
    // it must not put the owner in line.
    bool const still_asks = asks_under(s, r.new_id) && !s.asks_again;
    send_cleanup(c, still_asks ? r.new_id : 0, source_is_due(r), now);
  } else {
    cleanup_refused(c, r, a, now);
  }
  drop(s);
}

/// The place has asked again under the new id of a release.
bool server::is_under(place const& s, grant_id new_id) { return new_id != 0 && s.id == new_id && s.at != place::state::idle; }

bool server::asks_under(place const& s, grant_id new_id) {
  return is_under(s, new_id) && (s.at == place::state::asking || s.at == place::state::in_line);
}

/// The first waiter has not connected again yet. This client still owns the lock, and repeats the release soon. The caller of the release
/// need not wait for that.
void server::cleanup_put_off(cleanup& c, in_flight const& r, time_point now) {
  place& s = *r.at;
  tell_released(c, true, now);
  if (is_under(s, r.new_id) && s.at == place::state::asking) send_acquire(s, false, now);
  on_.env.timers.arm(c.due, std::min(c.over, now + milliseconds{10} + on_.pause.jitter(milliseconds{10})));
}

void server::cleanup_done(cleanup& c, in_flight const& r, release_reply const& reply, time_point now) {
  place& s = *r.at;
  bool const was_mine = reply.was_mine || (c.resent && c.was_valid);
  seen(s, r);
  // If this place stands in line again, it is a waiter too.
  bool const more = reply.more_in_line || s.at == place::state::in_line;
  if (reply.passed_on && more) passed_on(s, r.lease, now);
  if (is_under(s, r.new_id)) ask_result(s, r, reply.again, now);
  bool const unfinished = reply.more_to_do;
  if (unfinished && !c.is_kick) {
    // The lock is given back, but there are more dead waiters, or more to let in, than one script handles. The same release at once
    // goes on from there. Its caller does not wait for that.
    tell_released(c, was_mine, now);
    c.over = std::max(c.over, now + on_.env.settings.command_timeout);
    on_.env.timers.arm(c.due, c.over);
    send_cleanup(c, 0, false, now);
  } else if (on_.link.earlier().may_echo(c.echo_until, r.written)) {
    // From then on the server refuses what an older connection still holds. This release ends what the server carries out before that.
    tell_released(c, was_mine, now);
    c.over = std::max(c.over, c.echo_until + on_.env.settings.command_timeout);
    // Earlier if it passed the lock on: the repeated release also looks after the next owner.
    bool const looks = s.follow_up != time_point::max();
    on_.env.timers.arm(c.due, looks ? std::min(c.echo_until, std::max(s.follow_up, now)) : c.echo_until);
  } else {
    grant_id const id = c.id;
    finish(c, was_mine, {}, now);
    if (unfinished) {
      go_on(s, id, now);
    } else {
      look_after(s, id, now);
    }
  }
}

/// The server did not carry it out, or did not say what came of it.
void server::cleanup_refused(cleanup& c, in_flight const& r, answer const& a, time_point now) {
  place& s = *r.at;
  if (a.what == fault::none) {
    c.resent = true;  // it was carried out, whatever the answer says
    on_.link.drop("invalid answer of the release script");
  }
  if (a.what == fault::reconnect) on_.link.drop(a.words);
  if (asks_under(s, r.new_id)) acquire_fault(s, a, now);
  bool const hopeless = a.what == fault::wrong_type || a.what == fault::access_denied || a.what == fault::malformed;
  if (hopeless) {
    errc const why = a.what == fault::wrong_type ? errc::wrong_type : a.what == fault::access_denied ? errc::access_denied : errc::protocol;
    finish(c, false, explained(make_error_code(why, a.words), {failed_task::kind::releasing, s.name}), now);
  } else {
    on_.link.note_once(a.words);  // nobody else may ask this server for a while
    ++c.refusals;
    c.refused = to_error(a.what, a.words);
    constexpr milliseconds least{25};
    auto const pause = least * (1u << std::min(c.refusals, 6u));
    // A longer pause than that would be over when the clean-up is, and the last try long ago.
    auto const at_most = std::max<duration>(least, (c.over - now) / 2);
    on_.env.timers.arm(c.due, std::min(c.over, now + std::min<duration>(pause + on_.pause.jitter(pause), at_most)));
  }
}

/// The caller of the release need not wait for what follows.
void server::tell_released(cleanup& c, bool was_mine, time_point now) {
  if (c.whom == nullptr) return;
  receipt& whom = *c.whom;
  forget(whom);
  on_.env.up.released(whom, was_mine, {}, now);
}

/// A script has answered that there is more to do. A release under a dead id does it, and is repeated until nothing is left.
void server::go_on(place& s, grant_id dead, time_point now) { owe(s, dead, nullptr, now); }

void server::cleanup_due(cleanup& c, time_point now) {
  if (c.is_kick) {
    if (c.over <= now) {
      if (!c.sent) finish(c, false, {}, now);
    } else if (on_.link.connected() && !c.sent) {
      send_cleanup(c, now);
    }  // without a connection it is sent on the next
    return;
  }
  if (c.over <= now && !c.sent && on_.link.may_arrive_late()) {
    // No caller waits for it any more, but it is sent once more when the old connection has been ended.
    if (c.whom != nullptr) {
      receipt& whom = *c.whom;
      forget(whom);
      on_.env.up.released(whom, c.was_valid, not_done(c), now);
    }
    if (!std::exchange(c.lapsed, true)) ++lapsed_;
    return;
  }
  extend(c, on_.link.earlier().ended_at());
  if (c.over <= now && !c.sent) {
    bool const needs_no_answer = on_.link.connected() && !c.resent && c.refusals == 0;  // it waited for room until the lease was over
    finish(c, c.was_valid, c.whom != nullptr && !needs_no_answer ? not_done(c) : error_code{}, now);
  } else if (c.over <= now) {
    on_.env.timers.arm(c.due, now + on_.env.settings.command_timeout);
  } else {
    if (on_.link.connected() && !c.sent) send_cleanup(c, now);
    on_.env.timers.arm(c.due, c.over);
  }
}

void server::finish(cleanup& c, bool was_mine, error_code why, time_point now) {
  place& s = *c.lock;
  receipt* const whom = c.whom;
  if (whom != nullptr) forget(*whom);
  if (c.is_kick) {
    if (s.kick == &c) s.kick = nullptr;
    s.checked_until(now);
  } else {
    --cleanups_;
  }
  if (c.lapsed) --lapsed_;
  delete &c;
  if (whom != nullptr) on_.env.up.released(*whom, was_mine, why, now);
  drop(s);
}

void server::forget(receipt& r) noexcept {
  if (r.pending != nullptr) static_cast<cleanup*>(r.pending)->whom = nullptr;
  r.pending = nullptr;
}

error_code server::not_done(cleanup const& c) const {
  return explained(c.refused ? c.refused : on_.link.no_answer(), {failed_task::kind::releasing, c.lock->name});
}

error_code server::why_not_done(receipt const& r) const {
  auto const* const c = static_cast<cleanup const*>(r.pending);
  return c == nullptr ? on_.link.no_answer() : not_done(*c);
}

/// A clean-up that the server refused has had its answer; it is repeated in the background. One that waits for room is on its way.
time_point server::late_after(receipt const& r) const {
  auto const* const c = static_cast<cleanup const*>(r.pending);
  bool const on_its_way = c != nullptr && c->refusals == 0 && on_.link.connected();
  return on_its_way ? last_answer_ + on_.env.settings.command_timeout : time_point::min();
}

/// A script that was written after the claim had expired has dealt with a dead new owner, or has shown that the owner is alive.
void server::seen(place& s, in_flight const& r) { s.checked_until(r.written); }

/// The new owner may be dead behind a connection that the server still believes in. Then the waiters behind it sleep until the lease
/// expires that the server named to them. The client that passed the lock on looks after it when the claim expires, whatever it does by
/// then.
void server::passed_on(place& s, milliseconds lease, time_point now) { s.look_later(after_claim(claim_of(on_.env.settings, lease), now)); }

void place::look_later(time_point when) {
  bool const only_one = !permit || follow_up == time_point::max();  // a mutex that is passed on again has no other new owner
  if (only_one) {
    follow_up = when;
    return;
  }
  constexpr std::size_t most = 32;  // far more than a place can pass on within one claim
  if (when < follow_up) std::swap(when, follow_up);
  if (later_follow_ups.size() < most) later_follow_ups.insert(std::upper_bound(later_follow_ups.begin(), later_follow_ups.end(), when), when);
  else later_follow_ups.back() = std::max(later_follow_ups.back(), when);
}

void place::checked_until(time_point now) {
  while (follow_up <= now) {
    follow_up = later_follow_ups.empty() ? time_point::max() : later_follow_ups.front();
    if (!later_follow_ups.empty()) later_follow_ups.erase(later_follow_ups.begin());
  }
}

void place::nothing_to_check() noexcept {
  follow_up = time_point::max();
  later_follow_ups.clear();
}

/// A place in line asks again at that time. Otherwise the release of a dead id is repeated: if no client has confirmed the lock by then,
/// the lock goes to the next waiter. The next waiter may be dead as well, and is looked after in the same way.
void server::look_after(place& s, grant_id dead, time_point now) {
  if (s.follow_up == time_point::max()) return;
  if (s.at == place::state::in_line) on_.env.timers.arm(s.check, std::min(s.check.at(), s.follow_up));
  // The owner of a permit may keep it for long, while others wait for the permit that was passed on.
  bool const away = s.at == place::state::idle || (s.at == place::state::owned && s.permit);
  if (!away) return;
  drop_kick(s);
  auto* const c = new cleanup{s, dead, this, [](void* self, time_point at) {
                                auto& due = *static_cast<cleanup*>(self);
                                static_cast<server*>(due.server_of)->cleanup_due(due, at);
                              }};
  c->is_kick = true;
  c->floor = s.terms.floor_asked();
  // By then every waiter has asked again.
  c->over = s.follow_up + std::max<duration>(s.lease, on_.env.settings.lease);
  ++s.references;
  s.kick = c;
  pending_cleanups_.push_back(*c);
  if (closing_ && on_.link.connected()) send_cleanup(*c, 0, false, now);  // the script tells those in line to look themselves
  else on_.env.timers.arm(c->due, std::max(now, s.follow_up));
}

/// When to look after a claim. Not before it has expired by the server's clock, which may be slower than ours: a kick that comes too early
/// finds an owner, and no other kick follows it.
time_point server::after_claim(milliseconds claim, time_point now) {
  duration const drift = drift_of(claim);
  return now + claim + drift + milliseconds{5} + on_.pause.jitter(claim / 20);
}

void server::drop_kick(place& s) {
  cleanup* const c = s.kick;
  if (c == nullptr || c->sent) return;
  s.kick = nullptr;
  delete c;
  --s.references;  // the caller is about to use the place: it stays
}

void server::drop_kicks(time_point now) {
  closing_ = true;
  std::vector<place*> places;
  auto const look = [&](cleanup& c) {
    if (c.is_kick && !c.sent && on_.link.connected()) send_cleanup(c, 0, false, now);
    if (c.is_kick && !c.sent) places.push_back(c.lock);
    c.lock->nothing_to_check();
  };
  pending_cleanups_.for_each(look);
  resting_cleanups_.for_each(look);
  for (place* s : places) {
    ++s->references;
    drop_kick(*s);
    drop(*s);
  }
}

/// Is an earlier grant or place of this one still to be given back?
bool server::owes_cleanup(place const& s) {
  bool found = false;
  auto const look = [&](cleanup& c) { found = found || (c.lock == &s && !c.is_kick); };
  pending_cleanups_.for_each(look);
  resting_cleanups_.for_each(look);
  return found;
}

cleanup* server::pending_cleanup(grant_id id) {
  cleanup* found = nullptr;
  auto const look = [&](cleanup& c) {
    if (c.id == id && !c.is_kick) found = &c;
  };
  pending_cleanups_.for_each(look);
  resting_cleanups_.for_each(look);
  return found;
}

}  // namespace conch::protocol
