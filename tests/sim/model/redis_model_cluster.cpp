// A node of a Cluster: which node has the slot of a key, and what that lets a command do here. The order of the checks
// is that of Redis' getNodeByQuery.

#include "sim/model/redis_model_impl.hpp"
#include "sim/model/runs.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace conch::sim::redis {

namespace {

/// CRC16 of XMODEM: polynomial 0x1021, from 0.
std::uint16_t crc16(std::string_view text) {
  std::uint16_t sum = 0;
  for (char const c : text) {
    sum = static_cast<std::uint16_t>(sum ^ static_cast<unsigned char>(c) << 8);
    for (int bit = 0; bit < 8; ++bit)
      sum = static_cast<std::uint16_t>((sum & 0x8000) != 0 ? sum << 1 ^ 0x1021 : sum << 1);
  }
  return sum;
}

value described(redis_model::node const& what) {
  return value::list(value::kind::array, {value::bulk(what.host), value::number(what.port), value::bulk(what.id),
                                          value::of(value::kind::map)});
}

void slots(call& c) {
  auto const& known = *c.server.in_cluster;
  auto& items = c.list(value::kind::array).items;
  for (int first = 0, last = 0; first < redis_model::slot_count; first = last + 1) {
    auto const* const master = known.owner(first);
    auto const rest = std::span{std::as_const(known.owners)}.subspan(static_cast<std::size_t>(first));
    last = first + static_cast<int>(run_of(rest.front(), rest)) - 1;
    if (master == nullptr) continue;
    value range = value::list(value::kind::array, {value::number(first), value::number(last), described(*master)});
    for (auto const& other : known.nodes) {
      if (other.master == master->id && other.id != master->id) range.items.push_back(described(other));
    }
    items.push_back(std::move(range));
  }
}

void in_cluster(call& c, handler then) {
  if (c.server.in_cluster) {
    then(c);
  } else {
    c.error("ERR This instance has cluster support disabled");
  }
}

void asking(call& c) {
  in_cluster(c, [](call& of) { of.ok(); });
}
void cluster_slots(call& c) { in_cluster(c, slots); }
void cluster_myid(call& c) {
  in_cluster(c, [](call& of) { of.bulk(of.server.in_cluster->self.id); });
}
void cluster_keyslot(call& c) {
  in_cluster(c, [](call& of) { of.integer(redis_model::slot_of(of[2])); });
}

}  // namespace

std::span<std::string_view const> command::keys(std::span<std::string_view const> argv) const {
  if ((marks & counted_keys) != 0) {
    std::int64_t count = 0;
    bool const right = argv.size() > 3 && to_integer(argv[2], count) && count > 0 && count <= std::ssize(argv) - 3;
    return right ? argv.subspan(3, static_cast<std::size_t>(count)) : std::span<std::string_view const>{};
  }
  if ((marks & first_key) == 0 || argv.size() < 2) return {};
  return argv.subspan(1, (marks & more_keys) != 0 ? argv.size() - 1 : 1);
}

routing route(redis_model::impl& server, connection const& from, command const& what,
              std::span<std::string_view const> argv, int selected) {
  if (!server.in_cluster) return {};
  auto const& known = *server.in_cluster;
  auto const keys = what.keys(argv);
  if (keys.empty()) return {};
  bool const channels = (what.marks & command::shard_channel) != 0 &&
                        !(known.unsubscribed_channels_are_keys && what.name == "sunsubscribe");

  int const slot = redis_model::slot_of(keys.front());
  auto const* const owner = known.owner(slot);
  if (owner == nullptr) return {redirection::not_served, slot};
  bool const here = owner->id == known.self.id;
  auto const migrating = known.migrating.find(slot), importing = known.importing.find(slot);
  bool const leaves = here && migrating != known.migrating.end();
  bool const arrives = !leaves && importing != known.importing.end();
  bool several = false, some_here = false, some_missing = false;
  database const& all = server.database_at(selected);
  for (auto const key : keys) {
    if (redis_model::slot_of(key) != slot) return {redirection::cross_slot, slot};
    several = several || key != keys.front();
    if (channels || !(leaves || arrives)) continue;
    auto const place = all.find(key);
    bool const there = place != all.end() && !server.expired(place->second);
    (there ? some_here : some_missing) = true;
  }
  if (known.down) return {redirection::down, slot};
  if (leaves && some_missing)
    return some_here ? routing{redirection::unstable, slot} : routing{redirection::ask, slot, &migrating->second};
  if (arrives && from.asking) return several && some_missing ? routing{redirection::unstable, slot} : routing{};
  if (here || (channels && server.replica && owner->id == known.master)) return {};
  return {redirection::moved, slot, owner};
}

