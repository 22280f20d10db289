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

permit const* part_of(place const& s) { return s.permit ? &s.permit : nullptr; }

}  // namespace

void asking::fail(place& s, error_code why, time_point now, bool of_one_attempt) {
  bool const may_have_acted = s.written;
  grant_id const id = s.id;
  places::end(s);
  ++s.references;  // the place must outlive its clean-up and the event
  // If a key has another type a try has taken nothing, unless its request is under way once more. But a waiter may stand in line: it may be
  // the key of the fence that has the other type.
  if (may_have_acted && (why != errc::wrong_type || s.wait || on_.sent.is_under_way(s, id))) {
    owed_.owe(s, id, nullptr, now);
  } else {
    owed_.look_after(s, id, now);
  }
  if (of_one_attempt) on_.env.up.attempt_failed(s, why, now);
  else on_.env.up.failed(s, why, now);
  on_.all.drop(s);
}

void asking::take_fault(place& s, answer const& a, time_point now) {
  switch (a.what) {
    case fault::reconnect: on_.link.drop(a.words); break;
    case fault::try_later:
      on_.link.note_once(a.words);
      if (s.waiting.trouble_since == time_point{}) s.waiting.trouble_since = now;
      if (now - s.waiting.trouble_since >= on_.env.settings.offline_timeout) {
        fail(s, to_error(a.what, a.words), now);
      } else {
        on_.env.timers.arm(s.check, on_.pause.again_at(a, now));
      }
      break;
    default: fail(s, to_error(a.what, a.words), now); break;
  }
}

void asking::ask(place& s, bool wait, milliseconds lease, time_point now) {
  BOOST_ASSERT_MSG(s.at == place::state::idle, "a place asks that is not idle");
  owed_.drop_kick(s);
  enter(s, place::state::asking);
  s.wait = wait;
  s.lease = lease;
  ids_.forget(s);
  s.id = ids_.next(s);
  // A waiter learns of a new run when the lease of the holder ends, or when a client that asks for the lock tells it.
  if (std::exchange(s.run, on_.link.runs().number()) != on_.link.runs().number() && !on_.link.runs().all_know(now))
    s.waiting.patient_until = now + time_to_greet;
  ids_.enter(s);
  s.waiting.ticket = s.vote.terms.ticket;
  s.written = s.waiting.asks_again = s.waiting.by_push = false;
  s.waiting.listed_until = time_point::min();
  s.waiting.trouble_since = s.waiting.late_since = {};
  on_.link.begin(s);
  // They asked earlier, or there is no room.
  bool const others_first = (on_.all.has_resting() || (on_.link.connected() && !may_ask(now))) && !on_.all.failing();
  on_.all.add(s, others_first);
  if (on_.link.denied()) {
    fail(s, on_.link.denied(), now);
    on_.link.drop("denied on this connection; the next one shows whether it still is");
  } else if (on_.link.connected() && others_first) {
    on_.link.tell_anew(s);
    if (may_repeat() && !on_.soon.is_due()) on_.soon.at(std::max(on_.sent.window().begins_again(), in_next_turn(now)));
  } else if (on_.link.connected() && may_repeat()) {
    send(s, false, now);
  } else if (on_.link.connected()) {
    on_.all.postpone(s);
  } else {
    be_patient(s, now);
    on_.link.want();
  }
}

void asking::about_to_send(place& s, std::int64_t not_after_us) {
  s.written = true;
  on_.link.tell(s);
  s.check.cancel();
  on_.link.written(s, not_after_us);
}

void asking::send(place& s, bool with_source, time_point now) {
  if (gathering_ && !s.wait && s.vote.terms.ticket == 0 && !s.permit && !s.adopts()) {
    gathered_.push_back(&s);
    return;
  }
  ++on_.env.stats.scripts;
  if (!s.written) on_.sent.window().begins(now);
  std::int64_t const not_after_us = on_.link.not_after(now);
  std::int64_t const proposal = s.vote.terms.ticket != 0 ? s.vote.terms.floor + 1 : 0;
  about_to_send(s, not_after_us);
  s.asks_for_lease();
  in_flight asked{request_kind::acquire, s.id, 0, &s, nullptr, now};
  asked.proposal = proposal;
  on_.sent.send(
      acquire_command{s.name, s.id, s.wait, s.lease, claim_of(on_.env.settings, s.lease), retention_of(on_.env.settings, s.lease), s.waiting.ticket,
                      not_after_us, with_source, proposal, part_of(s), on_.link.runs().is_patient(now, s.waiting.patient_until), s.origin},
      asked);
}

