// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/asking.hpp"

#include "base/fault.hpp"
#include "base/turns.hpp"
#include "protocol/drift.hpp"
#include "protocol/server/place_keeper.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace conch::protocol {

namespace {

permit const* part_of(server_place const& p) { return p.permit ? &p.permit : nullptr; }

}  // namespace

void asking::fail(server_place& p, error_code why, time_point now, bool of_one_attempt) {
  bool const may_have_acted = p.written;
  grant_id const id = p.id;
  places::end(p);
  ++p.references;  // the place must outlive its clean-up and the event
  // If a key has another type a try has taken nothing, unless another of its requests is under way. But a waiter may be
  // queued: it may be the key of the fence that has the other type.
  if (may_have_acted && (why != errc::wrong_type || p.wait || on_.sent.is_under_way(p, id))) {
    cleanups_.add(p, id, nullptr, now);
  } else {
    cleanups_.verify_successor(p, id, now);
  }
  if (of_one_attempt) on_.env.up.attempt_failed(p, why, now);
  else on_.env.up.failed(p, why, now);
  on_.all.drop(p);
}

void asking::take_fault(server_place& p, answer const& a, time_point now) {
  switch (a.what) {
    case fault::reconnect: on_.link.drop(a.words); break;
    case fault::try_later:
      on_.link.note_once(a.words);
      if (p.waiting.trouble_since == time_point{}) p.waiting.trouble_since = now;
      if (now - p.waiting.trouble_since >= on_.env.settings.offline_timeout) {
        fail(p, to_error(a.what, a.words), now);
      } else {
        on_.env.timers.arm(p.check, on_.pause.again_at(a, now));
      }
      break;
    default: fail(p, to_error(a.what, a.words), now); break;
  }
}

void asking::ask(server_place& p, bool wait, milliseconds lease, time_point now) {
  BOOST_ASSERT_MSG(p.state == place_state::idle, "a place asks that is not idle");
  cleanups_.drop_kick(p);
  enter(p, place_state::asking);
  p.wait = wait;
  p.lease = lease;
  ids_.forget(p);
  p.id = ids_.next(p);
  // A waiter learns of a new run when the lease of the holder ends, or when a client that asks for the lock notifies
  // it.
  if (std::exchange(p.run, on_.link.runs().number()) != on_.link.runs().number() && !on_.link.runs().all_know(now))
    p.waiting.patient_until = now + time_to_greet;
  ids_.enter(p);
  p.waiting.ticket = p.vote.terms.ticket;
  p.written = p.waiting.asks_again = p.waiting.by_push = false;
  p.waiting.listed_until = time_point::min();
  p.waiting.trouble_since = p.waiting.late_since = {};
  on_.link.begin(p);
  // They asked earlier, or there is no room.
  bool const others_first = (on_.all.has_resting() || (on_.link.connected() && !may_ask(now))) && !on_.all.failing();
  on_.all.add(p, others_first);
  if (on_.link.denied()) {
    fail(p, on_.link.denied(), now);
    on_.link.drop("denied on this connection; the next one shows whether it still is");
  } else if (on_.link.connected() && others_first) {
    on_.link.note_unsent(p);
    if (may_repeat() && !on_.soon.is_due()) on_.soon.at(std::max(on_.sent.window().begins_again(), in_next_turn(now)));
  } else if (on_.link.connected() && may_repeat()) {
    send(p, false, now);
  } else if (on_.link.connected()) {
    on_.all.postpone(p);
  } else {
    be_patient(p, now);
    on_.link.want();
  }
}

void asking::about_to_send(server_place& p, std::int64_t not_after_us) {
  p.written = true;
  on_.link.note_sent(p);
  p.check.cancel();
  on_.link.written(p, not_after_us);
}