std::string redirection_error(routing const& to) {
  auto const towards = [&](std::string_view word) {
    return std::string{word} + ' ' + std::to_string(to.slot) + ' ' + to.node->host + ':' +
           std::to_string(to.node->port);
  };
  switch (to.to) {
    case redirection::none: return {};
    case redirection::cross_slot: return "CROSSSLOT Keys in request don't hash to the same slot";
    case redirection::unstable: return "TRYAGAIN Multiple keys request during rehashing of slot";
    case redirection::ask: return towards("ASK");
    case redirection::moved: return towards("MOVED");
    case redirection::not_served: return "CLUSTERDOWN Hash slot not served";
    case redirection::down: return "CLUSTERDOWN The cluster is down";
  }
  return {};
}

std::string redirection_error_in_script(routing const& to) {
  if (to.to == redirection::down) return "ERR Script attempted to execute a command while the cluster is down";
  return "ERR Script attempted to access a non local key in a cluster node";
}

std::span<command const> cluster_commands() {
  using enum command::flags;
  static constexpr command commands[] = {
      {"asking", 1, none, asking},
      {"cluster", -2, container, nullptr},
      {"cluster|keyslot", 3, none, cluster_keyslot},
      {"cluster|myid", 2, none, cluster_myid},
      {"cluster|slots", 2, none, cluster_slots},
  };
  return commands;
}

}  // namespace conch::sim::redis

namespace conch::sim {

namespace {

redis_model::cluster& cluster_of(redis_model::impl& server) {
  if (!server.in_cluster) throw std::logic_error{"not a node of a Cluster"};
  return *server.in_cluster;
}

}  // namespace

std::int16_t redis_model::cluster::place_of(node const& what) {
  auto const found = std::find_if(nodes.begin(), nodes.end(), [&](node const& one) { return one.id == what.id; });
  auto const place = found - nodes.begin();
  if (found == nodes.end()) nodes.push_back({what, {}});
  return static_cast<std::int16_t>(place);
}

int redis_model::slot_of(std::string_view key) {
  auto const open = key.find('{');
  if (open != std::string_view::npos) {
    auto const close = key.find('}', open + 1);
    if (close != std::string_view::npos && close != open + 1) key = key.substr(open + 1, close - open - 1);
  }
  return redis::crc16(key) % slot_count;
}

void redis_model::join_cluster(node self) {
  impl_->in_cluster = std::make_unique<cluster>();
  auto& known = *impl_->in_cluster;
  known.owners.fill(-1);
  known.master = self.id;
  known.self = std::move(self);
}

void redis_model::assign_slots(int first, int last, node const& master) {
  auto& known = cluster_of(*impl_);
  std::int16_t const place = known.place_of(master);
  if (master.id == known.self.id)
    known.importing.erase(known.importing.lower_bound(first), known.importing.upper_bound(last));
  // It is asked of 16384 slots at a time: what is the same for all of a master is looked up once, and mostly nothing
  // has changed.
  std::vector<char> served;
  for (auto const& one : known.nodes) served.push_back(one.id == known.master && master.id != known.master);
  for (int slot = first; slot <= last; ++slot) {
    if (known.owners[static_cast<std::size_t>(slot)] == place) {
      auto const rest = std::span{std::as_const(known.owners)}.subspan(static_cast<std::size_t>(slot),
                                                                       static_cast<std::size_t>(last - slot + 1));
      slot += static_cast<int>(run_of(place, rest)) - 1;
      continue;
    }
    std::int16_t const before = std::exchange(known.owners[static_cast<std::size_t>(slot)], place);
    if (before < 0 || !served[static_cast<std::size_t>(before)]) continue;
    known.migrating.erase(slot);
    redis::drop_shard_channels(*impl_, slot);
  }
}

void redis_model::set_master(node const& master) { cluster_of(*impl_).master = master.id; }

void redis_model::set_migrating(int slot, node const& to) {
  auto& all = cluster_of(*impl_).migrating;
  all.erase(slot);
  if (!to.id.empty()) all.emplace(slot, to);
}

void redis_model::set_importing(int slot, node const& from) {
  auto& all = cluster_of(*impl_).importing;
  all.erase(slot);
  if (!from.id.empty()) all.emplace(slot, from);
}

bool redis_model::move_key(std::string_view key, redis_model& to) {
  auto& mine = impl_->database_at(0);
  auto const place = mine.find(key);
  if (place == mine.end() || impl_->expired(place->second)) return false;
  to.impl_->database_at(0).insert_or_assign(std::string{key}, std::move(place->second));
  mine.erase(place);
  for (impl* const one : {impl_.get(), to.impl_.get()}) {
    if (!one->replicating) continue;
    ++one->offset;
    one->record_key(key, 0);
  }
  return true;
}

void redis_model::set_unsubscribed_channels_are_keys(bool keys) {
  cluster_of(*impl_).unsubscribed_channels_are_keys = keys;
}

void redis_model::set_cluster_down(bool down) { cluster_of(*impl_).down = down; }

std::vector<redis_model::bus_message> redis_model::take_bus_messages() {
  return std::exchange(cluster_of(*impl_).bus, {});
}

void redis_model::deliver(bus_message const& what) {
  if (what.sharded) {
    (void)impl_->publish_to_shard(what.channel, what.message);
  } else {
    (void)impl_->publish(what.channel, what.message);
  }
}

}  // namespace conch::sim