std::vector<place*> asking::take_gathered() noexcept {
  gathering_ = false;
  return std::exchange(gathered_, {});
}

void asking::ask_once_more(place& s, retry_reason why, time_point now) {
  if (s.at != place::state::asking && s.at != place::state::in_line) return;
  if (s.written && !s.waiting.postponed) on_.env.up.asked_again(s, why, now);
  if (may_repeat() && !s.waiting.postponed) send(s, false, now);
  else on_.all.postpone(s);
}

void asking::answered(in_flight const& r, answer const& a, time_point now) {
  place& s = *r.at;
  // The reply counts also where no caller waits for it any more.
  acquire_reply const reply = read_acquire(a, r.proposal);
  if (r.moved) {
    on_.link.clock().sample(r.written, reply.server_us, now);
    owed_.owe_where_it_went(s, r.id, reply, now);
    return on_.all.drop(s);
  }
  if (a.what == fault::none) s.heir.checked_until(r.written);
  if (reply.passed_on) owed_.passed_on(s, r.lease, now);
  if (s.id == r.id && s.at != place::state::idle) {  // an answer for any other id grants nothing
    bool const waits = s.at == place::state::asking || s.at == place::state::in_line;
    s.waiting.asks_again = s.waiting.asks_again && waits && a.what == fault::no_script;  // that request is sent once more
    if (a.what == fault::no_script) {
      if (waits) send(s, on_.sent.source_is_due(r), now);
    } else if (a.what != fault::none) {
      if (waits) take_fault(s, a, now);
    } else {
      on_.link.clock().sample(r.written, reply.server_us, now);
      if (reply.seen) s.vote.seen = {reply.seen->client, reply.seen->ticket, reply.seen->confirmed, r.written};
      take_result(s, r, reply, now);
    }
  }
  if (reply.passed_on) owed_.look_after(s, r.id, now);
  if (reply.more_to_do) owed_.go_on(s, ids_.next(s), now);
  on_.all.drop(s);
}

void asking::take_result(place& s, in_flight const& r, acquire_reply const& reply, time_point now) {
  using kind = acquire_reply::kind;
  if (reply.what != kind::too_late) s.waiting.trouble_since = {};  // a request that came too late was not carried out
  switch (reply.what) {
    case kind::granted: take_grant(s, {reply.fence, reply.segment, r.written, r.lease, s.vote.terms.ticket == 0, s.waiting.by_push}, now); return;
    case kind::queued:
      s.waiting.by_push = false;
      if (s.at == place::state::owned) {
        held_.lose_and_give_back(s, now);  // the pushed claim is over, and the request has put us in line again
      } else if (s.at == place::state::leaving) {
        s.waiting.ticket = reply.ticket;
      } else {
        stand_in_line(s, reply.left_ms, reply.ticket, now);
        on_.env.up.queued(s, now);
      }
      return;
    case kind::busy:
      if (s.at == place::state::leaving) return;  // the answer to its leave follows
      if (s.waiting.late_since != time_point{} && owed_.owes(s)) {
        // Perhaps by its own grant that came too late, of which the release was not carried out before.
        on_.env.timers.arm(s.check, on_.pause.again_at(now));
        return;
      }
      places::end(s);
      if (on_.link.earlier().may_echo(on_.link.echo_until(s), r.written)) {
        owed_.owe(s, s.id, nullptr, now);
      } else {
        owed_.look_after(s, s.id, now);
      }
      on_.env.up.busy(s, now);
      return;
    case kind::too_late: ask_once_more(s, retry_reason::server_busy, now); return;
    case kind::unfinished:
      // The next script goes on. A place that is leaving learns the result from the answer to its leave.
      if (s.at == place::state::owned) {
        held_.lose_and_give_back(s, now);  // as when queued
      } else if (s.at == place::state::leaving) {
        s.waiting.ticket = reply.ticket;
      } else {
        s.waiting.ticket = s.wait ? reply.ticket : s.waiting.ticket;
        send(s, false, now);
      }
      return;
    case kind::malformed: on_.link.drop("invalid answer of the acquire script"); return;
  }
}

void asking::take_grant(place& s, grant const& g, time_point now) {
  if (!is_usable(g.fence)) {
    refuse_grant(s, to_error(fault::malformed, "its last fence leaves no room for another"), now);
    return;
  }
  if (s.at != place::state::owned && !has_segment(s.permit, g.segment)) {
    refuse_grant(s, no_such_segment(s, g.segment), now);
    return;
  }
  time_point const deadline = g.from + g.lease - drift_of(g.lease);
  if (s.at == place::state::owned) return held_.heard_again(s, g.fence, g.from, deadline, g.confirmed, now);
  if (deadline <= now) return give_back_late(s, now);
  held_.begin(s, g, deadline, now);
}

