// What clients of an ensemble are granted and told, against what the ensemble has.
#include "sim/worlds/zookeeper_world.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

std::string words_of(zookeeper_hold const& h) { return "client " + std::to_string(h.client->number) + " with lock " + std::to_string(h.name); }

bool is_valid(zookeeper_hold const& h) { return h.active && !h.told && h.client->local() < h.deadline(); }

}  // namespace

void zookeeper_world::asks(zookeeper_hold& h) {
  locks_[static_cast<std::size_t>(h.name)].waiting.push_back(&h);
  say("client ", h.client->number, h.once ? " tries lock " : " asks for lock ", h.name);
}

void zookeeper_world::granted(zookeeper_hold& h) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  auto const who = [&h] { return "client " + std::to_string(h.client->number) + " is granted lock " + std::to_string(h.name); };
  say("client ", h.client->number, " is granted lock ", h.name, " with fence ", h.fence, " for ",
      (h.deadline() - h.client->local()).count() / millisecond, " ms", w.active.empty() ? "" : ", others active");
  for (zookeeper_hold const* other : w.active) {
    auto const whose = "client " + std::to_string(other->client->number);
    if (other->told) continue;
    if (is_valid(*other)) throw violation{1, who() + " while " + whose + " holds it"};
    if (!other->client->paused) throw violation{3, who() + " and " + whose + " has not been told of its loss"};
  }
  if (h.fence <= w.highest) throw violation{2, who() + " with fence " + std::to_string(h.fence) + " after " + std::to_string(w.highest)};
  if (h.deadline() <= h.client->local()) throw violation{3, who() + " when its validity is over"};
  w.highest = h.fence;
  h.node = static_cast<zookeeper::standing const&>(*h.lock->place).node;
  must_be_first(h);
  bool const remote = h.fence % engine::hand_offs_per_grant == 0;
  if (calm) {
    // Nobody leaves a free lock alone that is asked for.
    nanos first = now_;
    for (zookeeper_hold const* one : w.waiting) first = std::min(first, one->asked_at);
    nanos const idle = now_ - std::max({w.free_since, first, 500 * millisecond});
    if (w.active.empty() && idle > 40 * (latency + jitter) + 20 * millisecond) {
      throw violation{
          4, "lock " + std::to_string(h.name) + " was left alone for " + std::to_string(idle / microsecond) + " us although it was asked for"};
    }
    if (remote) ++result.calm_remote_grants;
  }
  ++result.grants;
  h.active = true;
  h.granted_at = now_;
  std::erase(w.waiting, &h);
  w.active.push_back(&h);
}

/// P5: the order of the nodes is the order of asking. What the ensemble has is newer than what any client has seen.
void zookeeper_world::must_be_first(zookeeper_hold const& h) const {
  zookeeper_tree const& truth = model_->truth();
  auto const* const mine = truth.find(h.node);
  if (mine == nullptr) throw violation{1, words_of(h) + " is granted it, and its node " + h.node + " is gone"};
  if (!zookeeper_tree::name_of(h.node).starts_with(h.client->id)) throw violation{7, words_of(h) + " takes the node " + h.node + " for its own"};
  std::string const folder{zookeeper_tree::parent_of(h.node)};
  for (std::string const& name : truth.find(folder)->children) {
    auto const* const other = truth.find(folder + "/" + name);
    if (other->created < mine->created) throw violation{5, words_of(h) + " is granted it, and " + name + " stands before " + h.node};
  }
}

/// P1 and P3, also where nobody is granted it yet: a hold that is valid has its node.
void zookeeper_world::decided(zookeeper_transaction const& t) {
  using kind = zookeeper_transaction::kind;
  if (t.what == kind::close_session) {
    ++result.expired;
    say("session ", t.session, " is over");
  }
  if (t.what != kind::remove && t.what != kind::close_session) return;
  for (watch const& w : locks_) {
    for (zookeeper_hold const* h : w.active) {
      if (!is_valid(*h) || model_->truth().find(h->node) != nullptr) continue;
      throw violation{1, words_of(*h) + " believes that it holds it for " +
                             std::to_string((h->deadline() - h->client->local()).count() / millisecond) + " ms more, and its node is gone"};
    }
  }
}

