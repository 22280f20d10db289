// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/release_answers.hpp"

#include "base/failure.hpp"
#include "base/fault.hpp"
#include "protocol/replies.hpp"

#include <algorithm>

namespace conch::protocol {

void release_answers::answered(in_flight const& r, answer const& a, time_point now) {
  using kind = release_reply::kind;
  server_place& p = *r.place;
  release_reply const reply = read_release(a, r.new_id != 0, static_cast<bool>(p.permit));
  if (reply.what != kind::malformed) on_.link.clock().sample(r.written, reply.server_us, now);
  if (r.moved) return on_.all.drop(p);  // the clean-up has gone with its place, and may be over
  cleanup& c = *r.of_cleanup;
  c.sent = false;
  if (reply.what == kind::not_done) {
    put_off(c, r, now);
  } else if (reply.what != kind::malformed) {
    done(c, r, reply, now);
  } else if (a.what == fault::no_script) {
    // What was written meanwhile has been carried out already. After a leave the release must not take a new place;
    // after a question that was granted it must not put the owner in line.
    bool const still_asks = asks_under(p, r.new_id) && !p.waiting.asks_again;
    cleanups_.send(c, still_asks ? r.new_id : 0, on_.sent.source_is_due(r), now);
  } else {
    refused(c, r, a, now);
  }
  on_.all.drop(p);
}

/// The place has asked again under the new id of a release.
bool release_answers::is_under(server_place const& p, grant_id new_id) {
  return new_id != 0 && p.id == new_id && p.state != place_state::idle;
}

bool release_answers::asks_under(server_place const& p, grant_id new_id) {
  return is_under(p, new_id) && (p.state == place_state::asking || p.state == place_state::in_line);
}

/// The first waiter has not connected again yet. This client still owns the lock, and repeats the release soon. The
/// caller of the release need not wait for that.
void release_answers::put_off(cleanup& c, in_flight const& r, time_point now) {
  server_place& p = *r.place;
  cleanups_.report_released(c, true, now);
  if (is_under(p, r.new_id) && p.state == place_state::asking) asks_.send(p, false, now);
  on_.env.timers.arm(c.due, std::min(c.over, now + milliseconds{10} + on_.pause.jitter(milliseconds{10})));
}

void release_answers::done(cleanup& c, in_flight const& r, release_reply const& reply, time_point now) {
  server_place& p = *r.place;
  bool const was_mine = reply.was_mine || (c.resent && c.was_valid);
  p.next_owner.checked_until(r.written);
  // If this place is queued again, it is a waiter too.
  bool const more = reply.more_in_line || p.state == place_state::in_line;
  if (reply.passed_on && more) cleanups_.passed_on(p, r.lease, now);
  if (is_under(p, r.new_id)) asks_.take_result(p, r, reply.again, now);
  bool const unfinished = reply.more_to_do;
  if (unfinished && !c.is_kick) {
    // The lock is given back, but there are more dead waiters, or more to let in, than one script handles. The same
    // release at once continues from there. Its caller does not wait for that.
    cleanups_.report_released(c, was_mine, now);
    c.over = std::max(c.over, now + on_.env.settings.command_timeout);
    on_.env.timers.arm(c.due, c.over);
    cleanups_.send(c, 0, false, now);
  } else if (on_.link.earlier().may_echo(c.old_connection_until, r.written)) {
    // From then on the server refuses what an older connection still holds. This release ends what the server carries
    // out before that.
    cleanups_.report_released(c, was_mine, now);
    c.over = std::max(c.over, c.old_connection_until + on_.env.settings.command_timeout);
    // Earlier if it passed the lock on: the repeated release also checks on the next owner.
    bool const looks = p.next_owner.any();
    on_.env.timers.arm(
        c.due, looks ? std::min(c.old_connection_until, std::max(p.next_owner.next(), now)) : c.old_connection_until);
  } else {
    grant_id const id = c.id;
    cleanups_.finish(c, was_mine, {}, now);
    if (unfinished) {
      cleanups_.release_again(p, id, now);
    } else {
      cleanups_.verify_successor(p, id, now);
    }
  }
}

/// The server did not carry it out, or did not report the outcome.
void release_answers::refused(cleanup& c, in_flight const& r, answer const& a, time_point now) {
  server_place& p = *r.place;
  // A script that ends with an error may have given the lock back before.
  if (a.what == fault::none || a.what == fault::refused) c.resent = true;
  if (a.what == fault::none) on_.link.drop("invalid answer of the release script");
  if (a.what == fault::reconnect) on_.link.drop(a.words);
  if (asks_under(p, r.new_id)) asks_.take_fault(p, a, now);
  bool const hopeless = a.what == fault::wrong_type || a.what == fault::access_denied || a.what == fault::malformed;
  if (hopeless) {
    errc const why = meaning_of(a.what).error;
    cleanups_.finish(c, false, explained(make_error_code(why, a.words), {failed_task::kind::releasing, p.name}), now);
  } else {
    on_.link.note_once(a.words);  // no other client may ask this server for a while
    ++c.refusals;
    c.refused = to_error(a.what, a.words);
    constexpr milliseconds least{25};
    auto const pause = least * (1u << std::min(c.refusals, 6u));
    // A longer pause than that would be over when the clean-up is, and the last try long ago.
    auto const at_most = std::max<duration>(least, (c.over - now) / 2);
    on_.env.timers.arm(c.due, std::min(c.over, now + std::min<duration>(pause + on_.pause.jitter(pause), at_most)));
  }
}

}  // namespace conch::protocol
