// A Cluster: several masters, each with its slots. A slot moves from one to another, key by key or at once; a replica
// takes over the slots of its master; and each node learns of that in its own time.
#include "servers/redis/topology/slots.hpp"
#include "sim/model/runs.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>

namespace conch::sim {

namespace {

constexpr int slots = redis_model::slot_count;

// Streams of what happens to slots, where every order is tried.
constexpr std::uint64_t keys_move = 0x5107'0000'0000, former_owner_learns = 0x5108'0000'0000,
                        news_spread = 0x5109'0000'0000;

/// The first digits, which go into the names of channels, differ.
redis_model::node identity(std::size_t number) {
  char id[41];
  std::snprintf(id, sizeof id, "%08x%032x", static_cast<unsigned>(0x9e3779b9U * (number + 1)),
                static_cast<unsigned>(number));
  return {id, world::host_of_node(number), world::port_of_nodes};
}

}  // namespace

std::string world::host_of_node(std::size_t number) { return "node" + std::to_string(number); }

keys_of_lock world::keys_of(int name) {
  redis_model& here = nodes_[decides(name)].model;
  here.set_time_us(server_us(now_, nodes_[decides(name)]));
  if (slot_owners_.empty()) return {here, nullptr};
  auto const moves = moves_.find(slot_of(name));
  if (moves == moves_.end() || moves->second.decided) return {here, nullptr};
  node& target = nodes_[master(moves->second.to)];
  target.model.set_time_us(server_us(now_, target));
  return {here, &target.model};
}

int world::slot_of(int name) { return redis_model::slot_of(key_of(name)); }

std::size_t world::shard_of(int name) const {
  return slot_owners_.empty() ? 0 : slot_owners_[static_cast<std::size_t>(slot_of(name))];
}

/// Two masters of the beginning, or their replicas. Wherever the slots go, they stay nodes.
redis::cluster_url world::seeds_for(int client) const {
  redis::cluster_url url;
  std::size_t const in_shard = nodes_.size() / shards_.size();
  for (std::size_t i = 0; i < 2; ++i) {
    redis::address a;
    std::size_t const of = (static_cast<std::size_t>(client) + i) % shards_.size();
    a.host = host_of_node(of * in_shard + (static_cast<std::size_t>(client) / shards_.size()) % in_shard);
    a.port = port_of_nodes;
    url.seeds.push_back(a);
  }
  return url;
}

/// By the name of the channel, which no other node knows.
std::size_t world::listeners(int name, std::string_view client) const {
  if (slot_owners_.empty()) return nodes_[master()].model.subscriber_count("conch:" + std::string{client});
  std::size_t const at = decides(name);
  std::string const tag = std::to_string(redis::tag_of_slot(static_cast<unsigned>(slot_of(name))));
  return nodes_[at].model.shard_subscriber_count("conch:{" + tag + "}:" + std::string{client} + ":" +
                                                 identity(at).id.substr(0, 8));
}

/// Whether this node may carry out a script with that key: it has its slot, or the slot is on its way to it.
bool world::may_decide(std::size_t at, std::string_view key) const {
  if (slot_owners_.empty()) return at == master();
  auto const moves = moves_.find(redis_model::slot_of(key));
  return at == master(shard_of_key(key)) || (moves != moves_.end() && at == master(moves->second.to));
}

/// The slots of the locks are where the plan says, all others in equal parts.
void world::form_cluster() {
  auto const parts = static_cast<std::size_t>(plan_.shards);
  for (int slot = 0; slot < slots; ++slot)
    slot_owners_.push_back(static_cast<std::uint8_t>(static_cast<std::size_t>(slot) * parts / slots));
  for (int name = 0; name < plan_.names; ++name) {
    auto& owner = slot_owners_[static_cast<std::size_t>(slot_of(name))];
    if (!plan_.first_shards.empty())
      owner = static_cast<std::uint8_t>(plan_.first_shards[static_cast<std::size_t>(name) % plan_.first_shards.size()] %
                                        plan_.shards);
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].model.join_cluster(identity(i));
    nodes_[i].model.set_master(identity(master(nodes_[i].shard)));
    hears_news(i);
  }
}

