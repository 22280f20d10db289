#include "sim/judges/zookeeper_line_judge.hpp"

#include "engine/backend.hpp"
#include "sim/judges/observer.hpp"
#include "sim/worlds/words.hpp"

#include <boost/assert.hpp>

#include <algorithm>

namespace conch::sim {

namespace {

using engine::permit_kind;

constexpr std::size_t nobody = SIZE_MAX;

std::string words_of(zookeeper_line_hold const& h) {
  return "client " + h.client + " with " + words_of(h.share) + " at " + h.node;
}

bool same_owner(zookeeper_line_hold const& a, zookeeper_line_hold const& b) {
  return a.share.kind == permit_kind::reentrant && b.share.kind == permit_kind::reentrant &&
         a.share.owner == b.share.owner && a.client == b.client;
}

bool is_owner_elsewhere(std::string_view client, zookeeper_share const& share, zookeeper_line_node const& n) {
  return share.kind == permit_kind::reentrant && n.share == share && n.client != client;
}

/// The sum of what they have, counted by the least limit that one of them knows: at most that limit.
bool are_within_limit(std::span<zookeeper_share const* const> all) {
  std::uint64_t least = engine::most_permits, sum = 0;
  for (auto const* s : all) least = std::min<std::uint64_t>(least, s->limit);
  for (auto const* s : all) sum += std::min<std::uint64_t>(s->weight, least);
  return sum <= least;
}

}  // namespace

zookeeper_share wanted_by(engine::permit const& p) {
  switch (p.kind) {
    case permit_kind::semaphore:
    case permit_kind::shared: return {p.kind, p.weight, p.limit};
    case permit_kind::reentrant: return {p.kind, 1, 1, p.owner()};
    default: return {p.kind};
  }
}

std::string words_of(zookeeper_share const& s) {
  switch (s.kind) {
    case permit_kind::semaphore: return std::to_string(s.weight) + " of " + std::to_string(s.limit) + " permits";
    case permit_kind::shared: return s.weight == 1 ? "a reader's place" : "a writer's place";
    case permit_kind::reentrant: return "the place of owner " + s.owner;
    default: return "a mutex's place";
  }
}

zookeeper_line_node read_line_node(std::string_view name) {
  auto const unreadable = [&] { return violation{10, "nobody can read the name of the node " + std::string{name}}; };
  auto const whole = [&](std::string_view text) {
    if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) throw unreadable();
    return static_cast<std::uint64_t>(number(text));
  };
  auto const dot = name.find('.');
  auto const dash = name.find('-', dot);
  if (dot == std::string_view::npos || dash == std::string_view::npos) throw unreadable();
  zookeeper_line_node n{std::string{name}};
  std::string_view const who = name.substr(0, dot);
  auto const mark = who.find('~');
  n.client = who.substr(0, mark);
  n.number = whole(name.substr(dot + 1, dash - dot - 1));
  std::string_view const sequence = name.substr(dash + 1);
  n.has_place = !sequence.starts_with('-') && whole(sequence) < 2'147'483'647;
  if (mark == std::string_view::npos) return n;
  std::string_view const terms = who.substr(mark + 1);
  auto const of = terms.find("of");
  if (terms.starts_with('i') && whole(terms.substr(1)) > 0) return n;
  if (terms == "r") n.share = {permit_kind::shared, 1, engine::most_permits};
  else if (terms == "w") n.share = {permit_kind::shared, engine::most_permits, engine::most_permits};
  else if (terms.starts_with('e')) n.share = {permit_kind::reentrant, 1, 1, std::string{terms.substr(1)}};
  else if (!terms.starts_with('s') || of == std::string_view::npos) throw unreadable();
  else
    n.share = {permit_kind::semaphore, static_cast<std::uint32_t>(whole(terms.substr(1, of - 1))),
               static_cast<std::uint32_t>(whole(terms.substr(of + 2)))};
  return n;
}

bool keeps_a_lock(std::string_view name) {
  auto const mark = name.find("~k");
  return mark != std::string_view::npos && mark < name.find('.');
}