void asking::send(server_place& p, bool with_source, time_point now) {
  if (gathering_ && !p.wait && p.vote.terms.ticket == 0 && !p.permit && !p.adopts()) {
    gathered_.push_back(&p);
    return;
  }
  ++on_.env.stats.scripts;
  if (!p.written) on_.sent.window().begins(now);
  std::int64_t const not_after_us = on_.link.not_after(now);
  std::int64_t const proposal = p.vote.terms.ticket != 0 ? p.vote.terms.floor + 1 : 0;
  about_to_send(p, not_after_us);
  p.asks_for_lease();
  in_flight asked{request_kind::acquire, p.id, 0, &p, nullptr, now};
  asked.proposal = proposal;
  on_.sent.send(
      acquire_command{p.name, p.id, p.wait, kept_from_grant(on_.env.settings, p), claim_of(on_.env.settings, p.lease),
                      retention_of(on_.env.settings, longest_of(p)), p.waiting.ticket, not_after_us, with_source,
                      proposal, part_of(p), on_.link.runs().is_patient(now, p.waiting.patient_until), p.origin},
      asked);
}

std::vector<server_place*> asking::take_gathered() noexcept {
  gathering_ = false;
  return std::exchange(gathered_, {});
}

void asking::ask_once_more(server_place& p, retry_reason why, time_point now) {
  if (p.state != place_state::asking && p.state != place_state::in_line) return;
  if (p.written && !p.waiting.postponed) on_.env.up.asked_again(p, why, now);
  if (may_repeat() && !p.waiting.postponed) send(p, false, now);
  else on_.all.postpone(p);
}

void asking::answered(in_flight const& r, answer const& a, time_point now) {
  server_place& p = *r.place;
  // The reply counts also where no caller waits for it any more.
  acquire_reply const reply = read_acquire(a, r.proposal);
  if (r.moved) {
    on_.link.clock().sample(r.written, reply.server_us, now);
    cleanups_.add_where_it_went(p, r.id, reply, now);
    return on_.all.drop(p);
  }
  if (a.what == fault::none) p.next_owner.checked_until(r.written);
  if (reply.passed_on) cleanups_.passed_on(p, r.lease, now);
  if (p.id == r.id && p.state != place_state::idle) {  // an answer for any other id grants nothing
    bool const waits = p.state == place_state::asking || p.state == place_state::in_line;
    // that request is sent once more
    p.waiting.asks_again = p.waiting.asks_again && waits && a.what == fault::no_script;
    if (a.what == fault::no_script) {
      if (waits) send(p, on_.sent.source_is_due(r), now);
    } else if (a.what != fault::none) {
      if (waits) take_fault(p, a, now);
    } else {
      on_.link.clock().sample(r.written, reply.server_us, now);
      if (reply.seen) p.vote.seen = {reply.seen->client, reply.seen->ticket, reply.seen->confirmed, r.written};
      take_result(p, r, reply, now);
    }
  }
  if (reply.passed_on) cleanups_.verify_successor(p, r.id, now);
  if (reply.more_to_do) cleanups_.release_again(p, ids_.next(p), now);
  on_.all.drop(p);
}