/// The grant is too old to be used. It is given back, and the lock is asked for anew.
void asking::give_back_late(place& s, time_point now) {
  bool const wait = s.wait;
  bool const asked = s.at != place::state::leaving;
  milliseconds const again = s.lease;
  time_point const since = s.waiting.late_since == time_point{} ? now : s.waiting.late_since;
  if (asked && !wait && now - since >= on_.env.settings.offline_timeout) {
    // One attempt ends some time, also where no grant arrives within its lease.
    fail(s, make_error_code(errc::unreachable, "grants of " + std::to_string(again.count()) + " ms arrive too late"), now, true);
    return;
  }
  owed_.owe(s, s.id, nullptr, now);
  places::end(s);
  if (asked) {
    on_.env.up.asked_again(s, retry_reason::grant_late, now);
    ask(s, wait, again, now);
    s.waiting.late_since = since;
  } else {
    on_.env.up.left(s, now);
  }
}

/// The grant cannot be used: no token can be made of its fence, or the lock has no such segment. This fails only this lock, and the grant
/// is given back.
void asking::refuse_grant(place& s, error_code why, time_point now) {
  if (s.at == place::state::owned) {
    held_.lose_and_give_back(s, now);
  } else if (s.at == place::state::leaving) {
    owed_.owe(s, s.id, nullptr, now);
    places::end(s);
    on_.env.up.left(s, now);
  } else {
    s.written = true;
    fail(s, why, now);
  }
}

void asking::stand_in_line(place& s, std::int64_t left_ms, std::int64_t ticket, time_point now) {
  enter(s, place::state::in_line);
  s.waiting.ticket = ticket;
  milliseconds const left{std::clamp<std::int64_t>(left_ms, 0, engine::longest_lease_ms)};
  s.waiting.listed_until = now + left + s.lease;
  time_point const by_lease = check_after(s, left, now);
  // The client that we passed it on to is looked after in any case.
  time_point const by_claim = std::max(now + sleep_for(on_.env.settings, left), s.heir.next());
  on_.env.timers.arm(s.check, std::min(by_lease, by_claim));
}

/// When to ask again behind an owner whose lease ends in `told`. What is known of one owner does not outlive it by much: the first in line are told
/// when the next one's lease ends (told_end), and a waiter that is told nothing asks after ten claims in any case.
time_point asking::check_after(place const& s, milliseconds told, time_point now) {
  duration const left = sleep_for(on_.env.settings, told);
  // All waiters behind one lease see the same end of it, so their checks are spread over a third of what is left. If the holder is dead,
  // the first waiter waits for the spread in addition to the lease. So it is never more than the claim, which a dead client in line may
  // cost too. Behind a claim the spread is less: the check after a claim is the one that finds a dead client in line. The line outlives the
  // lock by the lease that was asked for: a later check would find that our place in line is gone.
  duration const spread = left > on_.env.settings.claim ? std::min<duration>(left / 3, on_.env.settings.claim) : left / 10;
  return now + left + on_.pause.jitter(std::min<duration>(spread, s.lease / 2));
}

std::string asking::trouble_of(place const& s) const {
  bool const in_trouble = s.waiting.trouble_since != time_point{};  // also of a wait that has just ended: until it asks anew
  if (s.at == place::state::owned || (s.at == place::state::idle && !in_trouble)) return {};
  if (!on_.link.connected()) return on_.link.why_not_connected();
  if (s.at == place::state::asking && !s.written) {
    return "others of this client are asked for before it, and the server has not answered all of them yet";
  }
  // The server answered "later", or a new connection asks again.
  if (in_trouble) return on_.link.noted().empty() ? on_.link.trouble() : on_.link.noted();
  return s.at == place::state::asking ? "the server has not answered yet" : "";
}

/// It is timed_out while the server answers, and while a first attempt to connect has not lasted for longer than is usual.
error_code asking::too_late(place const& s, time_point now) const {
  if (std::string const words = on_.sent.silence(now); !words.empty()) return make_error_code(errc::unreachable, words);
  bool const for_long = s.waiting.trouble_since != time_point{} && now - s.waiting.trouble_since >= on_.sent.answers_within();
  bool const in_vain = !on_.link.connected() && (!on_.link.trouble().empty() || for_long);
  return make_error_code(in_vain ? errc::unreachable : errc::timed_out, trouble_of(s));
}

