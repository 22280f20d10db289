// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue/riders.hpp"

#include <boost/assert.hpp>

#include <utility>

namespace conch::zookeeper {

using engine::place_state;

namespace {

bool is_reentrant(standing const& s) noexcept { return s.asks.kind == engine::permit_kind::reentrant; }

/// The key of all places that may share a node. Hex digits, and a path.
std::string owner_and_lock(standing const& s) { return std::string{s.asks.owner} + s.folder; }

}  // namespace

/// A place that asks: is its owner in this queue already? Then it rides. Otherwise others may ride on it from now on.
bool riders::ride(standing& s, time_point now) {
  if (!is_reentrant(s)) return false;
  auto const [found, is_first] = carriers_.try_emplace(owner_and_lock(s), &s);
  if (is_first) return false;
  s.its_node() = {.made_in = on_.sent.session_number()};
  s.has_turn = s.wants_renewal = false;
  mount(s, *found->second);
  on_.all.rest(s, now);
  return true;
}

void riders::mount(standing& s, standing& carrier) {
  s.carrier = &carrier;
  carrier.riders.push_back(&s);
}

void riders::dismount(standing& s) {
  if (s.carrier != nullptr) std::erase(s.carrier->riders, &s);
  s.carrier = nullptr;
}

void riders::rest_riders(standing& carrier, time_point now) {
  for (standing* s : carrier.riders) on_.all.rest(*s, now);
}

/// No place mounts it any more.
void riders::carry_no_more(standing& s) {
  if (!is_reentrant(s)) return;
  auto const found = carriers_.find(owner_and_lock(s));
  if (found != carriers_.end() && found->second == &s) carriers_.erase(found);
}

/// A place with a node was granted: others of its owner have it, too. One queued behind it, because it asked while this
/// one was leaving, mounts now.
void riders::granted_to_owner(standing& s, time_point now) {
  if (!is_reentrant(s)) return;
  standing*& carrier = carriers_[owner_and_lock(s)];
  standing* const behind = std::exchange(carrier, &s);
  if (behind != nullptr && behind != &s) {
    for (standing* rider : std::exchange(behind->riders, {})) mount(*rider, s);
    on_.all.unwatch(*behind);
    if (behind->written) owed_.owe(*behind, nullptr, now);
    on_.all.forget(*behind);
    behind->its_node() = {.made_in = behind->made_in};
    behind->written = behind->has_turn = false;
    mount(*behind, s);
  }
  rest_riders(s, now);
}

/// The first rider carries from now on, with the node and with all that is under way for it.
standing& riders::pass_on(standing& from, time_point now) {
  standing& to = succeed(from);
  to.its_node() = from.its_node();
  on_.all.know(to);
  from.number = 0;
  to.written = from.written;
  to.by_push = from.by_push;
  if (to.state != place_state::owned) to.has_turn = from.has_turn || from.state == place_state::owned;
  on_.all.pass_on_watches(from, to);
  on_.sent.pass_on(from, to);
  if (from.state == place_state::in_line && to.state == place_state::asking) enter(to, place_state::in_line);
  if (to.has_turn) on_.all.rest(to, now);
  return to;
}

/// The same without the node: it asks for another one.
void riders::pass_on_the_asking(standing& from, time_point now) {
  if (from.riders.empty()) return;
  standing& to = succeed(from);
  on_.all.begin(to);
  to.written = false;
  on_.all.rest(to, now);
}

/// A rider whose carrier has lost the node.
void riders::ask_anew(standing& s, time_point now) {
  if (ride(s, now)) return;
  on_.all.begin(s);
  s.written = false;
  on_.all.rest(s, now);
}

/// The riders of `from` are those of the first of them.
standing& riders::succeed(standing& from) {
  standing& to = *from.riders.front();
  auto const all = std::exchange(from.riders, {});
  to.carrier = nullptr;
  for (standing* one : all) {
    if (one != &to) mount(*one, to);
  }
  if (auto const found = carriers_.find(owner_and_lock(from)); found != carriers_.end() && found->second == &from)
    found->second = &to;
  return to;
}

/// All that have the node of `s`.
std::vector<standing*> riders::sharing_with(standing& s) {
  standing& carrier = s.carrier != nullptr ? *s.carrier : s;
  std::vector<standing*> all{&carrier};
  all.insert(all.end(), carrier.riders.begin(), carrier.riders.end());
  return all;
}

void riders::become_idle(standing& s, time_point now) {
  // a grant that no client has received owes no interval
  keeps_.let_go(s, s.state == place_state::owned ? s.kept_until : time_point::min(), now);
  enter(s, place_state::idle);
  s.unlink();
  s.check.cancel();
  carry_no_more(s);
  dismount(s);
  BOOST_ASSERT_MSG(s.riders.empty(), "a place without a node has riders");
  on_.all.forget(s);
  s.has_turn = s.wants_renewal = false;
  on_.all.unwatch(s);
  if (on_.all.is_empty()) on_.session.need_no_deadline();
}

/// It is idle. False: others of its owner have its node, or keep asking for it, so there is nothing to remove.
bool riders::step_out(standing& s, time_point now) {
  bool const is_shared = s.carrier != nullptr || !s.riders.empty();
  if (!s.riders.empty()) pass_on(s, now);
  become_idle(s, now);
  return !is_shared;
}

}  // namespace conch::zookeeper