void asking::take_result(server_place& p, in_flight const& r, acquire_reply const& reply, time_point now) {
  using kind = acquire_reply::kind;
  if (reply.what != kind::too_late) p.waiting.trouble_since = {};  // a request that came too late was not carried out
  switch (reply.what) {
    case kind::granted:
      take_grant(p, {reply.fence, reply.chosen, r.written, r.lease, p.vote.terms.ticket == 0, p.waiting.by_push}, now);
      return;
    case kind::queued:
      p.waiting.by_push = false;
      if (p.state == place_state::owned) {
        held_.lose_and_give_back(p, now);  // the pushed claim has ended, and the request has queued us again
      } else if (p.state == place_state::leaving) {
        p.waiting.ticket = reply.ticket;
      } else {
        stand_in_line(p, reply.left_ms, reply.ticket, now);
        on_.env.up.queued(p, now);
      }
      return;
    case kind::busy:
      if (p.state == place_state::leaving) return;  // the answer to its leave follows
      if (p.waiting.late_since != time_point{} && cleanups_.has_for(p)) {
        // Perhaps by its own grant that came too late, of which the release was not carried out before.
        on_.env.timers.arm(p.check, on_.pause.again_at(now));
        return;
      }
      places::end(p);
      if (on_.link.earlier().may_echo(on_.link.old_connection_until(p), r.written)) {
        cleanups_.add(p, p.id, nullptr, now);
      } else {
        cleanups_.verify_successor(p, p.id, now);
      }
      on_.env.up.busy(p, now);
      return;
    case kind::too_late: ask_once_more(p, retry_reason::server_busy, now); return;
    case kind::unfinished:
      // The next script continues. A place that is leaving learns the result from the answer to its leave.
      if (p.state == place_state::owned) {
        held_.lose_and_give_back(p, now);  // as when queued
      } else if (p.state == place_state::leaving) {
        p.waiting.ticket = reply.ticket;
      } else {
        p.waiting.ticket = p.wait ? reply.ticket : p.waiting.ticket;
        send(p, false, now);
      }
      return;
    case kind::malformed: on_.link.drop("invalid answer of the acquire script"); return;
  }
}

void asking::take_grant(server_place& p, grant const& g, time_point now) {
  if (!is_usable(g.fence)) {
    refuse_grant(p, to_error(fault::malformed, "its last fence leaves no room for another"), now);
    return;
  }
  if (p.state != place_state::owned && !is_possible(p.permit, g.chosen)) {
    refuse_grant(p, impossible(p, g.chosen), now);
    return;
  }
  time_point const deadline = g.from + g.lease - drift_of(g.lease);
  if (p.state == place_state::owned) return held_.heard_again(p, g.fence, g.from, deadline, g.confirmed, now);
  if (deadline <= now) return give_back_late(p, now);
  held_.begin(p, g, deadline, now);
}

/// The grant is too old to be used. It is given back, and the lock is asked for anew.
void asking::give_back_late(server_place& p, time_point now) {
  bool const wait = p.wait;
  bool const asked = p.state != place_state::leaving;
  milliseconds const again = p.lease;
  time_point const since = p.waiting.late_since == time_point{} ? now : p.waiting.late_since;
  if (asked && !wait && now - since >= on_.env.settings.offline_timeout) {
    // One attempt ends some time, also where no grant arrives within its lease.
    fail(p, make_error_code(errc::unreachable, "grants of " + std::to_string(again.count()) + " ms arrive too late"),
         now, true);
    return;
  }
  cleanups_.add(p, p.id, nullptr, now);
  places::end(p);
  if (asked) {
    on_.env.up.asked_again(p, retry_reason::grant_late, now);
    ask(p, wait, again, now);
    p.waiting.late_since = since;
  } else {
    on_.env.up.left(p, now);
  }
}

/// The grant cannot be used: no token can be made of its fence, or the lock has no such segment. This fails only this
/// lock, and the grant is given back.
void asking::refuse_grant(server_place& p, error_code why, time_point now) {
  if (p.state == place_state::owned) {
    held_.lose_and_give_back(p, now);
  } else if (p.state == place_state::leaving) {
    cleanups_.add(p, p.id, nullptr, now);
    places::end(p);
    on_.env.up.left(p, now);
  } else {
    p.written = true;
    fail(p, why, now);
  }
}

void asking::stand_in_line(server_place& p, std::int64_t left_ms, std::int64_t ticket, time_point now) {
  enter(p, place_state::in_line);
  p.waiting.ticket = ticket;
  milliseconds const left{std::clamp<std::int64_t>(left_ms, 0, engine::longest_lease_ms)};
  p.waiting.listed_until = now + left + p.lease;
  time_point const by_lease = check_after(p, left, now);
  // The client that we passed it on to is checked in any case.
  time_point const by_claim = std::max(now + sleep_for(on_.env.settings, left), p.next_owner.next());
  on_.env.timers.arm(p.check, std::min(by_lease, by_claim));
}