/// The time counts from when the server last answered: a server that takes every connection and answers nothing is not there either.
void asking::be_patient(place& s, time_point now) {
  if (s.waiting.trouble_since == time_point{}) s.waiting.trouble_since = now;
  on_.env.timers.arm(s.check, s.waiting.trouble_since + on_.env.settings.offline_timeout);
}

void asking::due(place& s, time_point now) {
  if (s.at == place::state::leaving) {
    // There was no answer within the command time-out, perhaps on several connections. A clean-up goes on with the leave, and a new waiter may ask
    // anew.
    places::end(s);
    owed_.owe(s, s.id, nullptr, now);
    on_.env.up.left(s, now);
    return;
  }
  if (s.at != place::state::asking && s.at != place::state::in_line) return;
  if (!on_.link.connected()) {
    be_patient(s, on_.link.lost_at());  // go_on may not have come to it since the connection ended
    if (s.check.at() > now) return;
    s.check.cancel();
    fail(s, make_error_code(errc::unreachable, trouble_of(s)), now);
    return;
  }
  bool const stands = s.at == place::state::in_line;
  if (stands) ++on_.env.stats.safety_checks;
  ask_once_more(s, stands ? retry_reason::safety_check : retry_reason::server_busy, now);
}

/// Asks again under the same id. This renews the grant if it is ours, and leaves us in our place in line if not. It is asked once, whatever
/// the number of pushes.
void asking::ask_because_of_push(place& s, time_point now) {
  if (s.at == place::state::leaving || !on_.link.connected()) return;
  if (std::exchange(s.waiting.asks_again, true)) return;
  ask_once_more(s, retry_reason::push_doubted, now);
}

void asking::ask_unheard(place& s, time_point now) {
  s.waiting.asks_again = true;
  ask_once_more(s, retry_reason::reconnected, now);
}

void asking::leave_unless_granted(place& s, time_point now) {
  BOOST_ASSERT_MSG(s.at == place::state::asking || s.at == place::state::in_line, "only a wait is left");
  if (!s.written) {
    places::end(s);
    owed_.look_after(s, s.id, now);
    on_.env.up.left(s, now);
    return;
  }
  enter(s, place::state::leaving);
  s.check.cancel();
  if (on_.link.connected()) {
    send_leave(s, now);
  } else {
    on_.env.timers.arm(s.check, now + on_.env.settings.command_timeout);
  }
}

void asking::send_leave(place& s, time_point now) {
  if (may_repeat()) send_leave(s, false, now);
  else on_.all.postpone(s);
}

void asking::send_leave(place& s, bool with_source, time_point now) {
  BOOST_ASSERT_MSG(s.at == place::state::leaving, "only what leaves says so");
  on_.link.tell(s);
  ++on_.env.stats.scripts;
  s.asks_for_lease();
  on_.sent.send(release_command{s.name, s.id, true, s.lease, claim_of(on_.env.settings, s.lease), retention_of(on_.env.settings, s.lease), 0,
                                with_source, s.vote.terms.floor_asked(), 0, part_of(s), 0, on_.link.runs().is_patient(now, s.waiting.patient_until)},
                {request_kind::leave, s.id, 0, &s, nullptr, now});
}

void asking::leave_answered(in_flight const& r, answer const& a, time_point now) {
  using kind = release_reply::kind;
  place& s = *r.at;
  release_reply const reply = read_release(a, false, static_cast<bool>(s.permit));
  if (r.moved) {
    if (reply.what != kind::malformed) on_.link.clock().sample(r.written, reply.server_us, now);
    return on_.all.drop(s);
  }
  bool const left = reply.what == kind::released || reply.what == kind::not_done;
  bool const handed_over = reply.passed_on && reply.more_in_line;
  if (left) s.heir.checked_until(r.written);
  if (handed_over) owed_.passed_on(s, r.lease, now);
  if (s.id == r.id && (s.at == place::state::leaving || s.at == place::state::owned)) {
    if (a.what == fault::no_script && s.at == place::state::leaving) {
      send_leave(s, on_.sent.source_is_due(r), now);
    } else if (reply.what == kind::malformed) {
      if (a.what == fault::none) on_.link.drop("invalid answer of the release script");
      if (s.at == place::state::leaving) {
        owed_.owe(s, s.id, nullptr, now);
        places::end(s);
        on_.env.up.left(s, now);
      }
    } else if (reply.what == kind::still_owned) {
      on_.link.clock().sample(r.written, reply.server_us, now);
      take_grant(s, {reply.fence, reply.segment, r.written, r.lease, s.vote.terms.ticket == 0, s.waiting.by_push}, now);
    } else if (s.at == place::state::owned) {
      held_.lose(s, now);
    } else {
      on_.link.clock().sample(r.written, reply.server_us, now);
      places::end(s);
      if (on_.link.earlier().may_echo(on_.link.echo_until(s), r.written)) {
        owed_.owe(s, r.id, nullptr, now);  // a request that an older connection still holds may take the place again
      } else {
        owed_.look_after(s, r.id, now);
      }
      on_.env.up.left(s, now);
    }
  }
  if (handed_over) owed_.look_after(s, r.id, now);
  if (reply.more_to_do) owed_.go_on(s, left ? r.id : ids_.next(s), now);
  on_.all.drop(s);
}