/// What all others report, as it is now; and it may get a wrong answer. A former master that is not reached yet learns
/// nothing.
void world::hears_news(std::size_t at) {
  node& n = nodes_[at];
  if (n.down || (n.takes_writes && at != master(n.shard))) return;
  for (int first = 0, last = 0; first < slots; first = last + 1) {
    auto const rest = std::span<std::uint8_t const>{slot_owners_}.subspan(static_cast<std::size_t>(first));
    auto const owner = rest.front();
    last = first + static_cast<int>(run_of(owner, rest)) - 1;
    n.model.assign_slots(first, last, identity(master(owner)));
  }
  for (auto const& [slot, wrong] : n.lies) {
    if (slot_owners_[static_cast<std::size_t>(slot)] != n.shard) n.model.assign_slots(slot, slot, identity(wrong));
  }
  distribute(at, n.model.take_pushes());
}

/// Each of the others learns it within that time.
void world::spread_news(nanos within) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (order_ != nullptr) {
      order_->add({news_spread + i, of_servers, now_ + plan_.jitter, 0, [this, i] { hears_news(i); }});
      continue;
    }
    after(random_.between(0, within), [this, i] { hears_news(i); });
  }
}

bool world::is_changing(std::size_t of_shard) const {
  return shards_[of_shard].switching || std::any_of(moves_.begin(), moves_.end(), [&](auto const& m) {
           return m.second.from == of_shard || m.second.to == of_shard;
         });
}

/// One of the connections of that client: mostly the one to the master of the lock, and sometimes that for the map.
link_ptr world::link_for(fault_plan const& f) {
  sim_client const& c = *clients_[static_cast<std::size_t>(f.client)];
  sim_cluster const* const of = c.cluster();
  if (of == nullptr) return nullptr;
  if ((f.variant & 24) == 24 && of->map_link() != nullptr) return of->map_link();
  if (f.name < plan_.names && (f.variant & 32) != 0) return c.connection(f.name);
  auto const all = of->links();
  return all.empty() ? nullptr : all[static_cast<std::size_t>(f.at / microsecond) % all.size()];
}

nanos world::time_to_reroute() const {
  nanos const hop = plan_.latency + plan_.jitter + plan_.timer_lateness;
  return 2 * plan_.connect_time + 20 * hop + 110 * millisecond + 10 * millisecond;
}

/// What keeps clients from renewing and from being answered, where slots or masters change. False: it is no such fault.
bool world::troubles_slots(fault_plan const& f) {
  using kind = fault_plan::kind;
  ++changes_;
  nanos const news = std::max<nanos>(f.told, 0), ends = now_ + f.length + f.length2 + news;
  switch (f.what) {
    case kind::move_slot:  // a renewal goes where the key is
      observer_->slots_in_trouble(ends, now_);
      return true;
    case kind::move_at_once:
    case kind::fail_over:
    case kind::cluster_down: observer_->slots_in_trouble(ends, ends); return true;
    case kind::misdirect:  // a client that was told a wrong map asks for another in a second
      observer_->slots_in_trouble(ends + second + 100 * millisecond, ends + second + 100 * millisecond);
      return true;
    default: return false;
  }
}

/// False: it is not a fault of masters, replicas and slots alone.
bool world::apply_to_servers(fault_plan const& f) {
  using kind = fault_plan::kind;
  switch (f.what) {
    case kind::promotion: lose_master(f); return true;
    case kind::move_slot:
    case kind::move_at_once: move_slot(f); return true;
    case kind::fail_over: fail_over(f); return true;
    case kind::cluster_down: take_cluster_down(f); return true;
    case kind::misdirect: misdirect(f); return true;
    default: return false;
  }
}

// ------------------------------------------------------------------------------------------ a slot that moves

