// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/order.hpp"

#include <algorithm>
#include <utility>

namespace conch::zookeeper {

namespace {

bool is_of_client(std::string_view name, std::string_view client) {
  auto const read = read_node_name(name);
  return read && read->client == client;
}

struct candidate {
  std::int32_t sequence;
  terms asks;
  std::string_view name;
};

bool has_interval(candidate const& c) noexcept { return c.asks.interval_ms != 0; }

/// Does it keep the lock for another grant?
bool keeps_out(std::string_view name, node_name const& me) {
  auto const keep = read_keep_name(name);
  return keep && (keep->client != me.client || keep->number != me.number);
}

bool is_farther(candidate const& a, candidate const& b) noexcept { return is_before(a.sequence, b.sequence); }

/// What a node ahead takes. One of another kind admits none beside it: it is about to end, or mine is.
share taken_by(terms const& ahead, terms const& mine) noexcept {
  if (!is_alike(ahead, mine)) return {};
  return {ahead.weight, ahead.limit};
}

/// How many of the nearest block the one that asks, without the others. None: these do not.
std::size_t blocking(std::span<node_ahead const> nearest_first, share mine) noexcept {
  room_for room{mine};
  for (std::size_t i = 0; i < nearest_first.size(); ++i) {
    room.add(nearest_first[i].takes);
    if (!room.is_enough()) return i + 1;
  }
  return 0;
}

/// The nearest that block, and as many more. All together block.
view whom_to_watch(std::vector<candidate> all, terms const& mine) {
  std::make_heap(all.begin(), all.end(), is_farther);
  view seen;
  room_for room{share_of(mine)};
  for (std::size_t wanted = all.size(); !all.empty() && seen.watched.size() < wanted;) {
    std::pop_heap(all.begin(), all.end(), is_farther);
    candidate const next = all.back();
    all.pop_back();
    seen.watched.push_back({std::string{next.name}, taken_by(next.asks, mine)});
    if (!room.is_enough()) continue;
    room.add(seen.watched.back().takes);
    if (!room.is_enough()) wanted = 2 * seen.watched.size();
  }
  seen.others = all.size();
  return seen;
}

}  // namespace

bool room_for::is_enough() const noexcept { return ahead_ == 0 || (greatest_ < limit_ && sum_ <= limit_); }

void room_for::add(share ahead) noexcept {
  ++ahead_;
  sum_ += ahead.weight;
  greatest_ = std::max(greatest_, ahead.weight);
  limit_ = std::min(limit_, ahead.limit);
}

view::step view::gone(std::string_view name, share mine) {
  auto const it = std::find_if(watched.begin(), watched.end(), [&](node_ahead const& one) { return one.name == name; });
  if (it == watched.end()) return step::nothing;
  watched.erase(it);
  std::size_t const block = blocking(watched, mine);
  // A node that keeps the lock was made after the list.
  if (others == 0 && block == 0) return may_be_kept ? step::lists : step::granted;
  if (others == 0) return step::nothing;
  // One of them is to be spare: so the list comes before the turn does.
  return block != 0 && watched.size() > block ? step::nothing : step::lists;
}

verdict judge(std::span<std::string const> names, std::string_view mine) {
  using kind = verdict::kind;
  auto const me = read_node_name(mine);
  if (!me || std::find(names.begin(), names.end(), mine) == names.end()) return {.is = kind::not_there};
  if (!is_place(me->sequence)) return {.is = kind::has_no_place};
  std::vector<candidate> ahead;
  std::string_view kept_by;
  for (std::string const& one : names) {
    auto const name = read_node_name(one);
    if (!name && keeps_out(one, *me)) kept_by = one;
    if (one == mine || !name || !is_place(name->sequence)) continue;
    if (is_before(name->sequence, me->sequence)) ahead.push_back({name->sequence, name->terms, one});
  }
  terms const& asks = me->terms;
  auto const first = std::min_element(ahead.begin(), ahead.end(), is_farther);
  if (!kept_by.empty() && !is_alike(terms{}, asks)) return {.is = kind::other_kind, .whose = kept_by};
  if (first != ahead.end()) {
    if (!is_alike(first->asks, asks)) return {.is = kind::other_kind, .whose = first->name};
  }
  room_for room{share_of(asks)};
  for (candidate const& one : ahead) {
    bool const same_owner = asks.kind == engine::permit_kind::reentrant && one.asks == asks;
    if (same_owner && !is_of_client(one.name, me->client)) return {.is = kind::owner_is_away, .whose = one.name};
    room.add(taken_by(one.asks, asks));
  }
  if (room.is_enough() && kept_by.empty()) return {.is = kind::granted};
  bool const may_be_kept = !kept_by.empty() || std::any_of(ahead.begin(), ahead.end(), has_interval);
  if (room.is_enough())
    return {.is = kind::kept, .ahead = {.watched = {{std::string{kept_by}, {}}}, .may_be_kept = may_be_kept}};
  view seen = whom_to_watch(std::move(ahead), asks);
  seen.may_be_kept = may_be_kept;
  return {.is = kind::waits, .ahead = std::move(seen)};
}

}  // namespace conch::zookeeper