void asking::give_up(place& s, receipt* r, time_point now) {
  BOOST_ASSERT_MSG(s.at != place::state::idle && s.at != place::state::owned, "only a wait is given up");
  places::end(s);
  if (s.written) {
    owed_.owe(s, s.id, r, now);
    return;
  }
  owed_.look_after(s, s.id, now);
  if (r != nullptr) on_.env.up.released(*r, false, {}, now);
}

void asking::ask_again(place& s, time_point now) {
  bool const there = s.at == place::state::asking || s.at == place::state::in_line || s.at == place::state::owned;
  bool const told_to_come_later = s.waiting.trouble_since != time_point{};
  if (!on_.link.connected() || !there || told_to_come_later) return;
  if (may_repeat() || s.at == place::state::owned) send(s, false, now);
  else on_.all.postpone(s);
}

void asking::release(place& s, std::optional<milliseconds> again, receipt* r, time_point now) {
  owed_.drop_kick(s);
  cleanup& c = held_.give_back(s, r, now);
  if (again) stand_again(s, c, *again, now);
  else if (on_.link.connected()) owed_.send(c, now);
  on_.all.drop(s);
}

/// The same script puts the client in line again, behind all others. If this user may not end old connections, a script of its own does so,
/// which carries a not-after. So it does while others connect again: the release may have to wait for them. The release of a lock with several
/// owners knows no new place.
void asking::stand_again(place& s, cleanup& c, milliseconds lease, time_point now) {
  bool const together = on_.link.connected() && owed_.may_send() && on_.link.earlier().can_end() && !on_.link.denied() && !s.permit &&
                        !on_.link.runs().is_patient(now, c.patient_until);
  if (!together) {
    if (on_.link.connected()) owed_.send(c, now);
    ask(s, true, lease, now);
    return;
  }
  enter(s, place::state::asking);
  s.wait = true;
  s.lease = lease;
  s.id = ids_.next(s);
  s.run = on_.link.runs().number();
  s.waiting.ticket = s.vote.terms.ticket;
  s.written = true;
  s.waiting.asks_again = s.waiting.by_push = false;
  s.waiting.listed_until = time_point::min();
  on_.link.begin(s);
  s.asks_for_lease();
  s.waiting.trouble_since = {};
  on_.all.add(s, false);
  owed_.send(c, s.id, false, now);
}

/// Patience counts from the first request without an answer.
void asking::went_unanswered(place& s, grant_id id, time_point written) {
  bool const waits = s.at == place::state::asking || s.at == place::state::in_line;
  if (waits && s.id == id && s.waiting.trouble_since == time_point{}) s.waiting.trouble_since = written;
}

void asking::told_end(place& s, milliseconds left, time_point now) {
  time_point const at = check_after(s, left, now);
  if (s.check.armed() && at < s.check.at()) on_.env.timers.arm(s.check, at);
}

void asking::receive(place& s, place_keeper& mine, time_point now) {
  s.unlink();
  s.check.cancel();
  s.of = &mine;
  on_.link.tell_anew(s);
  s.waiting.postponed = s.owned.renewing = s.waiting.asks_again = false;
  bool const is_new = !s.written && s.at == place::state::asking;
  s.run = is_new ? on_.link.runs().number() : place::no_run;
  if (!is_new) on_.link.runs().wait_for_others(now);
  on_.all.receive(s);
  if (on_.link.connected() || s.at == place::state::owned) return;
  bool const waits = s.at == place::state::asking || s.at == place::state::in_line;
  if (waits) be_patient(s, now);
  if (s.at == place::state::leaving) on_.env.timers.arm(s.check, now + on_.env.settings.command_timeout);
}

}  // namespace conch::protocol
