// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server.hpp"

#include <algorithm>
#include <utility>
#include <vector>

// One lock at one server: asking, standing in line, being granted, being renewed, being refused.
namespace conch::protocol {

namespace {

using std::chrono::microseconds;

bool is_usable(std::int64_t fence) { return fence > 0 && fence < fence_limit; }

/// Does the lock have that segment, or as many permits where all that are free were asked for? A lock without segments has segment 0. Two objects of
/// one name may have been made with different numbers of segments.
bool has_segment(permit const& p, std::int64_t segment) {
  if (p.all_free) return segment >= 1 && segment <= engine::most_permits;
  return p.kind == permit_kind::segments ? segment >= 1 && segment <= p.limit : segment == 0;
}

error_code no_such_segment(place const& s, std::int64_t segment) {
  std::string const which = (s.permit.all_free ? "permits " : "segment ") + std::to_string(segment);
  if (s.permit.kind != permit_kind::segments || segment < 1) return to_error(fault::malformed, "granted " + which);
  return make_error_code(errc::invalid_config,
                         "granted " + which + ", and this object was made with " + std::to_string(s.permit.limit) + " segments");
}

permit const* part_of(place const& s) { return s.permit ? &s.permit : nullptr; }

/// How many stray grants are given back in one second. Normally there is one now and then, but a client that may publish can send any
/// number. A grant that is not given back goes to the next in line when its claim is over.
constexpr int strays_per_second = 100;

}  // namespace

place::place(server& keeper, std::string_view lock_name, engine::permit const& share)
    : engine::place{lock_name, share}, of{&keeper}, check{this, [](void* self, time_point now) {
                                                            auto& s = *static_cast<place*>(self);
                                                            s.of->check(s, now);
                                                          }} {}

place::~place() {
  if (listed_in != nullptr) listed_in->forget(*this);
}

std::unique_ptr<engine::place> server::make_place(std::string_view name, engine::permit const& share) {
  return std::make_unique<place>(*this, name, share);
}

void server::ask_vote(place& s, vote_terms const& terms, bool wait, milliseconds lease, time_point now) {
  s.terms = terms;
  s.seen = {};
  s.accepted = s.refused_by = 0;
  ask(s, wait, lease, now);
}

void server::hold_vote(place& s, vote_terms const& terms, milliseconds lease) noexcept {
  s.terms = terms;
  s.lease = lease;
}

void server::renew_votes(std::span<place* const> votes, time_point now) {
  if (on_.link.connected()) send_renewals(votes, {}, now);
}

void server::give_vote_back(place& s, vote_terms const& terms, receipt* r, time_point now) {
  s.terms = terms;
  if (s.at == place::state::owned) release(s, std::nullopt, r, now);
  else give_up(s, r, now);
}

void server::ask(place& s, bool wait, milliseconds lease, time_point now) {
  drop_kick(s);
  enter(s, place::state::asking);
  s.wait = wait;
  s.lease = lease;
  ids_.forget(s);
  s.id = ids_.next(s);
  // Who waits for a lock hears of another run at the latest when the lease of its owner is over, or when somebody who asks for the lock tells.
  if (std::exchange(s.run, on_.link.runs().number()) != on_.link.runs().number() && !on_.link.runs().all_know(now))
    s.patient_until = now + time_to_greet;
  ids_.enter(s);
  s.ticket = s.terms.ticket;
  s.written = s.asks_again = s.by_push = false;
  s.late_until = s.echo_until = s.listed_until = time_point::min();
  s.trouble_since = s.late_since = {};
  s.longest_lease = {};
  bool const others_first = (!resting_.empty() || (on_.link.connected() && !may_ask(now))) && !failing_;  // they asked earlier, or there is no room
  (others_first ? resting_ : active_).push_back(s);
  if (on_.link.denied()) {
    fail(s, on_.link.denied(), now);
    on_.link.drop("denied on this connection; the next one shows whether it still is");
  } else if (on_.link.connected() && others_first) {
    s.told_on = 0;
    if (may_repeat() && !rest_.armed()) on_.env.timers.arm(rest_, std::max(window_.begins_again(), in_next_turn(now)));
  } else if (on_.link.connected() && may_repeat()) {
    send_acquire(s, false, now);
  } else if (on_.link.connected()) {
    postpone(s);
  } else {
    patience(s, now);
    on_.link.want();
  }
}

/// A request for the place is being written.
void server::about_to_ask(place& s, std::int64_t not_after_us) {
  s.written = true;
  on_.link.tell(s);
  s.check.cancel();
  if (not_after_us == 0) return;
  s.late_until = std::max(s.late_until, on_.link.clock().passed(not_after_us));
}

void server::send_acquire(place& s, bool with_source, time_point now) {
  if (gathering_ && !s.wait && s.terms.ticket == 0 && !s.permit && !s.adopts()) {
    gathered_.push_back(&s);
    return;
  }
  ++on_.env.stats.scripts;
  if (!s.written) window_.begins(now);
  std::int64_t const not_after_us = on_.link.not_after(now);
  std::int64_t const proposal = s.terms.ticket != 0 ? s.terms.floor + 1 : 0;
  about_to_ask(s, not_after_us);
  s.asks_for_lease();
  out_.send(acquire_command{s.name, s.id, s.wait, s.lease, claim_of(on_.env.settings, s.lease), retention_of(on_.env.settings, s.lease), s.ticket,
                            not_after_us, with_source, proposal, part_of(s), on_.link.runs().is_patient(now, s.patient_until), s.origin});
  in_flight asked{request::acquire, s.id, 0, &s, nullptr, now};
  asked.proposal = proposal;
  push_request(asked);
}

/// Of a place that asks, or is in line. What was not written yet is only asked for.
void server::ask_once_more(place& s, retry_reason why, time_point now) {
  if (s.at != place::state::asking && s.at != place::state::in_line) return;
  if (s.written && !s.postponed) on_.env.up.asked_again(s, why, now);
  if (may_repeat() && !s.postponed) send_acquire(s, false, now);
  else postpone(s);
}

void server::acquire_answer(in_flight const& r, answer const& a, time_point now) {
  place& s = *r.at;
  // The reply counts also where no caller waits for it any more.
  acquire_reply const reply = read_acquire(a, r.proposal);
  if (r.moved) {
    on_.link.clock().sample(r.written, reply.server_us, now);
    owe_if_carried_out(s, r.id, reply, now);
    return drop(s);
  }
  if (a.what == fault::none) seen(s, r);
  if (reply.passed_on) passed_on(s, r.lease, now);
  if (s.id == r.id && s.at != place::state::idle) {  // an answer for any other id grants nothing
    bool const waits = s.at == place::state::asking || s.at == place::state::in_line;
    s.asks_again = s.asks_again && waits && a.what == fault::no_script;  // that request is sent once more
    if (a.what == fault::no_script) {
      if (waits) send_acquire(s, source_is_due(r), now);
    } else if (a.what != fault::none) {
      if (waits) acquire_fault(s, a, now);
    } else {
      on_.link.clock().sample(r.written, reply.server_us, now);
      if (reply.seen) s.seen = {reply.seen->client, reply.seen->ticket, reply.seen->confirmed, r.written};
      ask_result(s, r, reply, now);
    }
  }
  if (reply.passed_on) look_after(s, r.id, now);
  if (reply.more_to_do) go_on(s, ids_.next(s), now);
  drop(s);
}

void server::ask_result(place& s, in_flight const& r, acquire_reply const& reply, time_point now) {
  using kind = acquire_reply::kind;
  if (reply.what != kind::too_late) s.trouble_since = {};  // a request that came too late was not carried out
  switch (reply.what) {
    case kind::granted: own(s, reply.fence, reply.segment, r.written, r.lease, s.terms.ticket == 0, s.by_push, now); return;
    case kind::queued:
      s.by_push = false;
      if (s.at == place::state::owned) {
        lose_and_give_back(s, now);  // the pushed claim is over, and the request has put us in line again
      } else if (s.at == place::state::leaving) {
        s.ticket = reply.ticket;
      } else {
        in_line(s, reply.left_ms, reply.ticket, now);
        on_.env.up.queued(s, now);
      }
      return;
    case kind::busy:
      if (s.at == place::state::leaving) return;  // the answer to its leave follows
      if (s.late_since != time_point{} && owes_cleanup(s)) {
        // Perhaps by its own grant that came too late, of which the release was not carried out before.
        on_.env.timers.arm(s.check, on_.pause.again_at(now));
        return;
      }
      become_idle(s);
      if (on_.link.earlier().may_echo(on_.link.echo_until(s), r.written)) {
        owe(s, s.id, nullptr, now);
      } else {
        look_after(s, s.id, now);
      }
      on_.env.up.busy(s, now);
      return;
    case kind::too_late: ask_once_more(s, retry_reason::server_busy, now); return;
    case kind::unfinished:
      // The next script goes on. A place that is leaving learns the result from the answer to its leave.
      if (s.at == place::state::owned) {
        lose_and_give_back(s, now);  // as when queued
      } else if (s.at == place::state::leaving) {
        s.ticket = reply.ticket;
      } else {
        s.ticket = s.wait ? reply.ticket : s.ticket;
        send_acquire(s, false, now);
      }
      return;
    case kind::malformed: on_.link.drop("invalid answer of the acquire script"); return;
  }
}

void server::own(place& s, std::int64_t fence, std::int64_t segment, time_point from, duration lease, bool confirmed, bool pushed, time_point now) {
  if (!is_usable(fence)) {
    refuse_grant(s, to_error(fault::malformed, "its last fence leaves no room for another"), now);
    return;
  }
  if (s.at != place::state::owned && !has_segment(s.permit, segment)) {
    refuse_grant(s, no_such_segment(s, segment), now);
    return;
  }
  time_point const deadline = from + lease - drift_of(lease);
  if (s.at == place::state::owned) return own_still(s, fence, from, deadline, confirmed, now);
  if (deadline <= now) return give_back_late(s, now);
  enter(s, place::state::owned);
  s.check.cancel();
  s.unlink();
  s.postponed = false;
  holds_.push_back(s);
  if (!s.permit) s.nothing_to_check();  // of a lock with several owners another permit was passed on
  s.fence = fence;
  s.segment = static_cast<std::uint32_t>(segment);
  s.fence_until = pushed ? from : from + on_.env.settings.fence_retention + lease;  // the client that passed it on may keep fences for less
  s.deadline = deadline;
  s.valid_from = s.heard_from = from;
  s.confirmed = confirmed;
  s.renewing = false;
  s.patient_until = time_point::min();  // nobody stands before it any more
  if (s.follow_up != time_point::max()) look_after(s, ids_.next(s), now);
  on_.env.up.granted(s, pushed, now);
}

void server::own_still(place& s, std::int64_t fence, time_point from, time_point deadline, bool confirmed, time_point now) {
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

/// The grant is too old to be used. It is given back, and the lock is asked for anew.
void server::give_back_late(place& s, time_point now) {
  bool const wait = s.wait;
  bool const asked = s.at != place::state::leaving;
  milliseconds const again = s.lease;
  time_point const since = s.late_since == time_point{} ? now : s.late_since;
  if (asked && !wait && now - since >= on_.env.settings.offline_timeout) {
    // One attempt ends some time, also where no grant arrives within its lease.
    fail(s, make_error_code(errc::unreachable, "grants of " + std::to_string(again.count()) + " ms arrive too late"), now, true);
    return;
  }
  owe(s, s.id, nullptr, now);
  become_idle(s);
  if (asked) {
    on_.env.up.asked_again(s, retry_reason::grant_late, now);
    ask(s, wait, again, now);
    s.late_since = since;
  } else {
    on_.env.up.left(s, now);
  }
}

/// The grant cannot be used: no token can be made of its fence, or the lock has no such segment. This fails only this lock, and the grant
/// is given back.
void server::refuse_grant(place& s, error_code why, time_point now) {
  if (s.at == place::state::owned) {
    lose_and_give_back(s, now);
  } else if (s.at == place::state::leaving) {
    owe(s, s.id, nullptr, now);
    become_idle(s);
    on_.env.up.left(s, now);
  } else {
    s.written = true;
    fail(s, why, now);
  }
}

void server::in_line(place& s, std::int64_t left_ms, std::int64_t ticket, time_point now) {
  enter(s, place::state::in_line);
  s.ticket = ticket;
  milliseconds const left{std::clamp<std::int64_t>(left_ms, 0, engine::longest_lease_ms)};
  s.listed_until = now + left + s.lease;
  on_.env.timers.arm(s.check,
                     std::min(check_after(s, left, now),
                              std::max(now + sleep_for(left), s.follow_up)));  // the client that we passed it on to is looked after in any case
}

/// When to ask again behind an owner whose lease ends in `told`. What is known of one owner does not outlive it by much: the first in line are told
/// when the next one's lease ends (told_end), and whoever is told nothing asks after ten claims, whatever it knows.
time_point server::check_after(place const& s, milliseconds told, time_point now) {
  duration const left = sleep_for(told);
  // All waiters behind one lease see the same end of it, so their checks are spread over a third of what is left. If the holder is dead,
  // the first waiter waits for the spread in addition to the lease. So it is never more than the claim, which a dead client in line may
  // cost too. Behind a claim the spread is less: the check after a claim is the one that finds a dead client in line. The line outlives the
  // lock by the lease that was asked for: a later check would find that our place in line is gone.
  duration const spread = left > on_.env.settings.claim ? std::min<duration>(left / 3, on_.env.settings.claim) : left / 10;
  return now + left + on_.pause.jitter(std::min<duration>(spread, s.lease / 2));
}

/// The server's clock may be slower than ours. A check that comes too early is told what is left, and asks again. That costs one request more, but
/// the check is not late by as much as the clocks may differ.
duration server::sleep_for(milliseconds told) const {
  return std::clamp<duration>(told, milliseconds{20}, std::max<duration>(10 * on_.env.settings.claim, milliseconds{20})) + milliseconds{5};
}

std::string server::trouble_of(place const& s) const {
  bool const in_trouble = s.trouble_since != time_point{};  // also of a wait that has just ended: until it asks anew
  if (s.at == place::state::owned || (s.at == place::state::idle && !in_trouble)) return {};
  if (!on_.link.connected()) return on_.link.why_not_connected();
  if (s.at == place::state::asking && !s.written) {
    return "others of this client are asked for before it, and the server has not answered all of them yet";
  }
  if (in_trouble)
    return on_.link.noted().empty() ? on_.link.trouble() : on_.link.noted();  // the server answered "later", or a new connection asks again
  return s.at == place::state::asking ? "the server has not answered yet" : "";
}

/// Silence counts from the last answer: what stands behind many requests of this client is not late for that.
std::string server::silence(time_point now) const {
  if (!on_.link.connected() || in_flight_.empty()) return {};
  duration const silent = now - std::max(in_flight_.front().written, last_answer_);
  if (silent < usual_.soon()) return {};
  return "the server has not answered for " + std::to_string(whole_ms(silent).count()) + " ms";
}

/// It is timed_out while the server answers, and while a first attempt to connect has not lasted for longer than is usual.
error_code server::too_late(engine::place const& of, time_point now) const {
  auto const& s = static_cast<place const&>(of);
  if (std::string const words = silence(now); !words.empty()) return make_error_code(errc::unreachable, words);
  bool const in_vain =
      !on_.link.connected() && (!on_.link.trouble().empty() || (s.trouble_since != time_point{} && now - s.trouble_since >= usual_.soon()));
  return make_error_code(in_vain ? errc::unreachable : errc::timed_out, trouble_of(s));
}

/// The time counts from when the server last answered: a server that takes every connection and answers nothing is not there either.
void server::patience(place& s, time_point now) {
  if (s.trouble_since == time_point{}) s.trouble_since = now;
  on_.env.timers.arm(s.check, s.trouble_since + on_.env.settings.offline_timeout);
}

void server::check(place& s, time_point now) {
  if (s.at == place::state::leaving) {
    // There was no answer within the command time-out, perhaps on several connections. A clean-up goes on with the leave, and a new waiter may ask
    // anew.
    become_idle(s);
    owe(s, s.id, nullptr, now);
    on_.env.up.left(s, now);
    return;
  }
  if (s.at != place::state::asking && s.at != place::state::in_line) return;
  if (!on_.link.connected()) {
    patience(s, on_.link.lost_at());  // go_on may not have come to it since the connection ended
    if (s.check.at() > now) return;
    s.check.cancel();
    fail(s, make_error_code(errc::unreachable, trouble_of(s)), now);
    return;
  }
  bool const stands = s.at == place::state::in_line;
  if (stands) ++on_.env.stats.safety_checks;
  ask_once_more(s, stands ? retry_reason::safety_check : retry_reason::server_busy, now);
}

/// The place that the grant is for. A lock with several owners may have several places here.
place* server::wanted(pushed_grant const& g) {
  place* const by_id = ids_.place_of(g.id);
  return g.kind == permit_kind::none && by_id == nullptr ? made_here(on_.env.up.find(g.name)) : by_id;
}

void server::granted(pushed_grant const& g, time_point now) {
  last_heard_ = now;
  ++on_.env.stats.pushes;
  place* const s = wanted(g);
  if (s == nullptr || s->id != g.id || s->at == place::state::idle) {
    stray(g, now);
    return;
  }
  if (s->at == place::state::owned || s->adopts()) return;  // the one that adopts stands in no line
  if (s->of != this) {
    // Granted before its slot moved, or by one that only believes that it still has it.
    s->of->ask_because_of_push(*s, now);
    return;
  }
  s->by_push = true;
  if (on_.env.settings.verify_pushes) {
    ask_because_of_push(*s, now);
    return;
  }
  if (!fits(*s, g) || !is_plausible(g.fence, now)) {
    ++on_.env.stats.pushes_doubted;
    ask_because_of_push(*s, now);
    return;
  }

  // The lock was not granted before the local time of the clock sample, plus what the server's clock has advanced since. The claim counts
  // for no longer than our own claim. So whatever is false in a message is over by then.
  milliseconds claim = std::min(g.claim, whole_ms(on_.env.settings.claim));
  bool const known = on_.link.clock().can_place(g.granted_us);
  time_point const from = std::min(on_.link.clock().earliest(g.granted_us), now);
  if (known && from + claim - drift_of(claim) - claim / 4 > now) {
    own(*s, g.fence, g.segment, from, claim, false, true, now);
    return;
  }
  // The claim may be over already. To ask again renews it if it is still ours, and otherwise puts us back in our place in line.
  ++on_.env.stats.pushes_late;
  ask_because_of_push(*s, now);
}

/// Does the grant fit the place? It need not come from a script: any client that may publish to our channel, and knows the id, can write
/// one.
bool server::fits(place const& s, pushed_grant const& g) const {
  bool const same_lock = !s.permit || (g.kind == s.permit.kind && g.name == s.name);
  return same_lock && has_segment(s.permit, g.segment);
}

/// A fence is what the server's clock shows. It is one more than the last fence if that clock was set back, or if other clocks run ahead.
/// The guarded resource refuses all lower fences until the clock has passed this one: so the harm of a false fence is over within a claim,
/// too.
bool server::is_plausible(std::int64_t fence, time_point now) const {
  if (!is_usable(fence)) return false;
  if (!on_.link.clock().is_known()) return true;  // without a sample the push is late in any case
  return fence + fence_epoch_us <= on_.link.clock().most_us(now) + std::chrono::duration_cast<microseconds>(on_.env.settings.claim).count();
}

/// Asks again under the same id. This renews the grant if it is ours, and leaves us in our place in line if not. It is asked once, whatever
/// the number of pushes.
void server::ask_because_of_push(place& s, time_point now) {
  if (s.at == place::state::leaving || !on_.link.connected()) return;
  if (std::exchange(s.asks_again, true)) return;
  ask_once_more(s, retry_reason::push_doubted, now);
}

/// Gives back a grant that no waiter here wants any more, unless a release for it is already under way. A release that was refused so far
/// is tried again at once: a server that grants may carry it out now.
void server::stray(pushed_grant const& g, time_point now) {
  ++on_.env.stats.pushes_stray;
  if (strays_since_ == time_point::min() || now - strays_since_ >= std::chrono::seconds{1}) {
    strays_since_ = now;
    strays_ = 0;
  }
  if (++strays_ > strays_per_second) {
    if (!std::exchange(told_of_strays_, true)) {
      on_.env.log.note(false, "too many grants that were not asked for: another user publishes to our channel");
    }
    return;
  }
  server& there = keeper_of(g.name);
  if (cleanup* const c = there.pending_cleanup(g.id); c == nullptr) {
    permit const permit{.kind = g.kind, .weight = 1};
    there.owe(made_here(permit ? on_.env.up.make_permit_place(g.name, permit) : on_.env.up.find_or_make(g.name)), g.id, nullptr, now);
  } else if (!c->sent && there.on_.link.connected()) {
    there.send_cleanup(*c, now);
  }
}

/// The owner of now is not the one that we know of.
void server::told_end(std::string_view name, grant_id id, milliseconds left, time_point now) {
  last_heard_ = now;
  if (auto const found = client_.watchers.find(id); found != client_.watchers.end()) {
    admin_request& i = *found->second;
    if (i.name != name || !i.is_known) return;
    static_cast<server*>(i.at)->watch_for(i, left, now);
    return;
  }
  place* const permit = ids_.place_of(id);
  place* const s = permit != nullptr ? permit : made_here(on_.env.up.find(name));
  if (s == nullptr || s->id != id || s->name != name || s->at != place::state::in_line) return;
  time_point const at = s->of->check_after(*s, left, now);
  if (s->check.armed() && at < s->check.at()) on_.env.timers.arm(s->check, at);
}

/// Our turn came at another server. The server of this connection is its replica now, so the other one counted no subscriber for us. To ask
/// again shows this (READONLY), and leads to a new connection. There the place in line is asked for with the old ticket.
void server::missed(std::string_view name, grant_id id, time_point now) {
  last_heard_ = now;
  place* const permit = ids_.place_of(id);
  place* const s = permit != nullptr ? permit : made_here(on_.env.up.find(name));
  // A place that is still asking learns the same from its next answer.
  if (s == nullptr || s->id != id || s->name != name || s->at != place::state::in_line) return;
  s->of->ask_because_of_push(*s, now);
}

void server::leave_unless_granted(place& s, time_point now) {
  if (!s.written) {
    become_idle(s);
    look_after(s, s.id, now);
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

/// Now, or when there is room.
void server::send_leave(place& s, time_point now) {
  if (may_repeat()) send_leave(s, false, now);
  else postpone(s);
}

void server::send_leave(place& s, bool with_source, time_point now) {
  on_.link.tell(s);
  ++on_.env.stats.scripts;
  s.asks_for_lease();
  out_.send(release_command{s.name, s.id, true, s.lease, claim_of(on_.env.settings, s.lease), retention_of(on_.env.settings, s.lease), 0, with_source,
                            s.terms.floor_asked(), 0, part_of(s), 0, on_.link.runs().is_patient(now, s.patient_until)});
  push_request({request::leave, s.id, 0, &s, nullptr, now});
}

void server::leave_answer(in_flight const& r, answer const& a, time_point now) {
  using kind = release_reply::kind;
  place& s = *r.at;
  release_reply const reply = read_release(a, false, static_cast<bool>(s.permit));
  if (r.moved) {
    if (reply.what != kind::malformed) on_.link.clock().sample(r.written, reply.server_us, now);
    return drop(s);
  }
  bool const left = reply.what == kind::released || reply.what == kind::not_done;
  bool const handed_over = reply.passed_on && reply.more_in_line;
  if (left) seen(s, r);
  if (handed_over) passed_on(s, r.lease, now);
  if (s.id == r.id && (s.at == place::state::leaving || s.at == place::state::owned)) {
    if (a.what == fault::no_script && s.at == place::state::leaving) {
      send_leave(s, source_is_due(r), now);
    } else if (reply.what == kind::malformed) {
      if (a.what == fault::none) on_.link.drop("invalid answer of the release script");
      if (s.at == place::state::leaving) {
        owe(s, s.id, nullptr, now);
        become_idle(s);
        on_.env.up.left(s, now);
      }
    } else if (reply.what == kind::still_owned) {
      on_.link.clock().sample(r.written, reply.server_us, now);
      own(s, reply.fence, reply.segment, r.written, r.lease, s.terms.ticket == 0, s.by_push, now);
    } else if (s.at == place::state::owned) {
      lose(s, now);
    } else {
      on_.link.clock().sample(r.written, reply.server_us, now);
      become_idle(s);
      if (on_.link.earlier().may_echo(on_.link.echo_until(s), r.written)) {
        owe(s, r.id, nullptr, now);  // a request that an older connection still holds may take the place again
      } else {
        look_after(s, r.id, now);
      }
      on_.env.up.left(s, now);
    }
  }
  if (handed_over) look_after(s, r.id, now);
  if (reply.more_to_do) go_on(s, left ? r.id : ids_.next(s), now);
  drop(s);
}

void server::give_up(place& s, receipt* r, time_point now) {
  become_idle(s);
  if (s.written) {
    owe(s, s.id, r, now);
    return;
  }
  look_after(s, s.id, now);
  if (r != nullptr) on_.env.up.released(*r, false, {}, now);
}

void server::ask_again(place& s, time_point now) {
  bool const there = s.at == place::state::asking || s.at == place::state::in_line || s.at == place::state::owned;
  bool const told_to_come_later = s.trouble_since != time_point{};
  if (!on_.link.connected() || !there || told_to_come_later) return;
  if (may_repeat() || s.at == place::state::owned) send_acquire(s, false, now);
  else postpone(s);
}

void server::release(place& s, std::optional<milliseconds> again, receipt* r, time_point now) {
  drop_kick(s);
  grant_id const dead = s.id;
  bool const valid = s.deadline > now;
  become_idle(s);
  ++s.references;
  cleanup& c = owe(s, 0, r, now);
  c.id = dead;
  c.was_valid = valid;
  if (again) {
    // The same script puts the client in line again, behind all others. If this user may not end old connections, a script of its own does
    // so, which carries a not-after. So it does while others connect again: the release may have to wait for them.
    // The release of a lock with several owners knows no new place.
    bool const together = on_.link.connected() && may_send() && on_.link.earlier().can_end() && !on_.link.denied() && !s.permit &&
                          !on_.link.runs().is_patient(now, c.patient_until);
    if (together) {
      enter(s, place::state::asking);
      s.wait = true;
      s.lease = s.longest_lease = *again;
      s.id = ids_.next(s);
      s.run = on_.link.runs().number();
      s.ticket = s.terms.ticket;
      s.written = true;
      s.asks_again = s.by_push = false;
      s.late_until = s.echo_until = s.listed_until = time_point::min();
      s.trouble_since = {};
      active_.push_back(s);
      send_cleanup(c, s.id, false, now);
    } else {
      if (on_.link.connected()) send_cleanup(c, now);
      ask(s, true, *again, now);
    }
  } else if (on_.link.connected()) {
    send_cleanup(c, now);
  }
  drop(s);
}

/// Nothing is owed for it: no clean-up may name this id from now on. A request that an earlier connection still holds can only make its lease
/// longer, or stand in line for a client that gives back what it did not ask for.
void server::detach(engine::place& of_cohort, time_point) {
  place& s = made_here(of_cohort);
  become_idle(s);
}

void server::lose(place& s, time_point now) {
  // If the pushed grant was false, the server never gave it, and our place is still in line.
  bool const may_stand_in_line = s.by_push && !s.confirmed;
  ++on_.env.stats.renewals_refused;
  end_lost(s, may_stand_in_line || on_.link.earlier().may_echo(on_.link.echo_until(s), now), now);
}

void server::lose_and_give_back(place& s, time_point now) {
  ++on_.env.stats.renewals_refused;
  end_lost(s, true, now);
}

/// The holder is told first: the server may carry out what is sent, and grant the lock to another client, before this returns. What is owed is
/// noted before that: whoever waits here asks at once, in the same place and under another id.
void server::end_lost(place& s, bool gives_back, time_point now) {
  become_idle(s);
  ++s.references;
  grant_id const gone = s.id;
  cleanup* const owed = gives_back ? &owe(s, 0, nullptr, now) : nullptr;
  if (owed != nullptr) owed->id = gone;
  on_.env.up.lost(s, now);
  if (owed != nullptr && on_.link.connected()) send_cleanup(*owed, now);
  if (gives_back && owed == nullptr) owe(s, gone, nullptr, now);
  drop(s);
}

}  // namespace conch::protocol