void world::move_slot(fault_plan const& f) {
  int const slot = slot_of(f.name);
  std::size_t const from = shard_of(f.name), parts = shards_.size();
  std::size_t const to = (from + 1 + static_cast<std::size_t>(f.variant) % (parts - 1)) % parts;
  if (is_changing(from) || is_changing(to) || nodes_[master(from)].down || nodes_[master(to)].down) return;
  moves_[slot] = {from, to};
  say("slot " + std::to_string(slot) + " of lock " + std::to_string(f.name) + " moves from node " +
      std::to_string(master(from)) + " to node " + std::to_string(master(to)));
  bool const at_once = f.what == fault_plan::kind::move_at_once;
  node &source = nodes_[master(from)], &target = nodes_[master(to)];
  if (at_once) {
    source.frozen_until = std::max(source.frozen_until, now_ + f.length + 1);
  } else {
    target.model.set_importing(slot, identity(master(from)));
    source.model.set_migrating(slot, identity(master(to)));
    if (order_ != nullptr) {
      order_->add({keys_move, of_servers, now_ + plan_.jitter, 0, [this, &f, slot] { end_move(f, slot); }});
      return;
    }
    constexpr int steps = 8;  // a lock has hardly more keys
    for (int i = 0; i < steps; ++i) after(random_.between(0, f.length), [this, slot] { move_key_of(slot); });
  }
  after(f.length, [this, &f, slot] { end_move(f, slot); });
}

/// False: none is left.
bool world::move_key_of(int slot) {
  auto const moves = moves_.find(slot);
  if (moves == moves_.end() || moves->second.decided) return false;
  set_clock();
  std::size_t const from = master(moves->second.from), to = master(moves->second.to);
  std::vector<std::string> left;
  for (auto const& key : nodes_[from].model.keys()) {
    if (redis_model::slot_of(key.name) == slot) left.push_back(key.name);
  }
  if (left.empty()) return false;
  auto which = static_cast<std::size_t>(random_.below(std::ssize(left)));
  if (order_ != nullptr) {  // by their names, forwards or backwards
    std::sort(left.begin(), left.end());
    which = (plan_.faults.back().variant & 1) == 0 ? 0 : left.size() - 1;
  }
  std::string const& key = left[which];
  say("the key " + key + " moves");
  nodes_[from].model.move_key(key, nodes_[to].model);
  replicate(from);
  replicate(to);
  return true;
}

/// SETSLOT NODE at the new owner, and later at the former one; the others learn of it by and by.
void world::end_move(fault_plan const& f, int slot) {
  while (move_key_of(slot)) {
    if (order_ == nullptr) continue;
    order_->add({keys_move, of_servers, now_ + plan_.jitter, 0, [this, &f, slot] { end_move(f, slot); }});
    return;  // where every order is tried, anything may happen between two keys
  }
  move& m = moves_.at(slot);
  m.decided = true;
  observer_->slots_in_trouble(now_, now_);
  slot_owners_[static_cast<std::size_t>(slot)] = static_cast<std::uint8_t>(m.to);
  say("slot " + std::to_string(slot) + " is at node " + std::to_string(master(m.to)));
  nodes_[master(m.to)].model.set_importing(slot, {});
  hears_news(master(m.to));
  bool const at_once = f.what == fault_plan::kind::move_at_once;
  auto former_learns = [this, slot] {
    std::size_t const from = master(moves_.at(slot).from);
    nodes_[from].model.set_migrating(slot, {});
    observer_->slots_in_trouble(now_, now_);
    hears_news(from);
    moves_.erase(slot);
  };
  if (order_ != nullptr) {
    order_->add({former_owner_learns, of_servers, now_ + plan_.jitter, 0, std::move(former_learns)});
  } else {
    after(at_once ? 0 : f.length2, std::move(former_learns));
  }
  spread_news(std::max<nanos>(f.told, 0));
}

// ------------------------------------------------------------------------------------------ a replica takes over

