// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue/queue_places.hpp"

#include "base/turns.hpp"

#include <algorithm>
#include <utility>

namespace conch::zookeeper {

using engine::place_state;

/// Another node is asked for.
void queue_places::begin(queue_place& p) {
  by_number_.erase(p.number);
  unwatch(p);
  p.its_node() = {.number = ++numbers_, .made_in = sent_.session_number()};
  by_number_.emplace(p.number, &p);
  p.has_turn = p.wants_renewal = false;
}

/// The next turn checks it.
void queue_places::rest(queue_place& p, time_point now) {
  p.unlink();
  resting_.push_back(p);
  env_.timers.arm(rest_, in_next_turn(now));
}

/// Watches these, and no others. What is watched already stays so.
void queue_places::watch(queue_place& p, view ahead, time_point now) {
  auto const is_in = [](view const& v, std::string const& name) {
    return std::any_of(v.watched.begin(), v.watched.end(), [&](node_ahead const& one) { return one.name == name; });
  };
  view const before = std::exchange(p.ahead, std::move(ahead));
  for (node_ahead const& one : before.watched) {
    if (!is_in(p.ahead, one.name)) watched_.leave(p.path_of(one.name), p);
  }
  for (node_ahead const& one : p.ahead.watched) {
    if (!is_in(before, one.name)) watch(p, p.path_of(one.name), now);
  }
}

void queue_places::watch(queue_place& p, std::string const& path, time_point now) {
  if (watched_.join(path, p)) sent_.send(about::watch, get_data{path, true}, p, nullptr, now, path);
}

void queue_places::unwatch(queue_place& p) {
  for (node_ahead const& one : p.ahead.watched) watched_.leave(p.path_of(one.name), p);
  p.ahead = {};
  p.awaits_end = false;
  if (std::exchange(p.watches_itself, false)) watched_.leave(p.node, p);
}

void queue_places::drop(queue_place& p) {
  --p.references;
  if (p.references == 0 && p.state == place_state::idle) env_.up.settled(p);
}

void queue_places::put_off(queue_place& p) {
  p.unlink();
  resting_.push_back(p);
}

queue_place* queue_places::find(std::uint64_t number) const {
  auto const found = by_number_.find(number);
  return found == by_number_.end() ? nullptr : found->second;
}

void queue_places::pass_on_watches(queue_place& from, queue_place& to) {
  if (std::exchange(from.watches_itself, false)) watched_.leave(from.node, from);
  for (node_ahead const& one : from.ahead.watched) watched_.pass_on(from.path_of(one.name), from, to);
  to.ahead = std::exchange(from.ahead, {});
}

queue_place& queue_places::next() {
  queue_place& p = resting_.pop_front();
  active_.push_back(p);
  return p;
}

void queue_places::resume_soon(time_point now) { env_.timers.arm(rest_, in_next_turn(now)); }

void queue_places::rest_all() {
  active_.splice_back(resting_);
  resting_.splice_back(active_);
}

void queue_places::interrupted() {
  watched_.clear();
  rest_all();
  auto const forget_connection = [](queue_place& p) {
    p.ahead = {};
    p.left_before = p.left_before || p.leave_sent;
    p.lists = p.answers_due = 0;
    p.leave_sent = p.has_turn = p.watches_itself = false;
    p.awaits_end = false;
  };
  resting_.for_each(forget_connection);
}

}  // namespace conch::zookeeper