zookeeper_line_keep read_line_keep(std::string_view name) {
  auto const mark = name.find("~k"), dot = name.find('.');
  zookeeper_line_node const of = read_line_node(std::string{name.substr(0, mark)} + std::string{name.substr(dot)});
  return {of.client, of.number, number(name.substr(mark + 2, name.find('c', mark) - mark - 2)), 0};
}

void zookeeper_line_judge::broken(int promise, std::string const& words) const {
  throw violation{promise, lock_ + ": " + words};
}

zookeeper_line_judge::standing_node const* zookeeper_line_judge::find(std::string_view name) const {
  auto const at = std::find_if(line_.begin(), line_.end(), [&](standing_node const& n) { return n.name == name; });
  return at == line_.end() ? nullptr : &*at;
}

// ------------------------------------------------------------------------------------------------------- the ensemble

void zookeeper_line_judge::made(zookeeper_line_node n, nanos now) {
  if (!n.has_place) return placeless_.push_back({std::move(n), now, -1, {}});
  auto refuses = who_refuses(n);
  line_.push_back({std::move(n), now, -1, std::move(refuses)});
  look(now);
}

void zookeeper_line_judge::gone(std::string_view name, bool wanted, nanos now) {
  auto const at = std::find_if(line_.begin(), line_.end(), [&](standing_node const& n) { return n.name == name; });
  if (at == line_.end()) return;
  if (wanted) broken(4, "client " + at->client + " removes its node " + at->name + ", and wants it still");
  at->gone_at = now;
  past_.push_back(std::move(*at));
  line_.erase(at);
  look(now);
}

void zookeeper_line_judge::session_over(std::int64_t session, nanos now) {
  std::erase_if(line_, [&](standing_node& n) {
    if (n.session != session) return false;
    n.gone_at = now;
    past_.push_back(n);
    return true;
  });
  look(now);
}

/// A waiter reckons with 1 % for its clock, in the whole interval twice: the client that was granted it, too.
void zookeeper_line_judge::kept(zookeeper_line_keep k, nanos now) {
  nanos const length = k.interval_ms * millisecond;
  keep one{std::move(k), now + length + length / 50 + 5 * millisecond};
  kept_until_ = std::max(kept_until_, one.over);
  keeps_.push_back(std::move(one));
}

void zookeeper_line_judge::kept_no_more(zookeeper_line_keep const& k) {
  for (keep& one : keeps_) {
    if (one.client == k.client && one.number == k.number) one.stands = false;
  }
}

/// The newest: it may have been made more than once.
zookeeper_line_judge::keep const* zookeeper_line_judge::keep_of(standing_node const& n) const {
  auto const at = std::find_if(keeps_.rbegin(), keeps_.rend(),
                               [&](keep const& k) { return k.client == n.client && k.number == n.number; });
  return at == keeps_.rend() ? nullptr : &*at;
}

void zookeeper_line_judge::keeps_nothing(std::string_view client, nanos after, nanos now) const {
  for (keep const& one : keeps_) {
    if (one.stands && one.client == client && one.over + after < now)
      broken(6, "a node of client " + one.client + " keeps it, and its interval was over " +
                    std::to_string((now - one.over) / millisecond) + " ms ago");
  }
}

/// P14, by the leader's clock: the interval begins with the node that keeps the lock, which is there before the grant.
void zookeeper_line_judge::not_within_interval(zookeeper_line_hold const& h, standing_node const& mine) const {
  if (h.clock_ms < interval_until_ms_)
    broken(14, words_of(h) + " is granted it " + std::to_string(interval_until_ms_ - h.clock_ms) +
                   " ms before the minimum interval since the grant of " + interval_of_ + " is over");
  for (keep const& one : keeps_) {
    bool const is_mine = one.client == mine.client && one.number == mine.number;
    if (one.stands && !is_mine)
      broken(14, words_of(h) + " is granted it, and a node of client " + one.client + " keeps it");
  }
  if (h.at_least_ms == 0) return;
  keep const* const own = keep_of(mine);
  if (own == nullptr || !own->stands) broken(14, words_of(h) + " is granted it with an interval, and nothing keeps it");
  if (own->interval_ms < h.at_least_ms) broken(14, words_of(h) + " is granted it, and it is kept for too short a time");
}