/// When to ask again behind an owner whose lease ends in `reported`. What is known of one owner does not outlive it by
/// much: the first in the queue learn when the next one's lease ends (lease_ends_in), and a waiter that learns nothing
/// asks after ten claims in any case.
time_point asking::check_after(server_place const& p, milliseconds reported, time_point now) {
  duration const left = sleep_for(on_.env.settings, reported);
  // All waiters behind one lease see the same end of it, so their checks are spread over a third of what is left. If
  // the holder is dead, the first waiter waits for the spread in addition to the lease. So it is never more than the
  // claim, which a dead client in line may cost too. Behind a claim the spread is less: the check after a claim is the
  // one that finds a dead client in line. The line outlives the lock by the lease that was asked for: a later check
  // would find that our place in line is gone.
  duration const spread =
      left > on_.env.settings.claim ? std::min<duration>(left / 3, on_.env.settings.claim) : left / 10;
  return now + left + on_.pause.jitter(std::min<duration>(spread, p.lease / 2));
}

std::string asking::trouble_of(server_place const& p) const {
  // also of a wait that has just ended: until it asks anew
  bool const in_trouble = p.waiting.trouble_since != time_point{};
  if (p.state == place_state::owned || (p.state == place_state::idle && !in_trouble)) return {};
  if (!on_.link.connected()) return on_.link.why_not_connected();
  if (p.state == place_state::asking && !p.written) {
    return "others of this client are asked for before it, and the server has not answered all of them yet";
  }
  // The server answered "later", or a new connection asks again.
  if (in_trouble) return on_.link.noted().empty() ? on_.link.trouble() : on_.link.noted();
  return p.state == place_state::asking ? "the server has not answered yet" : "";
}

/// It is timed_out while the server answers, and while a first attempt to connect has not lasted for longer than is
/// usual.
error_code asking::too_late(server_place const& p, time_point now) const {
  if (std::string const words = on_.sent.silence(now); !words.empty()) return make_error_code(errc::unreachable, words);
  bool const for_long =
      p.waiting.trouble_since != time_point{} && now - p.waiting.trouble_since >= on_.sent.answers_within();
  bool const in_vain = !on_.link.connected() && (!on_.link.trouble().empty() || for_long);
  return make_error_code(in_vain ? errc::unreachable : errc::timed_out, trouble_of(p));
}

/// The time counts from when the server last answered: a server that takes every connection and answers nothing is not
/// there either.
void asking::be_patient(server_place& p, time_point now) {
  if (p.waiting.trouble_since == time_point{}) p.waiting.trouble_since = now;
  on_.env.timers.arm(p.check, p.waiting.trouble_since + on_.env.settings.offline_timeout);
}

void asking::due(server_place& p, time_point now) {
  if (p.state == place_state::leaving) {
    // There was no answer within the command time-out, perhaps on several connections. A clean-up continues with the
    // leave, and a new waiter may ask anew.
    places::end(p);
    cleanups_.add(p, p.id, nullptr, now);
    on_.env.up.left(p, now);
    return;
  }
  if (p.state != place_state::asking && p.state != place_state::in_line) return;
  if (!on_.link.connected()) {
    be_patient(p, on_.link.lost_at());  // resume_backlog may not have come to it since the connection ended
    if (p.check.at() > now) return;
    p.check.cancel();
    fail(p, make_error_code(errc::unreachable, trouble_of(p)), now);
    return;
  }
  bool const stands = p.state == place_state::in_line;
  if (stands) ++on_.env.stats.safety_checks;
  ask_once_more(p, stands ? retry_reason::safety_check : retry_reason::server_busy, now);
}

/// Asks again under the same id. This renews the grant if it is ours, and leaves us in our place in line if not. It is
/// asked once, whatever the number of pushes.
void asking::ask_because_of_push(server_place& p, time_point now) {
  if (p.state == place_state::leaving || !on_.link.connected()) return;
  if (std::exchange(p.waiting.asks_again, true)) return;
  ask_once_more(p, retry_reason::push_doubted, now);
}

