// What clients of an ensemble are granted and told, against what the ensemble has.
#include "sim/worlds/zookeeper_world.hpp"

#include <algorithm>
#include <utility>

namespace conch::sim {

namespace {

constexpr nanos no_end = INT64_MAX / 4;

using engine::place_state;

std::string words_of(zookeeper_hold const& h) {
  return "client " + std::to_string(h.client->number) + " with lock " + std::to_string(h.name);
}

bool is_valid(zookeeper_hold const& h) { return h.active && !h.told && h.client->local() < h.deadline(); }

zookeeper::queue_place const* place_of(zookeeper_hold const& h) {
  return h.lock == nullptr ? nullptr : static_cast<zookeeper::queue_place const*>(h.lock->place.get());
}

/// Its client has withdrawn its node, or was told that it never gets the lock.
bool is_leaving(zookeeper::queue_place const& place) {
  return (place.state == place_state::asking && !place.wait) || place.leave_sent || place.refusal;
}

bool waits_on(zookeeper_hold const& h) { return h.waiting && !h.once && !h.cancelled && h.until == time_point::max(); }

}  // namespace

zookeeper_line_hold zookeeper_world::in_line(zookeeper_hold const& h) const {
  zookeeper_line_hold l{h.client->id, wanted_by(h.permit), {}, h.fence, h.asked_at};
  if (h.active) l.node = zookeeper_tree::name_of(h.node);
  else if (auto const* const place = place_of(h)) l.node = zookeeper_tree::name_of(place->node);
  l.at_least_ms = h.at_least.count();
  l.clock_ms = model_->latest_clock_ms();
  return l;
}

std::chrono::milliseconds zookeeper_world::draw_interval() {
  random_source& r = intervals_;
  if (!with_intervals || !r.chance(40)) return {};
  return std::chrono::milliseconds{r.chance(60) ? r.between(1, 300) : r.between(300, 3 * lease / millisecond / 2)};
}

void zookeeper_world::asks(zookeeper_hold& h) {
  locks_[static_cast<std::size_t>(h.name)].waiting.push_back(&h);
  if (!of_all_kinds && !h.permit) h.in_history = history_.asked(h.name, h.once, h.client->id, now_);
  if (traced_)
    say("client ", h.client->number, h.once ? " tries " : " asks for ", words_of(wanted_by(h.permit)), " of lock ",
        h.name);
}

/// From when on, and for how long, nobody may wait who could have the lock.
nanos zookeeper_world::since() const {
  return calm ? 500 * millisecond : healing_ ? healed_at_ + 6 * lease + 20 * tick + 2 * second : no_end;
}
nanos zookeeper_world::patience() const { return calm ? 40 * (latency + jitter) + 20 * millisecond : lease; }

void zookeeper_world::granted(zookeeper_hold& h) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  auto const who = [&h] {
    return "client " + std::to_string(h.client->number) + " is granted lock " + std::to_string(h.name);
  };
  h.node = place_of(h)->node;
  h.active = true;
  h.granted_at = now_;
  h.seen_deadline = h.deadline();
  history_.granted(h.in_history, h.fence, now_);
  history_.good_until(h.in_history, h.client->true_time(h.deadline()));
  std::erase(w.waiting, &h);
  zookeeper_line_hold const mine = in_line(h);
  if (traced_)
    say("client ", h.client->number, " is granted ", words_of(mine.share), " of lock ", h.name, " with fence ", h.fence,
        " for ", (h.deadline() - h.client->local()).count() / millisecond, " ms",
        w.active.empty() ? "" : ", others active");
  std::vector<zookeeper_line_hold> believed;
  for (zookeeper_hold const* other : w.active) {
    if (other->told) continue;
    believed.push_back(in_line(*other));
    if (is_valid(*other)) continue;
    if (!other->client->paused && zookeeper_line_judge::exclude_each_other(mine, believed.back()))
      throw violation{
          3, who() + " and client " + std::to_string(other->client->number) + " has not been told of its loss"};
    believed.pop_back();
  }
  if (h.deadline() <= h.client->local()) throw violation{3, who() + " when its validity is over"};
  bool const remote = h.fence % engine::hand_offs_per_grant == 0;
  // A coroutine that gets it in memory from its own client was not queued.
  if (w.line.kept_until() > h.asked_at) ++result.behind_intervals;
  w.line.granted(mine, believed, asked_before(h), remote ? since() : no_end, patience(), now_);
  if (calm) {
    // Nobody leaves a free lock alone that is asked for.
    nanos first = h.asked_at;
    for (zookeeper_hold const* one : w.waiting) first = std::min(first, one->asked_at);
    nanos const idle = now_ - std::max({w.free_since, first, since(), w.line.kept_until()});
    if (w.active.empty() && idle > patience()) {
      throw violation{4, "lock " + std::to_string(h.name) + " was left alone for " +
                             std::to_string(idle / microsecond) + " us although it was asked for"};
    }
    if (remote) ++result.calm_remote_grants;
  }
  ++result.grants;
  if (!believed.empty()) ++result.beside_others;
  if (std::any_of(believed.begin(), believed.end(), [&](zookeeper_line_hold const& o) { return o.node == mine.node; }))
    ++result.in_one_node;
  w.active.push_back(&h);
}