void zookeeper_line_judge::built_anew(nanos now) {
  keeps_.clear();
  interval_until_ms_ = 0;
  for (standing_node& n : line_) {
    n.gone_at = now;
    past_.push_back(std::move(n));
  }
  line_.clear();
  birth_ = -1;
}

/// The first in line is of another kind, or another client of the same owner is before it.
std::vector<std::string> zookeeper_line_judge::who_refuses(zookeeper_line_node const& n) const {
  std::vector<std::string> found;
  for (zookeeper_line_node const& one : line_) {
    bool const first_of_other_kind = one.name == line_.front().name && one.share.kind != n.share.kind;
    if (first_of_other_kind || is_owner_elsewhere(n.client, n.share, one)) found.push_back(one.name);
  }
  return found;
}

/// The first that keeps this one out, or nobody: all up to and including it are within the least limit that one of them
/// names. Nobody is seen who stands behind.
std::size_t zookeeper_line_judge::in_the_way(std::size_t at) const {
  std::vector<zookeeper_share const*> all{&line_[at].share};
  for (std::size_t i = 0; i < at; ++i) {
    if (line_[i].share.kind != line_[at].share.kind) return i;
    all.push_back(&line_[i].share);
    if (!are_within_limit(all)) return i;
  }
  return nobody;
}

void zookeeper_line_judge::look(nanos now) {
  for (std::size_t i = 0; i < line_.size(); ++i) {
    standing_node& n = line_[i];
    bool const fits = in_the_way(i) == nobody;
    BOOST_ASSERT_MSG(fits || n.fits_since < 0,
                     "a node could have the lock, and may not any more: the rule itself is wrong");
    if (fits && n.fits_since < 0) n.fits_since = now;
    std::erase_if(n.refuses, [&](std::string const& name) { return find(name) == nullptr; });
  }
}

// ------------------------------------------------------------------------------------------------------------ clients

bool zookeeper_line_judge::exclude_each_other(zookeeper_line_hold const& a, zookeeper_line_hold const& b) {
  if (same_owner(a, b)) return a.node != b.node;
  if (a.share.kind != b.share.kind) return true;
  zookeeper_share const* const both[] = {&a.share, &b.share};
  return !are_within_limit(both);
}

/// P1, of what is believed: nobody beside a writer, no two owners, and never more than the limit.
void zookeeper_line_judge::excludes(zookeeper_line_hold const& h, std::span<zookeeper_line_hold const> believed) const {
  std::vector<zookeeper_share const*> all{&h.share};
  std::vector<zookeeper_line_hold const*> counted{&h};
  for (zookeeper_line_hold const& other : believed) {
    if (exclude_each_other(h, other)) broken(1, words_of(h) + " is granted it, beside " + words_of(other));
    auto const shares_node = [&](zookeeper_line_hold const* c) { return c->node == other.node; };
    if (std::any_of(counted.begin(), counted.end(), shares_node)) {
      if (!same_owner(h, other)) broken(1, words_of(h) + " is granted it with the node of " + words_of(other));
      continue;  // one node of one owner
    }
    counted.push_back(&other);
    all.push_back(&other.share);
  }
  if (!are_within_limit(all))
    broken(1, words_of(h) + " is granted it, and with what " + std::to_string(all.size() - 1) +
                  " others believe to have that is too much");
}

/// P2: of any two that exclude each other the later has the greater token.
void zookeeper_line_judge::token_grows(zookeeper_line_hold const& h) {
  for (auto const& [what, before] : highest_) {
    if (before.token >= h.token && exclude_each_other(h, before))
      broken(2, words_of(h) + " is granted it with token " + std::to_string(h.token) + ", after " + words_of(before) +
                    " with " + std::to_string(before.token));
  }
  zookeeper_line_hold& mine =
      highest_[{static_cast<char>(h.share.kind), h.share.weight, h.share.limit, h.share.owner, h.client}];
  if (mine.token <= h.token) mine = h;
}