void asking::ask_unheard(server_place& p, time_point now) {
  p.waiting.asks_again = true;
  ask_once_more(p, retry_reason::reconnected, now);
}

void asking::leave_unless_granted(server_place& p, time_point now) {
  BOOST_ASSERT_MSG(p.state == place_state::asking || p.state == place_state::in_line, "only a wait is left");
  if (!p.written) {
    places::end(p);
    cleanups_.verify_successor(p, p.id, now);
    on_.env.up.left(p, now);
    return;
  }
  enter(p, place_state::leaving);
  p.check.cancel();
  if (on_.link.connected()) {
    send_leave(p, now);
  } else {
    on_.env.timers.arm(p.check, now + on_.env.settings.command_timeout);
  }
}

void asking::send_leave(server_place& p, time_point now) {
  if (may_repeat()) send_leave(p, false, now);
  else on_.all.postpone(p);
}

void asking::send_leave(server_place& p, bool with_source, time_point now) {
  BOOST_ASSERT_MSG(p.state == place_state::leaving, "only what leaves says so");
  on_.link.note_sent(p);
  ++on_.env.stats.scripts;
  p.asks_for_lease();
  on_.sent.send(
      release_command{p.name, p.id, true, kept_from_grant(on_.env.settings, p), claim_of(on_.env.settings, p.lease),
                      retention_of(on_.env.settings, longest_of(p)), 0, with_source, p.vote.terms.floor_asked(), 0,
                      part_of(p), 0, on_.link.runs().is_patient(now, p.waiting.patient_until)},
      {request_kind::leave, p.id, 0, &p, nullptr, now});
}

void asking::leave_answered(in_flight const& r, answer const& a, time_point now) {
  using kind = release_reply::kind;
  server_place& p = *r.place;
  release_reply const reply = read_release(a, false, static_cast<bool>(p.permit));
  if (r.moved) {
    if (reply.what != kind::malformed) on_.link.clock().sample(r.written, reply.server_us, now);
    return on_.all.drop(p);
  }
  bool const left = reply.what == kind::released || reply.what == kind::not_done;
  bool const handed_over = reply.passed_on && reply.more_in_line;
  if (left) p.next_owner.checked_until(r.written);
  if (handed_over) cleanups_.passed_on(p, r.lease, now);
  if (p.id == r.id && (p.state == place_state::leaving || p.state == place_state::owned)) {
    if (a.what == fault::no_script && p.state == place_state::leaving) {
      send_leave(p, on_.sent.source_is_due(r), now);
    } else if (reply.what == kind::malformed) {
      if (a.what == fault::none) on_.link.drop("invalid answer of the release script");
      if (p.state == place_state::leaving) {
        cleanups_.add(p, p.id, nullptr, now);
        places::end(p);
        on_.env.up.left(p, now);
      }
    } else if (reply.what == kind::still_owned) {
      on_.link.clock().sample(r.written, reply.server_us, now);
      take_grant(p, {reply.fence, reply.chosen, r.written, r.lease, p.vote.terms.ticket == 0, p.waiting.by_push}, now);
    } else if (p.state == place_state::owned) {
      held_.lose(p, now);
    } else {
      on_.link.clock().sample(r.written, reply.server_us, now);
      places::end(p);
      if (on_.link.earlier().may_echo(on_.link.old_connection_until(p), r.written)) {
        cleanups_.add(p, r.id, nullptr,
                      now);  // a request that an older connection still holds may take the place again
      } else {
        cleanups_.verify_successor(p, r.id, now);
      }
      on_.env.up.left(p, now);
    }
  }
  if (handed_over) cleanups_.verify_successor(p, r.id, now);
  if (reply.more_to_do) cleanups_.release_again(p, left ? r.id : ids_.next(p), now);
  on_.all.drop(p);
}

