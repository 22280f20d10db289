// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue/catch_up.hpp"

#include "base/turns.hpp"

#include <utility>

namespace conch::zookeeper {

using conch::retry_reason;
using engine::place_state;

/// Everything is to be checked, in the order of asking.
void catch_up::rest_all() {
  on_.all.rest_all();
  cleanups_.rest_all();
}

/// Does one turn of the work that follows a new connection, the end of one, or of the session.
void catch_up::resume_backlog(time_point now) {
  std::size_t left = in_one_turn;
  for (; left != 0 && on_.session.is_open() && keeps_.has_rest(); --left) keeps_.end_next(now);
  for (; left != 0 && cleanups_.has_rest(); --left) {
    cleanup& c = cleanups_.next();
    if (c.made_in != on_.sent.session_number()) {
      cleanups_.finish(c, c.was_valid, {}, now);
    } else if (on_.session.is_open() && !c.sent) {
      if (c.node.empty()) on_.sent.search(c.place, c.number, &c, now);
      else cleanups_.send(c, now);
    }
  }
  auto const may = [&] { return !on_.session.is_open() || on_.sent.window().has_room(); };
  for (; left != 0 && may() && on_.all.has_rest(); --left) {
    catch_up_with(on_.all.next(), now);
  }
  if ((may() && on_.all.has_rest()) || cleanups_.has_rest() || (on_.session.is_open() && keeps_.has_rest()))
    on_.all.resume_soon(now);
}

void catch_up::catch_up_with(queue_place& p, time_point now) {
  if (p.primary != nullptr) return continue_sharing(p, now);
  if (p.made_in != on_.sent.session_number()) {
    if (p.state == place_state::owned) return held_.removed(p, now);
    bool const waited = p.waits();
    line_.has_no_node(p, now);
    if (waited && !on_.session.is_open()) line_.patience(p, on_.sent.lost_at());
    return;
  }
  if (!on_.session.is_open()) {
    if (p.waits()) line_.patience(p, on_.sent.lost_at());
    else if (p.state == place_state::leaving)
      on_.env.timers.arm(p.check, on_.sent.lost_at() + on_.env.settings.command_timeout);
    return;
  }
  if (p.has_turn && p.waits()) return line_.take_turn(p, p.by_push, now);  // it has taken over what was granted
  if (p.last_sent_on == on_.sent.connection_number() || p.state == place_state::owned) return;
  p.check.cancel();
  p.asks_later = false;
  if (!p.written) return line_.make_node(p, now);
  if (p.node.empty()) {
    if (p.waits()) on_.env.up.asked_again(p, retry_reason::reconnected, now);
    return on_.sent.search(p, p.number, nullptr, now);
  }
  if (std::exchange(p.left_before, false)) {
    on_.sent.send(about::nothing, sync{p.folder}, p, nullptr, now);  // this server may not know yet that it is removed
  }
  line_.list(p, now);  // the watches went with the connection
}

/// A sharer has what its primary has.
void catch_up::continue_sharing(queue_place& p, time_point now) {
  queue_place const& primary = *p.primary;
  if (p.state == place_state::owned) {
    if (p.made_in != on_.sent.session_number()) held_.removed(p, now);
    return;
  }
  bool const is_granted = primary.state == place_state::owned && primary.made_in == on_.sent.session_number();
  if (is_granted) {
    if (line_.is_too_long(p)) return line_.fail(p, line_.lease_too_long(p), now);
    p.node = primary.node;
    p.created = primary.created;
    p.made_in = primary.made_in;
    return line_.take_turn(p, primary.by_push, now);
  }
  if (primary.state == place_state::in_line && !p.wait) {
    shared_.become_idle(p, now);
    return on_.env.up.busy(p, now);
  }
  if (primary.state == place_state::in_line && p.state == place_state::asking) {
    enter(p, place_state::in_line);
    on_.env.up.queued(p, now);
  }
  if (!on_.session.is_open()) line_.patience(p, on_.sent.lost_at());
}

void catch_up::due(queue_place& p, time_point now) {
  if (on_.session.is_open()) {
    if (std::exchange(p.awaits_end, false)) return line_.interval_over(p, now);
    if (std::exchange(p.asks_later, false)) catch_up_with(p, now);
    return;
  }
  if (p.state == place_state::leaving) {
    shared_.become_idle(p, now);
    cleanups_.add(p, nullptr, now);
    on_.env.up.left(p, now);
  } else if (p.waits()) {
    line_.fail(p, make_error_code(errc::unreachable, on_.session.why_not_open()), now);
  }
}

}  // namespace conch::zookeeper