void zookeeper_line_judge::granted(zookeeper_line_hold const& h, std::span<zookeeper_line_hold const> believed,
                                   std::span<zookeeper_line_hold const> earlier, nanos since, nanos patience,
                                   nanos now) {
  excludes(h, believed);
  auto const is_its_node = [&](standing_node const& n) { return n.name == h.node; };
  if (std::any_of(placeless_.begin(), placeless_.end(), is_its_node))
    broken(1, words_of(h) + " is granted it with a number that others may have, too");
  standing_node const* const mine = find(h.node);
  if (mine == nullptr) broken(1, words_of(h) + " is granted it, and its node is gone");
  if (mine->client != h.client) broken(7, words_of(h) + " takes the node of client " + mine->client + " for its own");
  if (mine->share != h.share) broken(7, words_of(h) + " has a node that says " + words_of(mine->share));
  std::size_t const before = in_the_way(static_cast<std::size_t>(mine - line_.data()));
  if (before != nobody) {
    zookeeper_line_node const& n = line_[before];
    broken(n.share.kind != h.share.kind ? 1 : 5, words_of(h) + " is granted it, and " + n.name + " of client " +
                                                     n.client + " stands before it with " + words_of(n.share));
  }
  for (zookeeper_line_hold const& one : earlier) {
    standing_node const* const stands = find(one.node);
    if (stands == nullptr || stands > mine)
      broken(5, words_of(h) + " is granted it before " + words_of(one) + ", which has asked earlier");
  }
  std::int64_t const birth = h.token / engine::hand_offs_per_grant - mine->created;
  if (birth_ < 0) birth_ = birth;
  if (birth != birth_) broken(2, words_of(h) + " has a token that is not of its node");
  token_grows(h);
  not_within_interval(h, *mine);
  if (h.at_least_ms != 0) {
    interval_until_ms_ = keep_of(*mine)->made_ms + h.at_least_ms;
    interval_of_ = mine->name;
  }
  waits(h, since, patience, now);
}

void zookeeper_line_judge::waits(zookeeper_line_hold const& h, nanos since, nanos patience, nanos now) const {
  standing_node const* const mine = find(h.node);
  if (mine == nullptr) return;
  auto const too_long = [&](nanos from) { return from >= 0 && now - std::max({from, h.asked_at, since}) > patience; };
  auto const ms = [&](nanos from) {
    return std::to_string((now - std::max({from, h.asked_at, since})) / microsecond) + " us";
  };
  nanos const fits_since = mine->fits_since < 0 ? -1 : std::max(mine->fits_since, kept_until_);
  if (too_long(fits_since)) broken(4, words_of(h) + " could have had it for " + ms(fits_since));
  if (!mine->refuses.empty() && too_long(mine->made_at))
    broken(4, words_of(h) + " has not been told for " + ms(mine->made_at) + " that " + mine->refuses.front() +
                  " lets it never have it");
}

void zookeeper_line_judge::told_of_another_kind(zookeeper_line_hold const& h, nanos lag) const {
  auto const is_other = [&](standing_node const& n) { return n.share.kind != h.share.kind; };
  auto const was_other = [&](standing_node const& n) { return is_other(n) && n.gone_at >= h.asked_at - lag; };
  if (std::any_of(line_.begin(), line_.end(), is_other) || std::any_of(past_.begin(), past_.end(), was_other)) return;
  broken(11, words_of(h) + " is told that a lock of another kind has the name, and none has");
}

void zookeeper_line_judge::told_of_another_client(zookeeper_line_hold const& h, nanos lag) const {
  auto const is_other = [&](standing_node const& n) { return is_owner_elsewhere(h.client, h.share, n); };
  auto const was_other = [&](standing_node const& n) { return is_other(n) && n.gone_at >= h.asked_at - lag; };
  if (std::any_of(line_.begin(), line_.end(), is_other) || std::any_of(past_.begin(), past_.end(), was_other)) return;
  broken(11, words_of(h) + " is told that its owner has it in another client, and that is not so");
}

void zookeeper_line_judge::told_of_no_place(zookeeper_line_hold const& h, nanos lag) const {
  auto const is_its_own = [&](standing_node const& n) { return n.client == h.client && n.made_at >= h.asked_at - lag; };
  if (std::any_of(placeless_.begin(), placeless_.end(), is_its_own)) return;
  broken(11, words_of(h) + " is told that it has no place, and every node of its client had one");
}

}  // namespace conch::sim