void asking::give_up(server_place& p, receipt* r, time_point now) {
  BOOST_ASSERT_MSG(p.state != place_state::idle && p.state != place_state::owned, "only a wait is given up");
  places::end(p);
  if (p.written) {
    cleanups_.add(p, p.id, r, now);
    return;
  }
  cleanups_.verify_successor(p, p.id, now);
  if (r != nullptr) on_.env.up.released(*r, false, {}, now);
}

void asking::ask_again(server_place& p, time_point now) {
  bool const there = p.state == place_state::asking || p.state == place_state::in_line || p.state == place_state::owned;
  bool const was_put_off = p.waiting.trouble_since != time_point{};
  if (!on_.link.connected() || !there || was_put_off) return;
  if (may_repeat() || p.state == place_state::owned) send(p, false, now);
  else on_.all.postpone(p);
}

void asking::release(server_place& p, std::optional<milliseconds> again, receipt* r, time_point now) {
  cleanups_.drop_kick(p);
  cleanup& c = held_.give_back(p, r, now);
  if (again) stand_again(p, c, *again, now);
  else if (on_.link.connected()) cleanups_.send(c, now);
  on_.all.drop(p);
}

/// The same script queues the client again, behind all others. If this user may not end old connections, a script of
/// its own does so, which carries a not-after. So it does while others connect again: the release may have to wait for
/// them. The release of a lock with several owners knows no new place, nor does one within a minimum interval.
void asking::stand_again(server_place& p, cleanup& c, milliseconds lease, time_point now) {
  bool const together = on_.link.connected() && cleanups_.may_send() && on_.link.earlier().can_end() &&
                        !on_.link.denied() && !p.permit && c.kept_until <= now &&
                        !on_.link.runs().is_patient(now, c.patient_until);
  if (!together) {
    if (on_.link.connected()) cleanups_.send(c, now);
    ask(p, true, lease, now);
    return;
  }
  enter(p, place_state::asking);
  p.wait = true;
  p.lease = lease;
  p.id = ids_.next(p);
  p.run = on_.link.runs().number();
  p.waiting.ticket = p.vote.terms.ticket;
  p.written = true;
  p.waiting.asks_again = p.waiting.by_push = false;
  p.waiting.listed_until = time_point::min();
  on_.link.begin(p);
  p.asks_for_lease();
  p.waiting.trouble_since = {};
  on_.all.add(p, false);
  cleanups_.send(c, p.id, false, now);
}

/// Patience counts from the first request without an answer. A running process ends a silent connection sooner than
/// that: what is more was a pause of this process, which has not tried the server meanwhile.
void asking::went_unanswered(server_place& p, grant_id id, time_point written, time_point now) {
  bool const waits = p.state == place_state::asking || p.state == place_state::in_line;
  if (!waits || p.id != id || p.waiting.trouble_since != time_point{}) return;
  p.waiting.trouble_since = std::max(written, now - 2 * on_.env.settings.command_timeout);
}

void asking::lease_ends_in(server_place& p, milliseconds left, time_point now) {
  time_point const when = check_after(p, left, now);
  if (p.check.armed() && when < p.check.at()) on_.env.timers.arm(p.check, when);
}

void asking::receive(server_place& p, place_keeper& mine, time_point now) {
  p.unlink();
  p.check.cancel();
  p.of = &mine;
  on_.link.note_unsent(p);
  p.waiting.postponed = p.owned.renewing = p.waiting.asks_again = false;
  bool const is_new = !p.written && p.state == place_state::asking;
  p.run = is_new ? on_.link.runs().number() : server_place::no_run;
  if (!is_new) on_.link.runs().wait_for_others(now);
  on_.all.receive(p);
  if (on_.link.connected() || p.state == place_state::owned) return;
  bool const waits = p.state == place_state::asking || p.state == place_state::in_line;
  if (waits) be_patient(p, now);
  if (p.state == place_state::leaving) on_.env.timers.arm(p.check, now + on_.env.settings.command_timeout);
}

}  // namespace conch::protocol
