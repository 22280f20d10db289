// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/topology/cluster.hpp"

#include "servers/redis/topology/address_map.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <set>

namespace conch::redis {

namespace {

using protocol::fault;

constexpr std::size_t digits_of_id = 8;

/// So often the same node is asked while the doubt does not end. It may be cut off from those that know.
constexpr unsigned most_in_vain = 20;

}  // namespace

cluster::cluster(std::vector<address> seeds, slot_map::times t, std::map<std::string, std::string> const& address_map,
                 address_choice::limits l)
    : seeds_{std::move(seeds)},
      limits_{l},
      map_{t, address_map} {
  BOOST_ASSERT(!seeds_.empty());
}

bool cluster::update(std::vector<named_slots> const& all, address const& by, time_point now) {
  BOOST_ASSERT(!all.empty());
  if (!std::exchange(is_connected_, true)) map_.connected(now);
  if (turn_ == turn::under_way) {
    choice_.succeeded();
    turn_ = turn::good;
  }
  bool const was_known = map_.is_known();
  if (!map_.update(all, now)) return false;
  failures_ = 0;
  look();
  if (!was_known) {
    std::size_t masters = 0;
    for (std::size_t i = 0; i < map_.nodes(); ++i) masters += map_.has_slots(i) ? 1 : 0;
    actions_.log.emplace_back(log_level::info,
                              "a Cluster of " + std::to_string(masters) + " masters with slots, says " + by.shown());
  }
  return true;
}

/// After a map, or a MOVED.
void cluster::look() {
  if (map_.take_changes()) {
    actions_.moved = true;
    in_vain_ = 0;
  }
  seen_.resize(map_.nodes());
  for (std::size_t i = 0; i < map_.nodes(); ++i) {
    node const present{host_and_port(map_.host(i), map_.port(i)), map_.id(i)};
    node& before = seen_[i];
    if (before.where == present.where && before.id == present.id) continue;
    if (!before.where.empty() && before.where != present.where) actions_.follow.push_back(i);
    if (!before.where.empty() && before.id != present.id) actions_.renew.push_back(i);
    before = present;
  }
}

void cluster::failed(fault what, std::string_view why) {
  is_connected_ = false;
  map_.failed();
  if (turn_ == turn::under_way) turn_ = turn::failed;
  if (turn_ == turn::good) turn_ = turn::ended;
  ++failures_;
  // Each in turn, until one answers that it never will.
  bool const all_failed = failures_ >= seeds_.size();
  if (!map_.is_known() && (all_failed || is_final(what))) actions_.lost = {what, std::string{why}};
}

void cluster::put_off(std::string_view words, std::size_t by, time_point now) {
  if (auto const moved = read_moved(words)) {
    map_.redirected(*moved, by, now);
    look();
  } else if (words.starts_with("CLUSTERDOWN")) {
    map_.doubt(now);
  }
}

void cluster::reached(std::size_t number, bool is_reached, time_point now) { map_.reached(number, is_reached, now); }

void cluster::due(time_point now) {
  if (!is_connected_) return;
  if (map_.answer_is_late(now)) {
    actions_.leave = "no answer to CLUSTER SLOTS";
    return;
  }
  if (!map_.ask_is_due(now)) return;
  if (map_.is_urgent() && ++in_vain_ >= most_in_vain) {
    in_vain_ = 0;
    actions_.leave = "another node is asked";
    return;
  }
  actions_.ask = true;
}

/// The seeds, then the masters with slots that the map names: they may all have been replaced since the URL was
/// written.
std::vector<address> cluster::all_to_ask() const {
  std::vector<address> all;
  std::set<std::pair<std::string, std::uint16_t>> listed;
  auto const add = [&](std::string const& host, std::uint16_t port) {
    if (!listed.emplace(host, port).second) return;
    address& one = all.emplace_back(seeds_.front());
    one.host = host;
    one.port = port;
  };
  for (address const& seed : seeds_) add(seed.host, seed.port);
  for (std::size_t i = 0; i < map_.nodes(); ++i) {
    if (map_.has_slots(i)) add(map_.host(i), map_.port(i));
  }
  return all;
}

location cluster::locate_asked(address& to, time_point now) {
  // What became of the previous one: it was silent for its time, or could not be used, or no longer.
  if (turn_ == turn::failed && now >= choice_.until()) choice_.silent({}, now);
  else if (turn_ == turn::failed || turn_ == turn::ended) choice_.refused({}, now);
  bool const goes_on = turn_ == turn::failed && choice_.next(now);
  if (!goes_on) {
    to_ask_ = all_to_ask();
    std::vector<std::string> names;
    for (address const& one : to_ask_) names.push_back(host_and_port(one.host, one.port));
    choice_.begin(std::move(names), limits_, now);
    (void)choice_.next(now);
  }
  turn_ = turn::under_way;
  address const& next = to_ask_[choice_.number()];
  to.host = next.host;
  to.port = next.port;
  return {.what = location::kind::here, .within = choice_.until() - now};
}

void cluster::locate(std::size_t number, address& to) const {
  to.host = map_.host(number);
  to.port = map_.port(number);
}

std::string_view cluster::digits(std::size_t number) const noexcept {
  std::string_view const id = map_.id(number);
  return id.empty() ? std::string_view{"?"} : id.substr(0, digits_of_id);
}

cluster::meaning cluster::meaning_of(std::string_view words, std::size_t by) {
  if (words.starts_with("TRYAGAIN")) return {.is_divided = true};
  auto const to = read_ask(words);
  if (!to || by >= map_.nodes()) return {};
  std::size_t const there = map_.named_by_ask(*to, by);
  seen_.resize(map_.nodes());
  if (seen_[there].where.empty()) seen_[there] = {host_and_port(map_.host(there), map_.port(there)), map_.id(there)};
  return {.moves = true, .there = there};
}

}  // namespace conch::redis
