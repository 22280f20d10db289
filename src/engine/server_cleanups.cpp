// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/server.hpp"

#include "engine/mutant.hpp"

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
  c->echo_until = s.echo_until;
  c->floor = s.floor_asked();
  c->ahead = s.ahead;
  // The lock's lease, or the longest this client asks for, from now on: nothing of ours is renewed after this, and what
  // was written before has been carried out, or its connection is gone.
  auto const lease = std::max<duration>(s.lease, settings_.lease);
  c->over = now + lease + drift_of(lease) + settings_.command_timeout;
  c->whom = r;
  if (r != nullptr) r->pending = c;
  owed_.push_back(*c);
  timers_.arm(c->due, c->over);
  if (id != 0 && connected_) send_cleanup(*c, 0, false, now);
  return *c;
}

void server::send_cleanup(cleanup& c, grant_id new_id, bool with_source, time_point now) {
  c.sent = true;
  if (c.is_kick) ++stats_.kicks;
  ++stats_.scripts;
  out_.send(release_command{c.lock->name, c.id, false, c.lock->lease, whole_ms(settings_.claim),
                            whole_ms(settings_.fence_retention), new_id, with_source, c.floor, c.ahead,
                            c.lock->part ? &c.lock->part : nullptr});
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

  if (a.what == fault::none && numbers.size() >= (r.new_id != 0 ? 6u : 4u)) {
    sample(r.written, numbers[3], now);
    bool const was_mine = numbers[0] == 1 || (c.resent && c.was_valid && !CONCH_MUTANT(repeated_release_fails));
    if (same_seat) {
      std::int64_t const result[] = {numbers[4], numbers[5], numbers.size() > 6 ? numbers[6] : 0};
      ask_result(s, r, result, now);
    }
    if (may_echo(c.echo_until, now) && !CONCH_MUTANT(cleanup_not_once_more)) {
      // What an older connection still holds is refused from then on; whatever it does before that ends then.
      if (c.whom != nullptr) {
        receipt& whom = *c.whom;
        forget(whom);
        up_.released(whom, was_mine, {}, now);
      }
      c.over = std::max(c.over, c.echo_until + settings_.command_timeout);
      timers_.arm(c.due, c.echo_until);
    } else {
      // The kick belongs to a lock this client has nothing more to do with. One that finds itself owner again, at a replica
      // that had missed the release, is a release itself.
      bool const kick = (!c.is_kick || was_mine) && s.at == seat::state::idle;
      grant_id const id = c.id;
      // In line again, and asked before this release was carried out: what it was told to wait for is not what it
      // waits for now, which is a claim.
      bool const hurry = !same_seat && s.at == seat::state::in_line && numbers[1] != 0;
      if (hurry) timers_.arm(s.check, std::min(s.check.at(), after_claim(now)));
      finish(c, was_mine, {}, now);
      if (kick) consider_kick(s, id, numbers[1], numbers[2], now);
    }
  } else if (a.what == fault::no_script) {
    // A leave that was written meanwhile has been carried out already: the place must not be taken after it.
    bool const still_asks = same_seat && (s.at == seat::state::asking || s.at == seat::state::in_line);
    send_cleanup(c, still_asks || (same_seat && CONCH_MUTANT(requeued_after_leave)) ? r.new_id : 0, true, now);
  } else {
    if (a.what == fault::none) {
      c.resent = true;  // it was carried out, whatever it answered
      out_.drop_connection("an answer of the release script that is too short");
    }
    if (a.what == fault::reconnect) out_.drop_connection(a.words);
    if (same_seat && (s.at == seat::state::asking || s.at == seat::state::in_line)) acquire_fault(s, a, now);
    bool const hopeless = a.what == fault::wrong_type || a.what == fault::access_denied || a.what == fault::malformed;
    if (hopeless || c.is_kick || CONCH_MUTANT(refused_cleanup_dropped)) {
      errc const why = a.what == fault::wrong_type      ? errc::wrong_type
                       : a.what == fault::access_denied ? errc::access_denied
                                                        : errc::protocol;
      finish(c, false, make_error_code(why, a.words), now);
    } else {
      ++c.refusals;
      auto const pause = milliseconds{25} * (1u << std::min(c.refusals, 6u));
      timers_.arm(c.due, std::min(c.over, now + pause + jitter(pause)));
    }
  }
  drop(s);
}

void server::cleanup_due(cleanup& c, time_point now) {
  if (c.is_kick) {
    if (connected_) {
      send_cleanup(c, 0, false, now);
    } else {
      finish(c, false, {}, now);
    }
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
    s.kick = nullptr;
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

/// The next in line may be dead behind a connection the server believes in. The releaser repeats its release once, after
/// the claim: if nobody has taken the lock by then it goes on.
void server::consider_kick(seat& s, grant_id id, std::int64_t passed_on, std::int64_t more, time_point now) {
  if (passed_on == 0 || more == 0 || !connected_ || CONCH_MUTANT(no_kick)) return;
  drop_kick(s);
  auto* const c = new cleanup{s, id, this, [](void* self, time_point at) {
                                auto& due = *static_cast<cleanup*>(self);
                                static_cast<server*>(due.server_of)->cleanup_due(due, at);
                              }};
  c->is_kick = true;
  c->floor = s.floor_asked();
  ++s.references;
  s.kick = c;
  owed_.push_back(*c);
  timers_.arm(c->due, after_claim(now));
}

time_point server::after_claim(time_point now) {
  return now + settings_.claim + milliseconds{5} + jitter(settings_.claim / 20);
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
  owed_.for_each([&](cleanup& c) {
    if (c.is_kick && !c.sent) seats.push_back(c.lock);
  });
  for (seat* s : seats) {
    ++s->references;
    drop_kick(*s);
    drop(*s);
  }
}

cleanup* server::owed(grant_id id) {
  cleanup* found = nullptr;
  owed_.for_each([&](cleanup& c) {
    if (c.id == id && !c.is_kick) found = &c;
  });
  return found;
}

}  // namespace conch::engine