/// P5 within one client: what has asked earlier for a place of its own stands earlier. Unless it had to ask once more:
/// because its connection ended, or because the folder had to be made, which was there for the one behind it. What is
/// refused waits for nothing but the end of its node.
std::vector<zookeeper_line_hold> zookeeper_world::asked_before(zookeeper_hold const& h) const {
  std::vector<zookeeper_line_hold> found;
  bool const has_own_place =
      h.permit.kind == engine::permit_kind::semaphore || h.permit.kind == engine::permit_kind::shared;
  if (!calm || !has_own_place) return found;
  for (zookeeper_hold const* one : locks_[static_cast<std::size_t>(h.name)].waiting) {
    auto const* const place = place_of(*one);
    bool const stays_in_line = place != nullptr && place->folders_made == 0 && !is_leaving(*place);
    if (one->client == h.client && one->serial < h.serial && waits_on(*one) && one->permit.kind == h.permit.kind &&
        stays_in_line)
      found.push_back(in_line(*one));
  }
  return found;
}

// ------------------------------------------------------------------------------------------------------- the ensemble

int zookeeper_world::lock_of(std::string_view path) const {
  std::string_view const folder = zookeeper_tree::name_of(zookeeper_tree::parent_of(path));
  for (int i = 0; i < names; ++i) {
    if (folder == name_of(i)) return i;
  }
  return -1;
}

/// Does a place of a living client know it, that waits or holds?
bool zookeeper_world::is_wanted(zookeeper_line_node const& n) const {
  for (auto const& c : clients_) {
    if (!c->alive || c->id != n.client) continue;
    for (auto const& one : c->coroutines_) {
      auto const* const place = one.hold == nullptr ? nullptr : place_of(*one.hold);
      bool const knows =
          place != nullptr && (place->number == n.number || zookeeper_tree::name_of(place->node) == n.name);
      if (!knows) continue;
      if (!is_leaving(*place) && (place->state == place_state::asking || place->state == place_state::in_line ||
                                  place->state == place_state::owned))
        return true;
    }
  }
  return false;
}

void zookeeper_world::decided(zookeeper_transaction const& t) {
  using kind = zookeeper_transaction::kind;
  if (t.what == kind::create && t.owner != 0 && t.owner != zookeeper_tree::container) {
    int const of = lock_of(t.path);
    if (of < 0) return;
    zookeeper_line_node n = read_line_node(zookeeper_tree::name_of(t.path));
    n.session = t.session;
    n.created = t.zxid;
    locks_[static_cast<std::size_t>(of)].line.made(std::move(n), now_);
  }
  if (t.what == kind::create && t.owner == 0 && keeps_a_lock(zookeeper_tree::name_of(t.path))) {
    int const of = lock_of(t.path);
    if (of < 0) return;
    zookeeper_line_keep k = read_line_keep(zookeeper_tree::name_of(t.path));
    k.made_ms = t.at_ms;
    locks_[static_cast<std::size_t>(of)].line.kept(std::move(k), now_);
  }
  if (t.what == kind::remove) {
    int const of = lock_of(t.path);
    if (of < 0) return;
    auto const name = zookeeper_tree::name_of(t.path);
    if (keeps_a_lock(name)) {
      locks_[static_cast<std::size_t>(of)].line.kept_no_more(read_line_keep(name));
      return;
    }
    locks_[static_cast<std::size_t>(of)].line.gone(name, is_wanted(read_line_node(name)), now_);
  }
  if (t.what == kind::close_session) {
    ++result.expired;
    say("session ", t.session, " is over");
    for (watch& w : locks_) w.line.session_over(t.session, now_);
  }
  if (t.what != kind::remove && t.what != kind::close_session) return;
  // P1 and P3, also where nobody is granted it yet: a hold that is valid has its node.
  for (watch const& w : locks_) {
    for (zookeeper_hold const* h : w.active) {
      if (!is_valid(*h) || model_->truth().find(h->node) != nullptr) continue;
      throw violation{1, words_of(*h) + " believes that it holds it for " +
                             std::to_string((h->deadline() - h->client->local()).count() / millisecond) +
                             " ms more, and its node is gone"};
    }
  }
}

// ------------------------------------------------------------------------------------------------------ what is told

