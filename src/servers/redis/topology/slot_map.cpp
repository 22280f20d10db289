// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/topology/slot_map.hpp"

#include "base/numbers.hpp"
#include "servers/redis/topology/address_map.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <unordered_set>

namespace conch::redis {

namespace {

/// Where a node does not know its own name, or is configured not to announce it.
bool is_of_the_asked(std::string_view host) { return host.empty() || host == "?"; }

bool is_slot(resp::node const& n) {
  return n.what == resp::kind::integer && n.integer >= 0 && n.integer < std::int64_t{slot_count};
}

/// "SLOT HOST:PORT" behind that word.
std::optional<redirection> read_redirection(std::string_view words, std::string_view word) {
  if (!words.starts_with(word)) return std::nullopt;
  words.remove_prefix(word.size());
  auto const blank = words.find(' ');
  auto const colon = words.rfind(':');
  if (blank == std::string_view::npos || colon == std::string_view::npos || colon < blank) return std::nullopt;
  auto const slot = whole_number<unsigned>(words.substr(0, blank));
  auto const port = whole_number<std::uint16_t>(words.substr(colon + 1));
  if (!slot || *slot >= slot_count || !port || *port == 0) return std::nullopt;
  redirection to{*slot, {}, *port};
  std::string_view const host = words.substr(blank + 1, colon - blank - 1);
  if (is_of_the_asked(host)) return to;
  if (!can_be_host(host)) return std::nullopt;
  to.host = host;
  return to;
}

}  // namespace

/// [[first, last, [host, port, id, ...], [host, port, id, ...] ...] ...]: the master first, then its replicas.
std::optional<std::vector<named_slots>> read_slots(std::span<resp::node const> message, address const& asked) {
  if (message.empty() || message[0].what != resp::kind::array) return std::nullopt;
  std::vector<named_slots> all;
  std::size_t named = 0;
  for (std::size_t i = 1; i < message.size(); ++i) {
    if (message[i].depth != 1) continue;
    bool const whole = message[i].what == resp::kind::array && i + 6 < message.size() && is_slot(message[i + 1]) &&
                       is_slot(message[i + 2]) && message[i + 3].what == resp::kind::array && message[i + 3].count >= 3;
    if (!whole) return std::nullopt;
    resp::node const &host = message[i + 4], &port = message[i + 5], &id = message[i + 6];
    named_slots one{static_cast<unsigned>(message[i + 1].integer), static_cast<unsigned>(message[i + 2].integer),
                    std::string{id.text},
                    std::string{is_of_the_asked(host.text) ? std::string_view{asked.host} : host.text}, 0};
    constexpr std::size_t digits_of_id = 8;  // as many go into the names of channels
    constexpr std::size_t longest_id = 64;   // of Redis: 40
    bool const has_id = one.id.size() >= digits_of_id && one.id.size() <= longest_id;
    bool const names_a_node = port.what == resp::kind::integer && port.integer > 0 && port.integer <= 65535 && has_id &&
                              can_be_host(one.host);
    if (one.first > one.last || !names_a_node) return std::nullopt;
    named += one.last - one.first + 1;
    if (named > slot_count) return std::nullopt;  // some slot twice
    one.port = static_cast<std::uint16_t>(port.integer);
    all.push_back(std::move(one));
  }
  return all;
}

std::optional<redirection> read_moved(std::string_view words) { return read_redirection(words, "MOVED "); }

std::optional<redirection> read_ask(std::string_view words) { return read_redirection(words, "ASK "); }

void slot_map::connected(time_point now) {
  is_connected_ = is_asked_ = true;
  asked_ = now;
  ask_at_ = time_point::max();
  ++requests_;
}

bool slot_map::update(std::vector<named_slots> const& all, time_point now) {
  std::unordered_set<std::string_view> ids;
  for (named_slots const& one : all) {
    ids.insert(one.id);
    if (ids.size() > most_masters) return false;
  }
  ++maps_;
  is_asked_ = is_unknown_ = false;
  is_known_ = true;
  patched_.clear();
  owners map;
  map.fill(no_owner);
  for (named_slots const& one : all) {
    auto const owner = static_cast<std::uint16_t>(number_of(one));
    std::fill(map.begin() + one.first, map.begin() + one.last + 1, owner);
  }
  constexpr unsigned at_once = 64;
  for (unsigned first = 0; first < slot_count; first += at_once) {
    if (std::equal(map.begin() + first, map.begin() + first + at_once, owners_.begin() + first)) continue;
    for (unsigned slot = first; slot < first + at_once; ++slot) give(slot, map[slot]);
  }
  ask_at_ = std::min(ask_at_, detail::later_by(now, is_urgent() ? between_urgent_requests : times_.refresh));
  return true;
}

/// The id names it: a node may change its address, and another may get its old one.
std::size_t slot_map::number_of(named_slots const& named) {
  std::string host = named.host;
  std::uint16_t port = named.port;
  map_address(address_map_, host, port);
  std::size_t number = unknown_master;
  if (auto const known = by_id_.find(named.id); known != by_id_.end()) {
    number = known->second;
  } else if (unnamed_ != 0) {
    auto const found = std::find_if(nodes_.begin(), nodes_.end(),
                                    [&](master const& n) { return n.id.empty() && n.host == host && n.port == port; });
    if (found != nodes_.end()) number = static_cast<std::size_t>(found - nodes_.begin());
  }
  if (number == unknown_master) number = number_for_another();
  master& n = nodes_[number];
  if (n.id.empty()) {
    --unnamed_;
    n.id = named.id;
    by_id_.emplace(n.id, number);
  }
  n.host = host;
  n.port = port;
  n.named_in = maps_;
  return number;
}

/// For a node that was not known; it has no id yet. Where there are too many, the number of one without slots that the
/// last map has not named.
std::size_t slot_map::number_for_another() {
  ++unnamed_;
  for (std::size_t tried = 0; nodes_.size() >= most_nodes && tried < nodes_.size(); ++tried) {
    std::size_t const number = next_reused_++ % nodes_.size();
    master& n = nodes_[number];
    if (n.slots != 0 || n.named_in == maps_) continue;
    if (n.id.empty()) --unnamed_;
    by_id_.erase(n.id);
    n = {};
    return number;
  }
  BOOST_ASSERT_MSG(nodes_.size() < most_nodes, "a map has half as many masters");
  nodes_.emplace_back();
  return nodes_.size() - 1;
}

void slot_map::give(unsigned slot, std::uint16_t to) noexcept {
  std::uint16_t& owner = owners_[slot];
  if (owner == to) return;
  if (owner != no_owner) --nodes_[owner].slots;
  if (to != no_owner) ++nodes_[to].slots;
  owner = to;
  changed_ = true;
}

/// The node at that address; `unknown_master`: it is not known.
std::size_t slot_map::at(redirection const& to, std::size_t by, std::string& host, std::uint16_t& port) const {
  host = to.host.empty() ? nodes_[by].host : to.host;
  port = to.port;
  if (!to.host.empty()) map_address(address_map_, host, port);
  auto const known =
      std::find_if(nodes_.begin(), nodes_.end(), [&](master const& n) { return n.host == host && n.port == port; });
  return known == nodes_.end() ? unknown_master : static_cast<std::size_t>(known - nodes_.begin());
}

/// If the address is of none that has been seen, or whose id is not known, the whole map will show it: soon, since no
/// node has the slot until then. The node that was asked for it a moment ago may not know yet.
void slot_map::redirected(redirection const& to, std::size_t by, time_point now) {
  bool const answers_for_another = owner(to.slot) != by;  // it was asked before the slot was known to be elsewhere
  std::string host;
  std::uint16_t port = 0;
  std::size_t const known = at(to, by, host, port);
  bool const is_unknown = known == unknown_master || nodes_[known].id.empty();
  is_unknown_ = is_unknown_ || (is_unknown && !answers_for_another);
  want(now, is_unknown_ ? between_urgent_requests : between_requests);
  if (is_unknown || answers_for_another || ++patched_[to.slot] > most_patches) return;
  give(to.slot, static_cast<std::uint16_t>(known));
}

std::size_t slot_map::named_by_ask(redirection const& to, std::size_t by) {
  std::string host;
  std::uint16_t port = 0;
  std::size_t const known = at(to, by, host, port);
  if (known != unknown_master) return known;
  std::size_t const number = number_for_another();
  nodes_[number].host = host;
  nodes_[number].port = port;
  return number;
}

void slot_map::wait_for_owner(bool wanted, time_point now) noexcept {
  if (wanted && !owner_is_wanted_) doubt(now);
  owner_is_wanted_ = wanted;
}

void slot_map::reached(std::size_t number, bool is_reached, time_point now) noexcept {
  nodes_[number].is_lost = !is_reached;
  if (!is_reached && nodes_[number].slots != 0) doubt(now);
}

bool slot_map::one_is_lost() const noexcept {
  return std::any_of(nodes_.begin(), nodes_.end(), [](master const& n) { return n.is_lost && n.slots != 0; });
}

bool slot_map::is_urgent() const noexcept { return owner_is_wanted_ || is_unknown_ || one_is_lost(); }

void slot_map::want(time_point now, duration between) noexcept {
  ask_at_ = std::min(ask_at_, std::max(now, detail::later_by(asked_, between)));
}

bool slot_map::ask_is_due(time_point now) {
  if (!is_connected_ || is_asked_ || now < ask_at_) return false;
  is_asked_ = true;
  asked_ = now;
  ask_at_ = time_point::max();
  ++requests_;
  return true;
}

time_point slot_map::next_due() const noexcept {
  if (!is_connected_) return time_point::max();
  return is_asked_ ? detail::later_by(asked_, times_.patience) : ask_at_;
}

std::optional<unsigned> slot_map::some_slot(std::size_t number) const noexcept {
  auto const found = std::find(owners_.begin(), owners_.end(), number);
  if (found == owners_.end()) return std::nullopt;
  return static_cast<unsigned>(found - owners_.begin());
}

}  // namespace conch::redis