void zookeeper_world::answered(zookeeper_hold& h, bool failed, error_code why) {
  say("client ", h.client->number, " does not get lock ", h.name, ": ", why.message());
  std::erase(locks_[static_cast<std::size_t>(h.name)].waiting, &h);
  bool const asked_for = h.cancelled || h.until != time_point::max() || h.busy_is_late;
  if (calm && failed && !asked_for) throw violation{4, "an acquire of " + words_of(h) + " failed although nothing is wrong: " + why.message()};
  if (failed && (why == errc::protocol || why == errc::invalid_config || why == errc::access_denied || why == errc::server_refused))
    throw violation{11, words_of(h) + " is told " + why.message()};
}

void zookeeper_world::lost(zookeeper_hold& h) {
  ++result.losses;
  if (calm && !h.fixed) throw violation{9, words_of(h) + " lost it although nothing is wrong"};
  h.told = true;
  ended(h);
}

void zookeeper_world::releases(zookeeper_hold& h) {
  h.released_valid = is_valid(h);
  ended(h);
}

void zookeeper_world::release_answered(zookeeper_hold& h, bool was_held, error_code why) {
  say("client ", h.client->number, was_held ? " had lock " : " did not have lock ", h.name, why ? ": " + why.message() : std::string{});
  if (was_held && !h.released_valid) throw violation{7, words_of(h) + " released it too late, and was told that it still had it"};
  if (!was_held && !why && h.released_valid) throw violation{8, words_of(h) + " released it in time, and was told that it had lost it"};
  if (calm && why) throw violation{8, "a release of " + words_of(h) + " failed although nothing is wrong: " + why.message()};
}

void zookeeper_world::ended(zookeeper_hold& h) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  std::erase(w.waiting, &h);
  if (std::erase(w.active, &h) != 0 && w.active.empty()) w.free_since = now_;
  h.active = false;
}

/// P3: told before the deadline, by the local clock alone.
void zookeeper_world::checked(zookeeper_client& c) {
  for (auto const& one : c.coroutines_) {
    zookeeper_hold const* const h = one.hold.get();
    if (h == nullptr || !h->active || h->told) continue;
    constexpr duration lateness = std::chrono::milliseconds{1};
    if (c.disturbed < now_ - second && c.local() > h->deadline() + lateness) throw violation{3, words_of(*h) + " has not been told that it is over"};
  }
}

void zookeeper_world::writes(zookeeper_client& c, zookeeper::request const& r) {
  bool const beat = std::holds_alternative<zookeeper::ping>(r) || std::holds_alternative<zookeeper::set_data>(r);
  if (std::holds_alternative<zookeeper::get_children>(r)) ++c.lists_;
  if (auto const* const made = std::get_if<zookeeper::create>(&r); made != nullptr && made->kind == zookeeper::node_kind::ephemeral_sequential)
    ++c.creations_;
  if (beat) ++c.heartbeats_;
  // P10: while they wait nothing is sent but the heartbeat.
  bool const waits =
      std::any_of(c.coroutines_.begin(), c.coroutines_.end(), [](auto const& one) { return one.hold != nullptr && one.hold->waiting; });
  bool const asks = std::any_of(c.coroutines_.begin(), c.coroutines_.end(), [](auto const& one) {
    return one.hold != nullptr && (!one.hold->waiting || one.hold->cancelled || one.hold->until != time_point::max());
  });
  if (calm && c.in_tick_ && waits && !asks && !beat && now_ > second)
    throw violation{10, "client " + std::to_string(c.number) + " asks again while it waits"};
  if (auto const* const set = std::get_if<zookeeper::set_data>(&r); set != nullptr && set->path.find("/.clients/") == std::string::npos)
    throw violation{10, "client " + std::to_string(c.number) + " writes to " + set->path};
}

}  // namespace conch::sim
