// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue/standings.hpp"

#include "base/turns.hpp"

#include <algorithm>
#include <utility>

namespace conch::zookeeper {

using engine::place_state;

/// Another node is asked for.
void standings::begin(standing& s) {
  standing_.erase(s.number);
  unwatch(s);
  s.its_node() = {.number = ++numbers_, .made_in = sent_.session_number()};
  standing_.emplace(s.number, &s);
  s.has_turn = s.wants_renewal = false;
}

/// The next turn checks it.
void standings::rest(standing& s, time_point now) {
  s.unlink();
  resting_.push_back(s);
  env_.timers.arm(rest_, in_next_turn(now));
}

/// Watches these, and no others. What is watched already stays so.
void standings::watch(standing& s, view ahead, time_point now) {
  auto const is_in = [](view const& v, std::string const& name) {
    return std::any_of(v.watched.begin(), v.watched.end(), [&](node_ahead const& one) { return one.name == name; });
  };
  view const before = std::exchange(s.ahead, std::move(ahead));
  for (node_ahead const& one : before.watched) {
    if (!is_in(s.ahead, one.name)) watched_.leave(s.path_of(one.name), s);
  }
  for (node_ahead const& one : s.ahead.watched) {
    if (!is_in(before, one.name)) watch(s, s.path_of(one.name), now);
  }
}

void standings::watch(standing& s, std::string const& path, time_point now) {
  if (watched_.join(path, s)) sent_.send(about::watch, get_data{path, true}, s, nullptr, now, path);
}

void standings::unwatch(standing& s) {
  for (node_ahead const& one : s.ahead.watched) watched_.leave(s.path_of(one.name), s);
  s.ahead = {};
  s.awaits_end = false;
  if (std::exchange(s.watches_itself, false)) watched_.leave(s.node, s);
}

void standings::drop(standing& s) {
  --s.references;
  if (s.references == 0 && s.state == place_state::idle) env_.up.settled(s);
}

void standings::put_off(standing& s) {
  s.unlink();
  resting_.push_back(s);
}

standing* standings::find(std::uint64_t number) const {
  auto const found = standing_.find(number);
  return found == standing_.end() ? nullptr : found->second;
}

void standings::pass_on_watches(standing& from, standing& to) {
  if (std::exchange(from.watches_itself, false)) watched_.leave(from.node, from);
  for (node_ahead const& one : from.ahead.watched) watched_.pass_on(from.path_of(one.name), from, to);
  to.ahead = std::exchange(from.ahead, {});
}

standing& standings::next() {
  standing& s = resting_.pop_front();
  active_.push_back(s);
  return s;
}

void standings::resume_soon(time_point now) { env_.timers.arm(rest_, in_next_turn(now)); }

void standings::rest_all() {
  active_.splice_back(resting_);
  resting_.splice_back(active_);
}

void standings::interrupted() {
  watched_.clear();
  rest_all();
  auto const unheard = [](standing& s) {
    s.ahead = {};
    s.left_before = s.left_before || s.leave_sent;
    s.lists = s.tellers = 0;
    s.leave_sent = s.has_turn = s.watches_itself = false;
    s.awaits_end = false;
  };
  resting_.for_each(unheard);
}

}  // namespace conch::zookeeper
