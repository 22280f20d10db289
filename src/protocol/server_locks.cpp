// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server.hpp"

#include "base/mutant.hpp"

#include <algorithm>
#include <utility>

// One lock at one server: asking, standing in line, being granted, being renewed, being told no.
namespace conch::engine {

namespace {

using std::chrono::microseconds;

bool is_usable(std::int64_t fence) { return fence > 0 && fence < fence_limit; }

/// Of a lock without segments it is 0. Two objects of one name may have been made with different numbers of them.
bool has_segment(permit const& p, std::int64_t segment) {
  if (CONCH_MUTANT(segment_not_compared)) return true;
  return p.kind == permit_kind::segments ? segment >= 1 && segment <= p.limit : segment == 0;
}

error_code no_such_segment(seat const& s, std::int64_t segment) {
  std::string const which = "segment " + std::to_string(segment);
  if (s.part.kind != permit_kind::segments || segment < 1) return to_error(fault::malformed, of_lock(s, "granted " + which));
  return make_error_code(errc::invalid_config,
                         of_lock(s, "granted " + which + ", and this object was made with " + std::to_string(s.part.limit) + " segments"));
}

permit const* part_of(seat const& s) { return s.part ? &s.part : nullptr; }

/// Grants that nobody here waits for, given back in one second. Of our own doing there is one now and then; whoever may publish can send
/// any number. One that is not given back goes on to the next in line when its claim is over.
constexpr int strays_per_second = 100;

/// Locks in one renewal script. It bounds how long the script keeps the server from everybody else: about 0.2 ms.
constexpr std::size_t renewals_per_script = 200;

}  // namespace

void server::ask(seat& s, bool wait, milliseconds lease, time_point now) {
  drop_kick(s);
  s.keeper = this;
  s.at = seat::state::asking;
  s.wait = wait;
  s.lease = lease;
  dismiss(s);
  s.id = next_id(s);
  s.run = run_;
  if (s.part) parts_.emplace(s.id, &s);
  s.ticket = s.vote;
  s.written = s.asks_again = s.by_push = false;
  s.late_until = s.echo_until = time_point::min();
  s.trouble_since = {};
  bool const others_first = !resting_.empty() && !failing_;  // they asked earlier
  (others_first ? resting_ : active_).push_back(s);
  if (denied_) {
    fail(s, denied_, now);
    out_.drop_connection("denied so far; the next connection shows whether it still is");
  } else if (connected_ && others_first) {
    s.told_on = 0;
  } else if (connected_) {
    send_acquire(s, false, now);
  } else {
    patience(s, now);
    out_.want_connection();
  }
}

/// What asks for it is being written.
void server::about_to_ask(seat& s, std::int64_t not_after_us) {
  s.written = true;
  tell(s);
  s.check.cancel();
  if (not_after_us == 0) return;
  s.late_until = std::max(s.late_until, server_has_passed(not_after_us));
}

void server::send_acquire(seat& s, bool with_source, time_point now) {
  if (gathering_ && !s.wait && s.vote == 0 && !s.part) {
    gathered_.push_back(&s);
    return;
  }
  ++stats_.scripts;
  std::int64_t const not_after_us = not_after(now);
  std::int64_t const proposal = s.vote != 0 ? s.floor + 1 : 0;
  about_to_ask(s, not_after_us);
  out_.send(acquire_command{s.name, s.id, s.wait, s.lease, whole_ms(settings_.claim),
                            retention(s.lease), CONCH_MUTANT(ticket_forgotten) || (CONCH_MUTANT(no_ticket_shown_again) && s.at == seat::state::in_line) ? 0 : s.ticket,
                            not_after_us, with_source, proposal, part_of(s), is_patient(now)});
  in_flight asked{request::acquire, s.id, 0, &s, nullptr, now};
  asked.proposal = proposal;
  push_request(asked);
}

void server::acquire_answer(in_flight const& r, answer const& a, time_point now) {
  seat& s = *r.at;
  // Also where nobody waits for this answer any more.
  bool const has_fifth = a.what == fault::none && a.numbers.size() == 5;
  bool const handed_over = has_fifth && a.numbers[0] != 1 && (a.numbers[4] & passed_on_flag) != 0;
  bool const unfinished = has_fifth && a.numbers[0] == 1 && (a.numbers[4] & unfinished_flag) != 0;
  if (a.what == fault::none) seen(s, r);
  if (handed_over && !CONCH_MUTANT(asker_does_not_look)) passed_on(s, now);
  if ((s.id == r.id || CONCH_MUTANT(any_answer_counts)) && s.at != seat::state::idle) {  // an answer for any other id grants nothing
    bool const waits = s.at == seat::state::asking || s.at == seat::state::in_line;
    s.asks_again = s.asks_again && waits && a.what == fault::no_script;  // which is asked once more
    if (a.what == fault::no_script) {
      if (waits) send_acquire(s, source_is_due(r), now);
    } else if (a.what != fault::none) {
      if (waits) acquire_fault(s, a, now);
    } else if (a.numbers.size() == 1) {
      // The usual grant: its fence says what the server's clock showed, or is the one that we proposed.
      std::int64_t const told = a.numbers[0];
      sample(r.written, told < 0 ? -told : told + fence_epoch_us, now);
      std::int64_t const result[] = {1, told < 0 ? r.proposal : told, 0};
      ask_result(s, r, result, now);
    } else if (a.numbers.size() < 3) {
      out_.drop_connection("an answer of the acquire script that is too short");
    } else {
      sample(r.written, a.numbers[2], now);
      if (a.numbers.size() > 6) s.seen = {a.numbers[4], a.numbers[5], a.numbers[6] != 0, r.written};
      std::int64_t const result[] = {a.numbers[0], a.numbers[1], a.numbers.size() > 3 ? a.numbers[3] : 0};
      ask_result(s, r, result, now);
    }
  }
  if (handed_over) look_after(s, r.id, now);
  if (unfinished) go_on(s, next_id(s), now);
  drop(s);
}

/// `result`: 1 fence segment · 0 left ticket · 2 left · 3 · 4 0 ticket
void server::ask_result(seat& s, in_flight const& r, std::span<std::int64_t const> result, time_point now) {
  if (result[0] != 3) s.trouble_since = {};  // that one was not carried out
  switch (result[0]) {
    case 1: own(s, result[1], result[2], CONCH_MUTANT(deadline_from_answer) ? now : r.written,
                CONCH_MUTANT(lease_of_the_next) ? s.lease : r.lease, s.vote == 0, s.by_push, now); return;
    case 0:
      s.by_push = false;
      if (s.at == seat::state::owned) {
        lose_and_give_back(s, now);  // the claim we were pushed is over, and the question put us in line again
      } else if (s.at == seat::state::leaving) {
        s.ticket = result[2];
      } else {
        in_line(s, result[1], result[2], now);
        up_.queued(s, now);
      }
      return;
    case 2:
      if (s.at == seat::state::leaving) return;  // its own answer follows
      s.at = seat::state::idle;
      s.unlink();
      s.check.cancel();
      if (may_echo(echo_until(s), r.written)) {
        owe(s, s.id, nullptr, now);
      } else {
        look_after(s, s.id, now);
      }
      up_.busy(s, now);
      return;
    case 3:
      if (s.at == seat::state::asking || s.at == seat::state::in_line) send_acquire(s, false, now);
      return;
    case 4:
      // Not known yet: the next script goes on. Whoever leaves meanwhile has that from the answer to its leave.
      if (s.at == seat::state::owned) {
        lose_and_give_back(s, now);  // as in 0
      } else if (s.at == seat::state::leaving) {
        s.ticket = result[2];
      } else {
        s.ticket = s.wait ? result[2] : s.ticket;
        if (CONCH_MUTANT(unfinished_is_busy)) {
          in_line(s, settings_.claim.count() / 1'000'000, result[2], now);
        } else {
          send_acquire(s, false, now);
        }
      }
      return;
    default: out_.drop_connection("an answer of the acquire script that makes no sense"); return;
  }
}

void server::own(seat& s, std::int64_t fence, std::int64_t segment, time_point from, duration lease, bool confirmed, bool pushed,
                 time_point now) {
  if (!is_usable(fence)) {
    refuse_grant(s, to_error(fault::malformed, of_lock(s, "its last fence leaves no room for another")), now);
    return;
  }
  if (s.at != seat::state::owned && !has_segment(s.part, segment)) {
    refuse_grant(s, no_such_segment(s, segment), now);
    return;
  }
  time_point const deadline = from + lease - (CONCH_MUTANT(no_drift) ? duration{} : drift_of(lease));
  if (s.at == seat::state::owned && fence != s.fence) {
    lose_and_give_back(s, now);  // what we were granted was over, and perhaps another's, before this was granted
    return;
  }
  if (s.at == seat::state::owned) {
    if (deadline > s.deadline) {
      s.deadline = deadline;
      s.valid_from = from;
    }
    s.confirmed = s.confirmed || confirmed;
    up_.extended(s, now);
    return;
  }
  if (deadline <= now && !CONCH_MUTANT(late_grant_used)) {
    // Granted too long ago to be used. It is given back, and asked for anew.
    bool const wait = s.wait;
    bool const asked = s.at != seat::state::leaving;
    milliseconds const again = s.lease;
    owe(s, s.id, nullptr, now);
    s.at = seat::state::idle;
    s.unlink();
    s.check.cancel();
    if (asked) {
      ask(s, wait, again, now);
    } else {
      up_.left(s, now);
    }
    return;
  }
  s.at = seat::state::owned;
  s.check.cancel();
  if (!s.part) s.follow_up = time_point::max();  // of a lock with several owners another part was passed on
  s.fence = fence;
  s.segment = static_cast<std::uint32_t>(segment);
  s.fence_until = pushed ? from : from + settings_.fence_retention + lease;  // whoever passed it on may keep fences for less
  s.deadline = deadline;
  s.valid_from = from;
  s.confirmed = confirmed;
  s.renewing = false;
  if (s.follow_up != time_point::max()) look_after(s, next_id(s), now);
  up_.granted(s, pushed, now);
}

/// No token can be made of its fence, or nobody knows what its segment is. That fails this lock alone, and what was granted is given back.
void server::refuse_grant(seat& s, error_code why, time_point now) {
  if (CONCH_MUTANT(bad_fence_drops_connection)) {
    out_.drop_connection("a fence that is out of range");
  } else if (s.at == seat::state::owned) {
    lose_and_give_back(s, now);
  } else if (s.at == seat::state::leaving) {
    owe(s, s.id, nullptr, now);
    s.at = seat::state::idle;
    s.unlink();
    s.check.cancel();
    up_.left(s, now);
  } else {
    s.written = true;
    fail(s, why, now);
  }
}

void server::in_line(seat& s, std::int64_t left_ms, std::int64_t ticket, time_point now) {
  s.at = seat::state::in_line;
  if (CONCH_MUTANT(no_safety_check)) return;
  if (CONCH_MUTANT(polls)) left_ms = 20;
  s.ticket = ticket;
  // Early by the server's clock, which may be slower than ours, it is told what is left and asks again: one question more, in place
  // of being late by as much as the clocks might differ.
  auto const left = milliseconds{std::clamp<std::int64_t>(left_ms, 20, 86'400'000)};
  // All who wait behind one lease see the same end of it: they are spread over a third of what is left. But the holder may be dead,
  // and then this is what the first of them adds to its lease: never more than the claim, which a dead client in line may cost too.
  // Behind a claim they are spread less: it is one that is over which finds a dead client in line.
  // And the line outlives the lock by what was asked for: a later check would find that we are not in it any more.
  duration const spread = left > settings_.claim ? std::min<duration>(left / 3, settings_.claim) : left / 10;
  time_point const over = now + left + milliseconds{5};
  time_point const at = over + jitter(std::min<duration>(spread, s.lease / 2));
  timers_.arm(s.check, std::min(at, std::max(over, s.follow_up)));  // whom we passed it on to is looked after in any case
}

std::string server::trouble_of(seat const& s) const {
  if (s.at == seat::state::idle || s.at == seat::state::owned) return {};
  if (!connected_) return trouble_.empty() ? "there is no connection yet" : trouble_;
  if (s.at != seat::state::asking) return {};
  if (s.trouble_since == time_point{}) return "the server has not answered yet";
  return noted_.empty() ? trouble_ : noted_;  // told to come later; or it is asked anew, by a new connection
}

error_code server::too_late(seat const& s) const {
  bool const unreachable = !connected_ && !trouble_.empty();
  return make_error_code(unreachable ? errc::unreachable : errc::timed_out, trouble_of(s));
}

/// Counted from when the server last answered: one that takes every connection and answers nothing is not there either.
void server::patience(seat& s, time_point now) {
  if (s.trouble_since == time_point{}) s.trouble_since = now;
  timers_.arm(s.check, s.trouble_since + settings_.offline_timeout);
}

void server::check(seat& s, time_point now) {
  if (s.at == seat::state::leaving && !connected_) {
    // No answer within a command time-out: from here on it is a clean-up's business, and whoever comes may ask anew.
    s.at = seat::state::idle;
    s.unlink();
    owe(s, s.id, nullptr, now);
    up_.left(s, now);
    return;
  }
  if (s.at != seat::state::asking && s.at != seat::state::in_line) return;
  if (!connected_) {
    patience(s, lost_at_);  // its turn after the end of the connection may not have come
    if (s.check.at() > now) return;
    s.check.cancel();
    fail(s, make_error_code(errc::unreachable, trouble_of(s)), now);
    return;
  }
  if (s.at == seat::state::in_line) ++stats_.safety_checks;
  send_acquire(s, false, now);
}

/// Who waits under that id. A lock with several owners may have several here.
seat* server::wanted(pushed_grant const& g) {
  return g.kind == permit_kind::none ? up_.find(g.name) : wanted_part(g.id);
}

seat* server::wanted_part(grant_id id) const {
  auto const found = parts_.find(id);
  return found == parts_.end() ? nullptr : found->second;
}

void server::dismiss(seat& s) noexcept {
  auto const known = parts_.find(s.id);
  if (known != parts_.end() && known->second == &s) parts_.erase(known);
}

void server::granted(pushed_grant const& g, time_point now) {
  last_heard_ = now;
  ++stats_.pushes;
  seat* const s = wanted(g);
  if (s == nullptr || s->id != g.id || s->at == seat::state::idle) {
    stray(g, now);
    return;
  }
  if (s->at == seat::state::owned) return;
  s->by_push = true;
  if (settings_.verify_pushes && !CONCH_MUTANT(push_not_verified)) {
    ask_because_of_push(*s, now);
    return;
  }
  if (!fits(*s, g) || !is_plausible(g.fence, now)) {
    ++stats_.pushes_doubted;
    ask_because_of_push(*s, now);
    return;
  }

  // When was it granted, by our clock? Not before the sample was asked for, plus what the server's clock went since. And for no longer than
  // we would have passed it on for ourselves: whatever a message says, what is false about it is over by then.
  milliseconds claim = CONCH_MUTANT(pushed_claim_believed) ? g.claim : std::min(g.claim, whole_ms(settings_.claim));
  bool const known = sample_us_ != 0 && g.granted_us >= sample_us_;
  time_point const shown = sample_at_ + microseconds{g.granted_us - sample_us_} * 99 / 100;
  time_point const from = CONCH_MUTANT(claim_from_arrival) ? now : std::min(shown, now);
  if (CONCH_MUTANT(claim_of_receiver)) claim = whole_ms(settings_.claim);
  if (CONCH_MUTANT(late_grant_used) || (known && from + claim - drift_of(claim) - claim / 4 > now)) {
    own(*s, g.fence, g.segment, from, CONCH_MUTANT(claim_is_lease) ? s->lease : claim, false, true, now);
    return;
  }
  // It may be over already. Asking again renews it if it is still ours, and puts us back in our place if not.
  ++stats_.pushes_late;
  ask_because_of_push(*s, now);
}

/// A message need not come from a script: whoever may publish to our channel, and knows the id, can write one.
bool server::fits(seat const& s, pushed_grant const& g) const {
  bool const same_lock = !s.part || (g.kind == s.part.kind && g.name == s.name) || CONCH_MUTANT(pushed_part_not_compared);
  return same_lock && has_segment(s.part, g.segment);
}

/// A fence is what the server's clock shows, or one more than the last where that clock was set back or others run ahead. The guarded
/// resource refuses everybody until the clock has passed it: a false one, too, is over within a claim.
bool server::is_plausible(std::int64_t fence, time_point now) const {
  if (!is_usable(fence)) return false;
  if (sample_us_ == 0 || CONCH_MUTANT(pushed_fence_believed)) return true;  // without a sample it is too late in any case
  auto const shown = sample_us_ + std::chrono::duration_cast<microseconds>(now - sample_at_).count() * 101 / 100;
  return fence + fence_epoch_us <= shown + std::chrono::duration_cast<microseconds>(settings_.claim).count();
}

/// Under the same id, which renews it if it is ours, and leaves us in our place if not. Once, whatever the number of pushes.
void server::ask_because_of_push(seat& s, time_point now) {
  if (s.at == seat::state::leaving || !connected_) return;
  if (std::exchange(s.asks_again, true)) return;
  send_acquire(s, false, now);
}

/// Nobody wants it any more. It goes on to the next in line, unless a release for it is already under way. One that was
/// refused so far is worth another try at once: the server does grant.
void server::stray(pushed_grant const& g, time_point now) {
  ++stats_.pushes_stray;
  if (CONCH_MUTANT(stray_grant_kept)) return;
  if (strays_since_ == time_point::min() || now - strays_since_ >= std::chrono::seconds{1}) {
    strays_since_ = now;
    strays_ = 0;
  }
  if (++strays_ > strays_per_second) {
    if (!std::exchange(told_of_strays_, true)) {
      log_.note(false, "more grants that nobody asked for than are given back: somebody else publishes to our channel");
    }
    return;
  }
  if (cleanup* const c = owed(g.id); c == nullptr) {
    permit const part{.kind = g.kind, .weight = 1};
    owe(part ? up_.make_part(g.name, part) : up_.find_or_make(g.name), g.id, nullptr, now);
  } else if (!c->sent && connected_) {
    send_cleanup(*c, 0, false, now);
  }
}

/// Our turn came at another server: ours is its replica now, and counted nobody for us. Asking again shows it (READONLY), and
/// leads to a new connection, where the place in line is asked for with the old ticket.
void server::missed(std::string_view name, grant_id id, time_point now) {
  last_heard_ = now;
  seat* const part = wanted_part(id);
  seat* const s = part != nullptr ? part : up_.find(name);
  // Whoever is still asking learns the same from the answer that is due.
  if (s == nullptr || s->id != id || s->name != name || s->at != seat::state::in_line || CONCH_MUTANT(missed_turn_ignored)) return;
  ask_because_of_push(*s, now);
}

void server::leave_unless_granted(seat& s, time_point now) {
  if (!s.written) {
    s.at = seat::state::idle;
    s.unlink();
    s.check.cancel();
    look_after(s, s.id, now);
    up_.left(s, now);
    return;
  }
  s.at = seat::state::leaving;
  if (connected_) {
    send_leave(s, false, now);
  } else {
    timers_.arm(s.check, now + settings_.command_timeout);
  }
}

void server::send_leave(seat& s, bool with_source, time_point now) {
  s.check.cancel();
  tell(s);
  ++stats_.scripts;
  out_.send(release_command{s.name, s.id, true, s.lease, whole_ms(settings_.claim),
                            retention(s.lease), 0, with_source,
                            s.floor_asked(), 0, part_of(s), 0, is_patient(now)});
  push_request({request::leave, s.id, 0, &s, nullptr, now});
}

void server::leave_answer(in_flight const& r, answer const& a, time_point now) {
  seat& s = *r.at;
  bool const left = a.what == fault::none && a.numbers.size() >= 4 && a.numbers[0] != 2;
  bool const handed_over = left && (a.numbers[1] & passed_on_flag) != 0 && a.numbers[2] != 0;
  bool const unfinished = a.what == fault::none && ((left && (a.numbers[1] & unfinished_flag) != 0) || (a.numbers.size() == 5 && a.numbers[0] == 2));
  if (left) seen(s, r);
  if (handed_over) passed_on(s, now);
  if (s.id == r.id && (s.at == seat::state::leaving || s.at == seat::state::owned)) {
    if (a.what == fault::no_script && s.at == seat::state::leaving) {
      send_leave(s, source_is_due(r), now);
    } else if (a.what != fault::none || a.numbers.size() < 4) {
      if (a.what == fault::none) out_.drop_connection("an answer of the release script that is too short");
      if (s.at == seat::state::leaving) {
        owe(s, s.id, nullptr, now);
        s.at = seat::state::idle;
        s.unlink();
        up_.left(s, now);
      }
    } else if (a.numbers[0] == 2 && !CONCH_MUTANT(grant_missed_in_leave)) {
      sample(r.written, a.numbers[3], now);
      own(s, a.numbers[1], s.part ? a.numbers[2] : 0, r.written, r.lease, s.vote == 0, s.by_push, now);
    } else if (s.at == seat::state::owned) {
      lose(s, now);
    } else {
      sample(r.written, a.numbers[3], now);
      s.at = seat::state::idle;
      s.unlink();
      if (may_echo(echo_until(s), r.written)) {
        owe(s, r.id, nullptr, now);  // what an older connection still holds may take the place again
      } else {
        look_after(s, r.id, now);
      }
      up_.left(s, now);
    }
  }
  if (handed_over) look_after(s, r.id, now);
  if (unfinished) go_on(s, left ? r.id : next_id(s), now);
  drop(s);
}

void server::give_up(seat& s, receipt* r, time_point now) {
  s.at = seat::state::idle;
  s.unlink();
  s.check.cancel();
  if (s.written && !CONCH_MUTANT(no_leave)) {
    owe(s, s.id, r, now);
    return;
  }
  look_after(s, s.id, now);
  if (r != nullptr) up_.released(*r, false, {}, now);
}

void server::ask_again(seat& s, time_point now) {
  bool const there = s.at == seat::state::asking || s.at == seat::state::in_line || s.at == seat::state::owned;
  bool const told_to_come_later = s.trouble_since != time_point{};
  if (connected_ && there && !told_to_come_later) send_acquire(s, false, now);
}

void server::release(seat& s, std::optional<milliseconds> again, receipt* r, time_point now) {
  drop_kick(s);
  grant_id const dead = s.id;
  bool const valid = s.deadline > now;
  s.at = seat::state::idle;
  s.unlink();
  s.renewing = false;
  ++s.references;
  cleanup& c = owe(s, 0, r, now);
  c.id = dead;
  c.was_valid = valid;
  if (again) {
    // In line again behind everybody, in the same script; without the right to end old connections, in one of its own,
    // which carries a not-after, and while others connect again: the release may have to wait for them.
    bool const together = connected_ && can_kill_ && !denied_ && !is_patient(now, c.patient_until);
    if (together) {
      s.at = seat::state::asking;
      s.wait = true;
      s.lease = *again;
      if (!CONCH_MUTANT(id_used_again)) s.id = next_id(s);
      s.run = run_;
      s.ticket = s.vote;
      s.written = true;
      s.asks_again = s.by_push = false;
      s.late_until = s.echo_until = time_point::min();
      s.trouble_since = {};
      active_.push_back(s);
      send_cleanup(c, s.id, false, now);
    } else {
      if (connected_) send_cleanup(c, 0, false, now);
      ask(s, true, *again, now);
    }
  } else if (connected_) {
    send_cleanup(c, 0, false, now);
  }
  drop(s);
}

void server::lose(seat& s, time_point now) {
  s.at = seat::state::idle;
  s.unlink();
  s.renewing = false;
  ++stats_.renewals_refused;
  ++s.references;
  grant_id const gone = s.id;
  time_point const echo = echo_until(s);
  // A grant that nobody gave us, whoever published it, has left our place in line.
  bool const may_stand_in_line = s.by_push && !s.confirmed;
  up_.lost(s, now);
  if (may_echo(echo, now) || may_stand_in_line) owe(s, gone, nullptr, now).echo_until = echo;
  drop(s);
}

/// The holder is told first: what is sent may be carried out, and another granted, before this returns.
void server::lose_and_give_back(seat& s, time_point now) {
  grant_id const over = s.id;
  ++s.references;
  s.by_push = false;  // what follows leaves the line
  lose(s, now);
  owe(s, over, nullptr, now);
  drop(s);
}

void server::renew(std::span<seat* const> seats, time_point now) {
  if (!connected_) return;
  send_renewals(seats, false, now);
}

void server::send_renewals(std::span<seat* const> seats, bool with_source, time_point now) {
  for (bool const parts : {false, true}) {
    for (bool const keep_fences : {false, true}) send_renewals_of(seats, parts, keep_fences, with_source, now);
  }
}

/// A fence is kept for the retention and the lease from the grant on: longer than most holds last. One that lasts sees to it that, when it
/// ends, by itself or because we are gone, half of the retention is left at least. That is every five minutes with the defaults.
bool server::fence_is_due(seat const& s, time_point now) const {
  if (CONCH_MUTANT(fence_of_long_hold_forgotten)) return false;
  return now + s.lease + settings_.fence_retention / 2 > s.fence_until;
}

void server::send_renewals_of(std::span<seat* const> seats, bool parts, bool keep_fences, bool with_source, time_point now) {
  std::vector<renewed> batch;
  milliseconds longest{};
  scratch_.clear();
  auto const flush = [&] {
    if (batch.empty()) return;
    ++stats_.scripts;
    ++stats_.renewal_scripts;
    bool const votes = batch.front().at->vote != 0;  // then all are
    if (votes) {
      out_.send(confirm_command{scratch_, retention(longest), with_source, keep_fences});
    } else {
      out_.send(renew_command{scratch_, with_source, parts, keep_fences ? retention(longest) : milliseconds{}});
    }
    renewing_.push_back(std::move(batch));
    in_flight asked{votes ? request::confirm : request::renew, 0, 0, nullptr, nullptr, now};
    if (parts) asked.of = script::permit_renew;
    push_request(asked);
    batch = {};
    scratch_.clear();
  };
  std::size_t asked = 0;
  for (seat* s : seats) {
    if (CONCH_MUTANT(second_batch_forgotten) && ++asked > renewals_per_script) s->renewing = true;
    if (static_cast<bool>(s->part) != parts || fence_is_due(*s, now) != keep_fences) continue;
    // Looked up at the moment of writing: what was released, cancelled or lost since is not renewed.
    bool const may = s->may_renew(now, CONCH_MUTANT(lost_is_renewed));
    if (s->at != seat::state::owned || !may || s->renewing) continue;
    s->renewing = true;
    tell(*s);
    ++s->references;
    std::int64_t const floor = s->floor_asked();
    scratch_.push_back({s->name, s->id, s->lease, floor});
    batch.push_back({s, s->id, s->lease, floor, keep_fences});
    longest = std::max(longest, s->lease);
    if (batch.size() == renewals_per_script) flush();
  }
  flush();
}

void server::renew_answer(in_flight const& r, answer const& a, time_point now) {
  std::vector<renewed> const batch = std::move(renewing_.front());
  renewing_.pop_front();
  std::size_t const each = r.what == request::confirm ? 2 : 1;  // numbers for each lock
  bool const usable = a.what == fault::none && a.numbers.size() == each * batch.size() + 1;
  if (a.what == fault::none && !usable) out_.drop_connection("an answer of the renew script that has the wrong length");
  if (usable) sample(r.written, a.numbers[0], now);

  std::vector<seat*> again;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    seat& s = *batch[i].at;
    if (s.id != batch[i].id || s.at != seat::state::owned) continue;
    s.renewing = false;
    std::int64_t const result = usable ? a.numbers[each * i + 1] : -1;
    if (a.what == fault::no_script) {
      again.push_back(&s);
    } else if (result < 0 && !CONCH_MUTANT(failed_renewal_is_a_loss)) {
      up_.renewal_failed(s, now);
    } else if (result <= 0) {
      lose(s, now);
    } else {
      ++stats_.renewals;
      if (batch[i].keeps_fence) s.fence_until = r.written + settings_.fence_retention + batch[i].lease;
      if (each == 2) {
        s.accepted = batch[i].floor;
        s.refused_by = result == 2 ? a.numbers[2 * i + 2] : 0;
      }
      own(s, s.fence, s.segment, r.written, batch[i].lease, true, false, now);
    }
  }
  if (a.what == fault::reconnect) out_.drop_connection(a.words);
  if (!again.empty()) send_renewals(again, source_is_due(r), now);
  for (renewed const& one : batch) drop(*one.at);
}

}  // namespace conch::engine
