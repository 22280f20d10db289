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
  owed_.rest_all();
}

/// Does one turn of the work that follows a new connection, the end of one, or of the session.
void catch_up::resume_backlog(time_point now) {
  std::size_t left = in_one_turn;
  for (; left != 0 && on_.session.is_open() && keeps_.has_rest(); --left) keeps_.end_next(now);
  for (; left != 0 && owed_.has_rest(); --left) {
    cleanup& c = owed_.next();
    if (c.made_in != on_.sent.session_number()) {
      owed_.finish(c, c.was_valid, {}, now);
    } else if (on_.session.is_open() && !c.sent) {
      if (c.node.empty()) on_.sent.search(c.place, c.number, &c, now);
      else owed_.send(c, now);
    }
  }
  auto const may = [&] { return !on_.session.is_open() || on_.sent.window().has_room(); };
  for (; left != 0 && may() && on_.all.has_rest(); --left) {
    catch_up_with(on_.all.next(), now);
  }
  if ((may() && on_.all.has_rest()) || owed_.has_rest() || (on_.session.is_open() && keeps_.has_rest()))
    on_.all.resume_soon(now);
}

void catch_up::catch_up_with(standing& s, time_point now) {
  if (s.carrier != nullptr) return continue_riding(s, now);
  if (s.made_in != on_.sent.session_number()) {
    if (s.state == place_state::owned) return held_.removed(s, now);
    bool const waited = s.waits();
    line_.has_no_node(s, now);
    if (waited && !on_.session.is_open()) line_.patience(s, on_.sent.lost_at());
    return;
  }
  if (!on_.session.is_open()) {
    if (s.waits()) line_.patience(s, on_.sent.lost_at());
    else if (s.state == place_state::leaving)
      on_.env.timers.arm(s.check, on_.sent.lost_at() + on_.env.settings.command_timeout);
    return;
  }
  if (s.has_turn && s.waits()) return line_.take_turn(s, s.by_push, now);  // it has taken over what was granted
  if (s.told_on == on_.sent.connection_number() || s.state == place_state::owned) return;
  s.check.cancel();
  s.asks_later = false;
  if (!s.written) return line_.make_node(s, now);
  if (s.node.empty()) {
    if (s.waits()) on_.env.up.asked_again(s, retry_reason::reconnected, now);
    return on_.sent.search(s, s.number, nullptr, now);
  }
  if (std::exchange(s.left_before, false)) {
    on_.sent.send(about::nothing, sync{s.folder}, s, nullptr, now);  // this server may not know yet that it is removed
  }
  line_.list(s, now);  // the watches went with the connection
}

/// A rider has what its carrier has.
void catch_up::continue_riding(standing& s, time_point now) {
  standing const& carrier = *s.carrier;
  if (s.state == place_state::owned) {
    if (s.made_in != on_.sent.session_number()) held_.removed(s, now);
    return;
  }
  bool const is_granted = carrier.state == place_state::owned && carrier.made_in == on_.sent.session_number();
  if (is_granted) {
    if (line_.is_too_long(s)) return line_.fail(s, line_.lease_too_long(s), now);
    s.node = carrier.node;
    s.created = carrier.created;
    s.made_in = carrier.made_in;
    return line_.take_turn(s, carrier.by_push, now);
  }
  if (carrier.state == place_state::in_line && !s.wait) {
    shares_.become_idle(s, now);
    return on_.env.up.busy(s, now);
  }
  if (carrier.state == place_state::in_line && s.state == place_state::asking) {
    enter(s, place_state::in_line);
    on_.env.up.queued(s, now);
  }
  if (!on_.session.is_open()) line_.patience(s, on_.sent.lost_at());
}

void catch_up::due(standing& s, time_point now) {
  if (on_.session.is_open()) {
    if (std::exchange(s.awaits_end, false)) return line_.interval_over(s, now);
    if (std::exchange(s.asks_later, false)) catch_up_with(s, now);
    return;
  }
  if (s.state == place_state::leaving) {
    shares_.become_idle(s, now);
    owed_.owe(s, nullptr, now);
    on_.env.up.left(s, now);
  } else if (s.waits()) {
    line_.fail(s, make_error_code(errc::unreachable, on_.session.why_not_open()), now);
  }
}

}  // namespace conch::zookeeper
