// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
// What follows a connection, the end of one, and the end of the session.
#include "zookeeper/queue.hpp"

#include "base/turns.hpp"

#include <deque>
#include <utility>
#include <vector>

namespace conch::zookeeper {

using engine::receipt;
using at = engine::place::state;

void queue::opened(time_point now) {
  last_answer_ = now;
  rest_all();
  go_on(now);
  up_.connection_changed(now);
}

void queue::interrupted(time_point now) {
  lost_at_ = now;
  ++connections_;
  watched_.clear();
  std::deque<in_flight> const unanswered = std::exchange(in_flight_, {});
  window_.connection_ended();
  auto const again = [](cleanup& c) {
    c.resent = c.resent || c.sent;
    c.sent = false;
  };
  pending_.for_each(again);
  resting_cleanups_.for_each(again);
  rest_all();
  auto const unheard = [](standing& s) {
    s.ahead = {};
    s.left_before = s.left_before || s.leave_sent;
    s.lists = s.tellers = 0;
    s.leave_sent = s.has_turn = s.watches_itself = false;
  };
  resting_.for_each(unheard);
  go_on(now);
  for (in_flight const& one : unanswered) drop(*one.at);
  up_.connection_changed(now);
}

void queue::ended(time_point now) {
  ++sessions_;
  rest_all();
  go_on(now);
}

void queue::refused(error_code why, time_point now) {
  std::vector<standing*> asking;
  auto const look = [&](standing& s) {
    if (!s.waits()) return;
    ++s.references;
    asking.push_back(&s);
  };
  active_.for_each(look);
  resting_.for_each(look);
  for (standing* s : asking) {
    if (s->waits()) fail(*s, why, now);
    drop(*s);
  }
  up_.connection_refused(why, now);
}

/// Everything is to be looked at, in the order of asking.
void queue::rest_all() {
  active_.splice_back(resting_);
  resting_.splice_back(active_);
  pending_.splice_back(resting_cleanups_);
  resting_cleanups_.splice_back(pending_);
}

/// Does one turn of the work that follows a new connection, the end of one, or of the session.
void queue::go_on(time_point now) {
  std::size_t left = engine::in_one_turn;
  for (; left != 0 && !resting_cleanups_.empty(); --left) {
    cleanup& c = resting_cleanups_.pop_front();
    pending_.push_back(c);
    if (c.made_in != sessions_) {
      finish(c, c.was_valid, {}, now);
    } else if (connected() && !c.sent) {
      if (c.node.empty()) search(c.at, c.number, &c, now);
      else send_cleanup(c, now);
    }
  }
  auto const may = [&] { return !connected() || window_.has_room(); };
  for (; left != 0 && may() && !resting_.empty(); --left) {
    standing& s = resting_.pop_front();
    active_.push_back(s);
    go_on_with(s, now);
  }
  if ((may() && !resting_.empty()) || !resting_cleanups_.empty()) timers_.arm(rest_, engine::in_next_turn(now));
}

void queue::go_on_with(standing& s, time_point now) {
  if (s.carrier != nullptr) return go_on_riding(s, now);
  if (s.made_in != sessions_) {
    if (s.at == at::owned) return removed(s, now);
    bool const waited = s.waits();
    has_no_node(s, now);
    if (waited && !connected()) patience(s, lost_at_);
    return;
  }
  if (!connected()) {
    if (s.waits()) patience(s, lost_at_);
    else if (s.at == at::leaving) timers_.arm(s.check, lost_at_ + settings_.command_timeout);
    return;
  }
  if (s.has_turn && s.waits()) return take_turn(s, s.by_push, now);  // it has taken over what was granted
  if (s.told_on == connections_ || s.at == at::owned) return;
  s.check.cancel();
  s.asks_later = false;
  if (!s.written) return make_node(s, now);
  if (s.node.empty()) {
    if (s.waits()) up_.asked_again(s, retry_reason::reconnected, now);
    return search(s, s.number, nullptr, now);
  }
  if (std::exchange(s.left_before, false)) send(about::nothing, sync{s.folder}, s, nullptr, now);  // this server may not know yet that it is removed
  list(s, now);                                                                                    // the watches went with the connection
}

/// The node is gone, or was never made. Whoever waits asks for another one, behind all others.
void queue::has_no_node(standing& s, time_point now) {
  if (s.at == at::leaving) return gone_from_line(s, now);
  if (s.written) up_.asked_again(s, retry_reason::reconnected, now);
  begin(s);
  s.written = false;
  if (connected()) make_node(s, now);
}

/// The time counts from when the connection was lost.
void queue::patience(standing& s, time_point since) {
  if (s.trouble_since == time_point{}) s.trouble_since = since;
  timers_.arm(s.check, s.trouble_since + settings_.offline_timeout);
}

void queue::check(standing& s, time_point now) {
  if (connected()) {
    if (std::exchange(s.asks_later, false)) go_on_with(s, now);
    return;
  }
  if (s.at == at::leaving) {
    become_idle(s);
    owe(s, nullptr, now);
    up_.left(s, now);
  } else if (s.waits()) {
    fail(s, make_error_code(errc::unreachable, why_not_connected()), now);
  }
}

}  // namespace conch::zookeeper