/// CLUSTER FAILOVER: the master carries out nothing until its replica has all that it has, and learns of it at once.
/// Nothing is lost.
void world::fail_over(fault_plan const& f) {
  std::size_t const of = shard_of(f.name), old = master(of);
  if (nodes_.size() == shards_.size() || is_changing(of) || nodes_[old].down) return;
  std::size_t const next = replica_for(f, old);
  shards_[of].switching = true;
  say("node " + std::to_string(next) + " takes over from node " + std::to_string(old) + ", which has sent it all");
  set_clock();
  nodes_[old].frozen_until = std::max(nodes_[old].frozen_until, now_ + f.length2 + 1);
  catch_up(next, shards_[of].batches);
  take_over(next);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (i != old && i != next && nodes_[i].shard == of) follow_master(i);
  }
  becomes_master(next);
  observer_->roles_changed();
  spread_news(std::max<nanos>(f.told, 0));
  after(f.length2, [this, &f, old] { demote(f, old); });
}

void world::becomes_master(std::size_t next) {
  std::size_t const of = nodes_[next].shard;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    bool const knows = !nodes_[i].takes_writes || i == next;
    if (nodes_[i].shard == of && knows) nodes_[i].model.set_master(identity(next));
  }
  hears_news(next);
}

/// Subscribers there are told that it has no slots any more.
void world::becomes_replica(std::size_t old) {
  nodes_[old].takes_writes = false;
  hears_news(old);
  nodes_[old].model.set_master(identity(master(nodes_[old].shard)));
}

// ------------------------------------------------------------------------------------------ nodes that do not know, or
// say what is not so

/// A node names another one that has not got the slot either; or two name each other.
void world::misdirect(fault_plan const& f) {
  int const slot = slot_of(f.name);
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].shard != shard_of(f.name)) others.push_back(i);
  }
  if (others.size() < 2) return;
  std::size_t const one = others[static_cast<std::size_t>(f.variant / 2) % others.size()];
  std::size_t const other = others[(static_cast<std::size_t>(f.variant / 2) + 1) % others.size()];
  bool const each_other = (f.variant & 1) != 0;
  nodes_[one].lies[slot] = other;
  if (each_other) nodes_[other].lies[slot] = one;
  hears_news(one);
  hears_news(other);
  after(f.length, [this, slot, one, other] {
    for (std::size_t const liar : {one, other}) {
      nodes_[liar].lies.erase(slot);
      hears_news(liar);
    }
  });
}

/// CLUSTERDOWN, of one master or of all.
void world::take_cluster_down(fault_plan const& f) {
  bool const all = (f.variant & 1) != 0;
  auto const set = [this, all, of = shard_of(f.name)](bool down) {
    for (node& n : nodes_) {
      if (all || n.shard == of) n.model.set_cluster_down(down);
    }
  };
  set(true);
  after(f.length, [set] { set(false); });
}

/// What a node publishes to a channel of a shard reaches its replicas, too, by the bus.
void world::spread(std::size_t from) {
  auto const messages = nodes_[from].model.take_bus_messages();
  if (messages.empty()) return;
  after(plan_.latency, [this, from, messages] {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (i == from || nodes_[i].shard != nodes_[from].shard || nodes_[i].down) continue;
      for (auto const& one : messages) nodes_[i].model.deliver(one);
      distribute(i, nodes_[i].model.take_pushes());
    }
  });
}

bool world::is_redirected(value const& reply) const {
  if (slot_owners_.empty() || !reply.is_error()) return false;
  std::string_view const code = reply.error_code();
  if (code == "CROSSSLOT") throw violation{10, "keys of several slots in one request: " + reply.text};
  return code == "MOVED" || code == "ASK" || code == "TRYAGAIN" || code == "CLUSTERDOWN";
}

value world::ask_node(std::size_t at, std::span<std::string_view const> argv, bool asking) {
  set_clock();
  redis_model& model = nodes_[at].model;
  auto const id = model.connect("10.0.9.9:7");
  std::string_view const words[] = {"ASKING"};
  if (asking) (void)model.execute(id, words);
  value const reply = model.execute(id, argv);
  model.disconnect(id);
  distribute(at, model.take_pushes());
  replicate(at);
  return reply;
}

}  // namespace conch::sim
