// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue/shared_nodes.hpp"

#include <boost/assert.hpp>

#include <utility>

namespace conch::zookeeper {

using engine::place_state;

namespace {

bool is_reentrant(queue_place const& p) noexcept { return p.asks.kind == engine::permit_kind::reentrant; }

/// The key of all places that may share a node. Hex digits, and a path.
std::string owner_and_lock(queue_place const& p) { return std::string{p.asks.owner} + p.folder; }

}  // namespace

/// A place that asks: is its owner in this queue already? Then it shares that node. Otherwise others may share its node
/// from now on.
bool shared_nodes::share_node(queue_place& p, time_point now) {
  if (!is_reentrant(p)) return false;
  auto const [found, is_first] = primaries_.try_emplace(owner_and_lock(p), &p);
  if (is_first) return false;
  p.its_node() = {.made_in = on_.sent.session_number()};
  p.has_turn = p.wants_renewal = false;
  join_node(p, *found->second);
  on_.all.rest(p, now);
  return true;
}

void shared_nodes::join_node(queue_place& p, queue_place& primary) {
  p.primary = &primary;
  primary.sharers.push_back(&p);
}

void shared_nodes::leave_node(queue_place& p) {
  if (p.primary != nullptr) std::erase(p.primary->sharers, &p);
  p.primary = nullptr;
}

void shared_nodes::rest_sharers(queue_place& primary, time_point now) {
  for (queue_place* p : primary.sharers) on_.all.rest(*p, now);
}

/// No other place joins its node any more.
void shared_nodes::stop_sharing(queue_place& p) {
  if (!is_reentrant(p)) return;
  auto const found = primaries_.find(owner_and_lock(p));
  if (found != primaries_.end() && found->second == &p) primaries_.erase(found);
}

/// A place with a node was granted: others of its owner have it, too. One queued behind it, because it asked while this
/// one was leaving, joins it now.
void shared_nodes::granted_to_owner(queue_place& p, time_point now) {
  if (!is_reentrant(p)) return;
  queue_place*& primary = primaries_[owner_and_lock(p)];
  queue_place* const behind = std::exchange(primary, &p);
  if (behind != nullptr && behind != &p) {
    for (queue_place* sharer : std::exchange(behind->sharers, {})) join_node(*sharer, p);
    on_.all.unwatch(*behind);
    if (behind->written) cleanups_.add(*behind, nullptr, now);
    on_.all.forget(*behind);
    behind->its_node() = {.made_in = behind->made_in};
    behind->written = behind->has_turn = false;
    join_node(*behind, p);
  }
  rest_sharers(p, now);
}

/// The first sharer becomes the primary: it takes over the node, and all that is under way for it.
queue_place& shared_nodes::pass_on(queue_place& from, time_point now) {
  queue_place& to = promote_first(from);
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
void shared_nodes::pass_on_the_asking(queue_place& from, time_point now) {
  if (from.sharers.empty()) return;
  queue_place& to = promote_first(from);
  on_.all.begin(to);
  to.written = false;
  on_.all.rest(to, now);
}

/// A sharer whose primary has lost the node.
void shared_nodes::ask_again(queue_place& p, time_point now) {
  if (share_node(p, now)) return;
  on_.all.begin(p);
  p.written = false;
  on_.all.rest(p, now);
}

/// The first sharer of `from` becomes the primary of the others.
queue_place& shared_nodes::promote_first(queue_place& from) {
  queue_place& to = *from.sharers.front();
  auto const all = std::exchange(from.sharers, {});
  to.primary = nullptr;
  for (queue_place* one : all) {
    if (one != &to) join_node(*one, to);
  }
  if (auto const found = primaries_.find(owner_and_lock(from)); found != primaries_.end() && found->second == &from)
    found->second = &to;
  return to;
}

/// All that have the node of `p`.
std::vector<queue_place*> shared_nodes::sharing_with(queue_place& p) {
  queue_place& primary = p.primary != nullptr ? *p.primary : p;
  std::vector<queue_place*> all{&primary};
  all.insert(all.end(), primary.sharers.begin(), primary.sharers.end());
  return all;
}

void shared_nodes::become_idle(queue_place& p, time_point now) {
  // a grant that no client has received owes no interval
  keeps_.let_go(p, p.state == place_state::owned ? p.kept_until : time_point::min(), now);
  enter(p, place_state::idle);
  p.unlink();
  p.check.cancel();
  stop_sharing(p);
  leave_node(p);
  BOOST_ASSERT_MSG(p.sharers.empty(), "a place without a node has sharers");
  on_.all.forget(p);
  p.has_turn = p.wants_renewal = false;
  on_.all.unwatch(p);
  if (on_.all.is_empty()) on_.session.need_no_deadline();
}

/// It is idle. False: others of its owner have its node, or keep asking for it, so there is nothing to remove.
bool shared_nodes::withdraw(queue_place& p, time_point now) {
  bool const is_shared = p.primary != nullptr || !p.sharers.empty();
  if (!p.sharers.empty()) pass_on(p, now);
  become_idle(p, now);
  return !is_shared;
}

}  // namespace conch::zookeeper