void zookeeper_world::answered(zookeeper_hold& h, bool failed, error_code why) {
  say("client ", h.client->number, " does not get lock ", h.name, ": ", why.message());
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  std::erase(w.waiting, &h);
  history_.refused(h.in_history, now_);
  nanos const lag = calm ? patience() : no_end / 2;
  bool const of_kind = why == errc::wrong_type, of_owner = why == errc::not_supported,
             of_no_place = why == errc::server_refused;
  if (of_kind) w.line.told_of_another_kind(in_line(h), lag);
  if (of_owner) w.line.told_of_another_client(in_line(h), lag);
  if (of_no_place) w.line.told_of_no_place(in_line(h), lag);
  result.no_place_told += of_no_place ? 1 : 0;
  result.other_kind_told += of_kind ? 1 : 0;
  result.owner_elsewhere_told += of_owner ? 1 : 0;
  bool const asked_for =
      h.cancelled || h.until != time_point::max() || h.busy_is_late || of_kind || of_owner || of_no_place;
  if (calm && failed && !asked_for)
    throw violation{4, "an acquire of " + words_of(h) + " failed although nothing is wrong: " + why.message()};
  if (failed && (why == errc::protocol || why == errc::invalid_config || why == errc::access_denied))
    throw violation{11, words_of(h) + " is told " + why.message()};
}

void zookeeper_world::lost(zookeeper_hold& h) {
  ++result.losses;
  if (calm && !h.fixed) throw violation{9, words_of(h) + " lost it although nothing is wrong"};
  h.told = true;
  history_.lost(h.in_history, now_);
  ended(h);
}

void zookeeper_world::releases(zookeeper_hold& h) {
  h.released_valid = is_valid(h);
  ended(h);
}

void zookeeper_world::release_answered(zookeeper_hold& h, bool was_held, error_code why) {
  say("client ", h.client->number, was_held ? " had lock " : " did not have lock ", h.name,
      why ? ": " + why.message() : std::string{});
  using history::outcome;
  history_.release_answered(h.in_history, why ? outcome::unknown : was_held ? outcome::held : outcome::not_held, now_);
  if (was_held && !h.released_valid)
    throw violation{7, words_of(h) + " released it too late, and was told that it still had it"};
  if (!was_held && !why && h.released_valid)
    throw violation{8, words_of(h) + " released it in time, and was told that it had lost it"};
  if (calm && why)
    throw violation{8, "a release of " + words_of(h) + " failed although nothing is wrong: " + why.message()};
}

void zookeeper_world::ended(zookeeper_hold& h) {
  watch& w = locks_[static_cast<std::size_t>(h.name)];
  std::erase(w.waiting, &h);
  if (h.active && !h.told) history_.released(h.in_history, now_);  // or its client dies
  if (std::erase(w.active, &h) != 0 && w.active.empty()) w.free_since = now_;
  h.active = false;
}

/// P3: told before the deadline, by the local clock alone.
void zookeeper_world::checked(zookeeper_client& c) {
  for (auto const& one : c.coroutines_) {
    zookeeper_hold* const h = one.hold.get();
    if (h == nullptr) continue;
    auto const* const place = place_of(*h);
    if (waits_on(*h) && place != nullptr &&
        (place->state == place_state::asking || place->state == place_state::in_line))
      locks_[static_cast<std::size_t>(h->name)].line.waits(in_line(*h), since(), patience(), now_);
    if (!h->active || h->told) continue;
    history_.good_until(h->in_history, c.true_time(h->deadline()));
    if (time_point const before = std::exchange(h->seen_deadline, h->deadline());
        before <= c.local() && before < h->deadline())
      throw violation{3, words_of(*h) + " believes in it again after it had expired"};
    constexpr duration lateness = std::chrono::milliseconds{1};
    if (c.disturbed < now_ - second && c.local() > h->deadline() + lateness)
      throw violation{3, words_of(*h) + " has not been told that it is over"};
  }
}

void zookeeper_world::writes(zookeeper_client& c, zookeeper::request const& r) {
  bool const beat = std::holds_alternative<zookeeper::ping>(r) || std::holds_alternative<zookeeper::set_data>(r);
  if (std::holds_alternative<zookeeper::get_children>(r)) ++c.lists_;
  if (auto const* const made = std::get_if<zookeeper::create>(&r);
      made != nullptr && made->kind == zookeeper::node_kind::ephemeral_sequential)
    ++c.creations_;
  if (beat) ++c.heartbeats_;
  // P10: while they wait nothing is sent but the heartbeat.
  bool const waits = std::any_of(c.coroutines_.begin(), c.coroutines_.end(),
                                 [](auto const& one) { return one.hold != nullptr && one.hold->waiting; });
  bool const asks = std::any_of(c.coroutines_.begin(), c.coroutines_.end(), [](auto const& one) {
    return one.hold != nullptr && (!one.hold->waiting || one.hold->cancelled || one.hold->until != time_point::max());
  });
  // A timer also ends an interval.
  if (calm && c.in_tick_ && waits && !asks && !beat && !with_intervals && now_ > second)
    throw violation{10, "client " + std::to_string(c.number) + " asks again while it waits"};
  if (auto const* const set = std::get_if<zookeeper::set_data>(&r); set != nullptr &&
                                                                    set->path.find("/.clients/") == std::string::npos &&
                                                                    !keeps_a_lock(zookeeper_tree::name_of(set->path)))
    throw violation{10, "client " + std::to_string(c.number) + " writes to " + set->path};
}

}  // namespace conch::sim
