// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/catch_up.hpp"

#include "base/turns.hpp"

#include <algorithm>
#include <vector>

namespace conch::protocol {

void catch_up::resume_backlog(time_point now) {
  std::size_t left = in_one_turn;
  if (on_.link.connected()) renew_holds(left, now);
  if (on_.link.connected() && !on_.all.failing()) {
    cleanups_.repeat(left, now);
    send_postponed(left, now);
    ask_everything_again(left, now);
  }
  resume_the_rest(left, now);
  asked_.end_some(left);
  if (on_.link.connected()) asked_.unwatch(left, now);
  come_back(now);
}

/// Without a connection, or after a failure, nothing is written for what rests: it waits, or fails.
void catch_up::resume_the_rest(std::size_t& left, time_point now) {
  for (; (on_.all.failing() || !on_.link.connected()) && left != 0 && on_.all.has_resting(); --left) {
    server_place& p = on_.all.next();
    bool const asks = p.state == place_state::asking || p.state == place_state::in_line;
    if (asks && on_.all.failing()) {
      asks_.fail(p, on_.all.failing(), now);
    } else if (asks) {
      asks_.be_patient(p, on_.link.lost_at());
    } else if (p.state == place_state::leaving && !on_.link.connected()) {
      if (!p.check.armed()) on_.env.timers.arm(p.check, on_.link.lost_at() + on_.env.settings.command_timeout);
    } else if (p.state == place_state::leaving && p.late.last_sent_on != on_.link.number()) {
      asks_.send_leave(p, now);  // the failure came before this connection had come to the place
    }
  }
  if (!on_.all.has_resting()) on_.all.stop_failing();
}

/// Another turn follows if this one did not reach all; but not for what only waits for room: an answer resumes that.
void catch_up::come_back(time_point now) {
  bool const waits_for_holds = asks_.may_repeat() && on_.all.has_resting() && !on_.all.first_resting().written &&
                               !on_.sent.window().may_begin(now);
  bool const more_to_send = on_.all.has_resting_holds() || (on_.sent.window().has_room() && has_rest());
  bool const more = on_.all.failing() || asked_.is_ending() || asked_.has_unwatched() ||
                    (on_.link.connected() ? more_to_send : on_.all.has_resting());
  if (!more) return;
  bool const later = on_.link.connected() && waits_for_holds && !on_.all.has_resting_holds() && !on_.all.failing();
  on_.soon.at(later ? on_.sent.window().begins_again() : in_next_turn(now));
}

void catch_up::send_postponed(std::size_t& left, time_point now) {
  for (; left != 0 && cleanups_.may_send() && on_.all.has_postponed(); --left) {
    server_place& p = on_.all.next_postponed();
    if (p.state == place_state::leaving) asks_.send_leave(p, false, now);
    else asks_.send(p, false, now);
  }
}

/// They wait for no room: a hold that is not renewed in time is lost, whatever else is to be done.
void catch_up::renew_holds(std::size_t& left, time_point now) {
  std::vector<server_place*> held;
  for (; left != 0 && on_.all.has_resting_holds(); --left) {
    server_place& p = on_.all.next_hold();
    if (p.late.last_sent_on != on_.link.number()) held.push_back(&p);
  }
  if (held.empty()) return;
  std::sort(held.begin(), held.end(), [](server_place* a, server_place* b) { return a->deadline < b->deadline; });
  renews_.send(held, {}, now);
  for (server_place* s : held) {
    if (s->state == place_state::owned && s->owned.watches_requests && !s->owned.requested)
      pushes_.ask_for_requests(*s, now);
  }
}

/// Repeats the requests of all places about which nothing was written on this connection yet. A place that was
/// released, cancelled or given up since is not in the list any more.
void catch_up::ask_everything_again(std::size_t& left, time_point now) {
  for (; left != 0 && asks_.may_repeat() && on_.all.has_resting() &&
         (on_.all.first_resting().written || on_.sent.window().may_begin(now));
       --left) {
    server_place& p = on_.all.next();
    if (p.late.last_sent_on == on_.link.number()) continue;
    switch (p.state) {
      case place_state::asking:
      case place_state::in_line: asks_.ask_once_more(p, retry_reason::reconnected, now); break;
      case place_state::leaving: asks_.send_leave(p, now); break;
      case place_state::owned:
      case place_state::idle: break;
    }
  }
}

void catch_up::fail_all(error_code why, time_point now) {
  on_.all.fail_all(why);
  end_all_orders(why, now);
}

void catch_up::end_all_orders(error_code why, time_point now) {
  asked_.end_all(why);
  resume_backlog(now);
}

}  // namespace conch::protocol
