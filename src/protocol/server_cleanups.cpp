// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server.hpp"

#include "base/mutant.hpp"

#include <algorithm>

// What is owed to the server: releases and leaves until they are answered, and the one repetition of a release whose
// heir may be dead.
namespace conch::engine {

/// With an id of 0 the caller sends it; else it goes out as soon as it can.
cleanup& server::owe(seat& s, grant_id id, receipt* r, time_point now) {
  drop_kick(s);
  auto* const c = new cleanup{s, id, this, [](void* self, time_point at) {
                                auto& due = *static_cast<cleanup*>(self);
                                static_cast<server*>(due.server_of)->cleanup_due(due, at);
                              }};
  ++s.references;
  ++cleanups_;
  c->late_until = s.late_until;
  c->echo_until = echo_until(s);
  // Whoever was in line before the server's role changed may not have noticed: it is told when its turn comes, and waited for.
  if (s.run != run_ && !CONCH_MUTANT(awaited_at_first_only)) c->patient_until = now + time_to_greet;
  c->floor = s.floor_asked();
  c->ahead = s.ahead;
  c->over = forgotten_by(s, now);
  c->whom = r;
  if (r != nullptr) r->pending = c;
  owed_.push_back(*c);
  timers_.arm(c->due, c->over);
  if (id != 0 && connected_) send_cleanup(*c, 0, false, now);
  return *c;
}

/// When the server has forgotten by itself what was carried out until now: after the lock's lease, or the longest this client asks for.
/// Nothing of ours is renewed after this.
time_point server::forgotten_by(seat const& s, time_point now) const {
  auto const lease = std::max<duration>(s.lease, settings_.lease);
  return now + lease + drift_of(lease) + settings_.command_timeout;
}

void server::send_cleanup(cleanup& c, grant_id new_id, bool with_source, time_point now) {
  c.sent = true;
  if (c.is_kick) ++stats_.kicks;
  ++stats_.scripts;
  out_.send(release_command{c.lock->name, c.id, false, c.lock->lease, whole_ms(settings_.claim),
                            retention(c.lock->lease), new_id, with_source, c.floor, c.ahead,
                            c.lock->part ? &c.lock->part : nullptr, 0, is_patient(now, c.patient_until)});
  push_request({request::cleanup, c.id, new_id, c.lock, &c, now});
}

void server::cleanup_answer(in_flight const& r, answer const& a, time_point now) {
  cleanup& c = *r.owed;
  seat& s = *r.at;
  c.sent = false;
  bool const same_seat = r.new_id != 0 && s.id == r.new_id && s.at != seat::state::idle;

  std::int64_t const of_the_owner[] = {1, 0, 0, 0};  // the usual answer, spelt out; no sample of the clock
  bool const usual = a.numbers.size() == 1 && a.numbers[0] == 1;
  std::span<std::int64_t const> const numbers = usual ? of_the_owner : a.numbers;

  constexpr std::int64_t not_done = 3;
  bool const unfinished = a.what == fault::none && numbers.size() >= 4 && numbers[0] != not_done && (numbers[1] & unfinished_flag) != 0;
  if (a.what == fault::none && numbers.size() >= 4 && numbers[0] == not_done) {
    // The first in line has not connected again yet. It is still ours: once more in a moment. Whoever gives it back need not wait.
    sample(r.written, numbers[3], now);
    tell_released(c, true, now);
    if (same_seat && s.at == seat::state::asking) send_acquire(s, false, now);
    timers_.arm(c.due, std::min(c.over, now + milliseconds{10} + jitter(milliseconds{10})));
  } else if (a.what == fault::none && numbers.size() >= (r.new_id != 0 ? 6u : 4u)) {
    sample(r.written, numbers[3], now);
    bool const was_mine = numbers[0] == 1 || CONCH_MUTANT(release_says_held) || (c.resent && c.was_valid && !CONCH_MUTANT(repeated_release_fails));
    seen(s, r);
    // In line again it is itself one of those that wait.
    bool const more = numbers[2] != 0 || s.at == seat::state::in_line;
    if ((numbers[1] & passed_on_flag) != 0 && more && !(c.is_kick && CONCH_MUTANT(kick_not_followed))) passed_on(s, now);
    if (same_seat) {
      std::int64_t const result[] = {numbers[4], numbers[5], numbers.size() > 6 ? numbers[6] : 0};
      ask_result(s, r, result, now);
    }
    if (unfinished && !c.is_kick && !CONCH_MUTANT(unfinished_forgotten)) {
      // It is given back, and there were more dead in line, or more to be let in, than one script does. The same again at once goes on
      // from there; nobody waits for that.
      tell_released(c, was_mine, now);
      c.over = std::max(c.over, now + settings_.command_timeout);
      timers_.arm(c.due, c.over);
      send_cleanup(c, 0, false, now);
    } else if (may_echo(c.echo_until, r.written) && !CONCH_MUTANT(cleanup_not_once_more)) {
      // What an older connection still holds is refused from then on; whatever it does before that ends then.
      tell_released(c, was_mine, now);
      c.over = std::max(c.over, c.echo_until + settings_.command_timeout);
      // Earlier if it passed the lock on: sent again it also looks after the next owner.
      bool const looks = s.follow_up != time_point::max();
      timers_.arm(c.due, looks ? std::min(c.echo_until, std::max(s.follow_up, now + settings_.claim)) : c.echo_until);
    } else {
      grant_id const id = c.id;
      finish(c, was_mine, {}, now);
      if (unfinished) {
        go_on(s, id, now);
      } else {
        look_after(s, id, now);
      }
    }
  } else if (a.what == fault::no_script) {
    // A leave that was written meanwhile has been carried out already: the place must not be taken after it.
    bool const still_asks = same_seat && (s.at == seat::state::asking || s.at == seat::state::in_line);
    send_cleanup(c, still_asks || (same_seat && CONCH_MUTANT(requeued_after_leave)) ? r.new_id : 0, source_is_due(r), now);
  } else {
    if (a.what == fault::none) {
      c.resent = true;  // it was carried out, whatever it answered
      out_.drop_connection("an answer of the release script that is too short");
    }
    if (a.what == fault::reconnect) out_.drop_connection(a.words);
    if (same_seat && (s.at == seat::state::asking || s.at == seat::state::in_line)) acquire_fault(s, a, now);
    bool const hopeless = a.what == fault::wrong_type || a.what == fault::access_denied || a.what == fault::malformed;
    if (hopeless || CONCH_MUTANT(refused_cleanup_dropped)) {
      errc const why = a.what == fault::wrong_type      ? errc::wrong_type
                       : a.what == fault::access_denied ? errc::access_denied
                                                        : errc::protocol;
      finish(c, false, make_error_code(why, of_lock(s, a.words)), now);
    } else {
      ++c.refusals;
      auto const pause = milliseconds{25} * (1u << std::min(c.refusals, 6u));
      timers_.arm(c.due, std::min(c.over, now + pause + jitter(pause)));
    }
  }
  drop(s);
}

/// Whoever gives it back need not wait for what follows.
void server::tell_released(cleanup& c, bool was_mine, time_point now) {
  if (c.whom == nullptr) return;
  receipt& whom = *c.whom;
  forget(whom);
  up_.released(whom, was_mine, {}, now);
}

/// A script has told that there was more to do: a release under an id that is dead does it, again and again until there is no more.
void server::go_on(seat& s, grant_id dead, time_point now) {
  if (!CONCH_MUTANT(unfinished_forgotten)) owe(s, dead, nullptr, now);
}

void server::cleanup_due(cleanup& c, time_point now) {
  if (c.is_kick) {
    if (c.over <= now) {
      if (!c.sent) finish(c, false, {}, now);
    } else if (connected_ && !c.sent) {
      send_cleanup(c, 0, false, now);
    }  // without a connection it is sent on the next
  } else if (c.over <= now && !c.sent && !connected_ && may_arrive_late()) {
    // Nobody waits for it any more, but it goes out once more when that connection has been ended.
    if (c.whom != nullptr) {
      receipt& whom = *c.whom;
      forget(whom);
      up_.released(whom, c.was_valid, make_error_code(errc::unreachable), now);
    }
    c.lapsed = true;
    ++lapsed_;
  } else if (c.over <= now && !c.sent) {
    finish(c, c.was_valid, c.whom != nullptr ? make_error_code(errc::unreachable) : error_code{}, now);
  } else if (c.over <= now) {
    timers_.arm(c.due, now + settings_.command_timeout);
  } else {
    if (connected_ && !c.sent) send_cleanup(c, 0, false, now);
    timers_.arm(c.due, c.over);
  }
}

void server::finish(cleanup& c, bool was_mine, error_code why, time_point now) {
  seat& s = *c.lock;
  receipt* const whom = c.whom;
  if (whom != nullptr) forget(*whom);
  if (c.is_kick) {
    if (s.kick == &c) s.kick = nullptr;
    if (s.follow_up <= now) s.follow_up = time_point::max();
  } else {
    --cleanups_;
  }
  if (c.lapsed) --lapsed_;
  delete &c;
  if (whom != nullptr) up_.released(*whom, was_mine, why, now);
  drop(s);
}

void server::forget(receipt& r) noexcept {
  if (r.pending != nullptr) r.pending->whom = nullptr;
  r.pending = nullptr;
}

/// One that was refused has had its answer, and is repeated in the background.
time_point server::late_after(receipt const& r) const {
  bool const on_its_way = r.pending != nullptr && r.pending->sent && r.pending->refusals == 0 && connected_;
  return on_its_way ? last_answer_ + settings_.command_timeout : time_point::min();
}

/// What was written after the claim was over has shown, or has done, what there was to do about the new owner.
void server::seen(seat& s, in_flight const& r) {
  if (r.written >= s.follow_up) s.follow_up = time_point::max();
}

/// The new owner may be dead behind a connection the server believes in, and those behind it sleep until the lease that they were
/// told of is over. Whoever passed the lock on looks after it when the claim is over, whatever has become of itself.
void server::passed_on(seat& s, time_point now) { s.follow_up = after_claim(now); }

/// In line the seat asks again at that time. Else the release of a dead id is repeated: if nobody has taken the lock by then it goes
/// on to the next, who may be dead as well: that is then looked after in the same way.
void server::look_after(seat& s, grant_id dead, time_point now) {
  if (s.follow_up == time_point::max()) return;
  if (s.at == seat::state::in_line) timers_.arm(s.check, std::min(s.check.at(), s.follow_up));
  // Whoever has a part may keep it for long, while those wait who wanted what was passed on.
  bool const away = s.at == seat::state::idle || (s.at == seat::state::owned && s.part);
  if (!away || CONCH_MUTANT(no_kick)) return;
  drop_kick(s);
  auto* const c = new cleanup{s, dead, this, [](void* self, time_point at) {
                                auto& due = *static_cast<cleanup*>(self);
                                static_cast<server*>(due.server_of)->cleanup_due(due, at);
                              }};
  c->is_kick = true;
  c->floor = s.floor_asked();
  // By then everybody in line has asked again.
  c->over = s.follow_up + std::max<duration>(s.lease, settings_.lease);
  ++s.references;
  s.kick = c;
  owed_.push_back(*c);
  timers_.arm(c->due, std::max(now, s.follow_up));
}

/// Not before the claim is over by the server's clock, which may be slower than ours: a look that comes too early finds an owner,
/// and is the last.
time_point server::after_claim(time_point now) {
  duration const drift = CONCH_MUTANT(kick_without_drift) ? duration{} : drift_of(settings_.claim);
  return now + settings_.claim + drift + milliseconds{5} + jitter(settings_.claim / 20);
}

void server::drop_kick(seat& s) {
  cleanup* const c = s.kick;
  if (c == nullptr || c->sent) return;
  s.kick = nullptr;
  delete c;
  --s.references;  // the caller is about to use the seat: it stays
}

void server::drop_kicks() {
  std::vector<seat*> seats;
  auto const look = [&](cleanup& c) {
    if (c.is_kick && !c.sent) seats.push_back(c.lock);
    c.lock->follow_up = time_point::max();
  };
  owed_.for_each(look);
  resting_owed_.for_each(look);
  for (seat* s : seats) {
    ++s->references;
    drop_kick(*s);
    drop(*s);
  }
}

cleanup* server::owed(grant_id id) {
  cleanup* found = nullptr;
  auto const look = [&](cleanup& c) {
    if (c.id == id && !c.is_kick) found = &c;
  };
  owed_.for_each(look);
  resting_owed_.for_each(look);
  return found;
}

}  // namespace conch::engine
