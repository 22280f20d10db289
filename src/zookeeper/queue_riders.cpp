// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
// Several places of one owner at one reentrant lock have one node in this client. The carrier is the one that stands in line with it; the others
// ride: they have what it has, and one of them takes the node over when it goes. The last one that goes takes the node with it.
#include "zookeeper/queue.hpp"

#include "base/turns.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace conch::zookeeper {

using at = engine::place::state;

namespace {

bool is_reentrant(standing const& s) noexcept { return s.asks.kind == engine::permit_kind::reentrant; }

/// Of all places that may share a node. Hex digits, and a path.
std::string owner_and_lock(standing const& s) { return std::string{s.asks.owner} + s.folder; }

}  // namespace

/// A place that asks: does its owner stand in this line already? Then it rides. Otherwise others may ride on it from now on.
bool queue::ride(standing& s, time_point now) {
  if (!is_reentrant(s)) return false;
  auto const [found, is_first] = carriers_.try_emplace(owner_and_lock(s), &s);
  if (is_first) return false;
  s.its_node() = {.made_in = sessions_};
  s.has_turn = s.wants_renewal = false;
  mount(s, *found->second);
  rest(s, now);
  return true;
}

void queue::mount(standing& s, standing& carrier) {
  s.carrier = &carrier;
  carrier.riders.push_back(&s);
}

void queue::dismount(standing& s) {
  if (s.carrier != nullptr) std::erase(s.carrier->riders, &s);
  s.carrier = nullptr;
}

/// The next turn looks at it.
void queue::rest(standing& s, time_point now) {
  s.unlink();
  resting_.push_back(s);
  timers_.arm(rest_, engine::in_next_turn(now));
}

void queue::rest_riders(standing& carrier, time_point now) {
  for (standing* s : carrier.riders) rest(*s, now);
}

/// Nobody mounts it any more.
void queue::carry_no_more(standing& s) {
  if (!is_reentrant(s)) return;
  auto const found = carriers_.find(owner_and_lock(s));
  if (found != carriers_.end() && found->second == &s) carriers_.erase(found);
}

/// A rider has what its carrier has.
void queue::go_on_riding(standing& s, time_point now) {
  standing const& carrier = *s.carrier;
  if (s.at == at::owned) {
    if (s.made_in != sessions_) removed(s, now);
    return;
  }
  bool const is_granted = carrier.at == at::owned && carrier.made_in == sessions_;
  if (is_granted) {
    if (is_too_long(s)) return fail(s, lease_too_long(s), now);
    s.node = carrier.node;
    s.created = carrier.created;
    s.made_in = carrier.made_in;
    return take_turn(s, carrier.by_push, now);
  }
  if (carrier.at == at::in_line && !s.wait) {
    become_idle(s);
    return up_.busy(s, now);
  }
  if (carrier.at == at::in_line && s.at == at::asking) {
    enter(s, at::in_line);
    up_.queued(s, now);
  }
  if (!connected()) patience(s, lost_at_);
}

/// A place with a node was granted: others of its owner have it, too. One that stands behind it, because it asked while this one was leaving, mounts
/// now.
void queue::granted_to_owner(standing& s, time_point now) {
  if (!is_reentrant(s)) return;
  standing*& carrier = carriers_[owner_and_lock(s)];
  standing* const behind = std::exchange(carrier, &s);
  if (behind != nullptr && behind != &s) {
    for (standing* rider : std::exchange(behind->riders, {})) mount(*rider, s);
    unwatch(*behind);
    if (behind->written) owe(*behind, nullptr, now);
    standing_.erase(behind->number);
    behind->its_node() = {.made_in = behind->made_in};
    behind->written = behind->has_turn = false;
    mount(*behind, s);
  }
  rest_riders(s, now);
}

/// The first rider carries from now on, with the node and with all that is under way for it.
standing& queue::pass_on(standing& from, time_point now) {
  standing& to = succeed(from);
  to.its_node() = from.its_node();
  standing_[to.number] = &to;
  from.number = 0;
  to.written = from.written;
  to.by_push = from.by_push;
  if (to.at != at::owned) to.has_turn = from.has_turn || from.at == at::owned;
  if (std::exchange(from.watches_itself, false)) watched_.leave(from.node, from);
  for (node_ahead const& one : from.ahead.watched) watched_.pass_on(from.path_of(one.name), from, to);
  to.ahead = std::exchange(from.ahead, {});
  for (in_flight& one : in_flight_) {
    if (one.at != &from || one.number != to.number || one.of_cleanup != nullptr) continue;
    one.at = &to;
    ++to.references;
    --from.references;  // the caller has one of its own
  }
  if (from.at == at::in_line && to.at == at::asking) enter(to, at::in_line);
  if (to.has_turn) rest(to, now);
  return to;
}

/// The same without the node: it asks for another one.
void queue::pass_on_the_asking(standing& from, time_point now) {
  if (from.riders.empty()) return;
  standing& to = succeed(from);
  begin(to);
  to.written = false;
  rest(to, now);
}

/// A rider whose carrier has lost the node.
void queue::ask_anew(standing& s, time_point now) {
  if (ride(s, now)) return;
  begin(s);
  s.written = false;
  rest(s, now);
}

/// The riders of `from` are those of the first of them.
standing& queue::succeed(standing& from) {
  standing& to = *from.riders.front();
  auto const riders = std::exchange(from.riders, {});
  to.carrier = nullptr;
  for (standing* one : riders) {
    if (one != &to) mount(*one, to);
  }
  if (auto const found = carriers_.find(owner_and_lock(from)); found != carriers_.end() && found->second == &from) found->second = &to;
  return to;
}

/// All that have the node of `s`.
std::vector<standing*> queue::sharing_with(standing& s) {
  standing& carrier = s.carrier != nullptr ? *s.carrier : s;
  std::vector<standing*> all{&carrier};
  all.insert(all.end(), carrier.riders.begin(), carrier.riders.end());
  return all;
}

}  // namespace conch::zookeeper
