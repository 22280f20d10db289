// A master and its replicas: what the master writes reaches them later, one of them takes over, with or without all of
// it, and the former master learns of that late.
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>

namespace conch::sim {

void world::make_nodes() {
  using kind = fault_plan::kind;
  int const replicas = plan_.replicas != 0                                          ? plan_.replicas
                       : plan_.has({kind::role_change}) || plan_.may_change_roles() ? 1
                                                                                    : 0;
  for (int number = 0; number < std::max(plan_.shards, 1) * (1 + replicas); ++number) {
    int const i = number % (1 + replicas);
    nodes_.push_back({.model = redis_model{plan_.epoch_us}});
    node& n = nodes_.back();
    n.model.set_own_pushes_after_reply(plan_.own_pushes_after_reply);
    if (!plan_.may_kill) n.model.deny("client|kill");
    if (plan_.declared_keys) n.model.demand_declared_keys();
    if (plan_.watched) watch_channels(n.model);
    if (i == 0) shards_.push_back({nodes_.size() - 1});
    n.shard = shards_.size() - 1;
    if (replicas == 0) continue;
    n.model.replicate();
    n.model.set_waits_for_own_writes(plan_.waits_for_own_writes);
    if (i == 0) continue;
    for (int runs = 0; runs < i; ++runs) n.model.restart(true);  // each has a run of its own
    if (plan_.watched) watch_channels(n.model);
    n.model.set_replica(true);
    n.takes_writes = false;
    n.term = 0;
    n.follows = true;
    n.delay = (plan_.slow_until != 0 ? plan_.slow_delay : plan_.replication_delay) * i;
    n.ahead_us = i * plan_.replica_ahead / microsecond;
    nodes_[master(n.shard)].model.acknowledge(nodes_.size() - 1, 0);
  }
  if (plan_.shards != 0) form_cluster();
}

/// What the master has changed reaches each replica a little later, in order. What a former master changes reaches
/// nobody.
void world::replicate(std::size_t from) {
  if (nodes_.size() == 1) return;
  if (plan_.shards != 0) spread(from);
  auto const effects = nodes_[from].model.take_effects();
  shard& of = shards_[nodes_[from].shard];
  if (effects.empty() || from != of.master) return;
  ++of.batches;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    node& n = nodes_[i];
    if (!n.follows || n.shard != nodes_[from].shard) continue;
    n.stream.push_back({of.batches, effects, nodes_[from].model.offset()});
    after(n.delay, [this, i, number = of.batches] { catch_up(i, number); });
  }
}

void world::catch_up(std::size_t at, std::uint64_t until) {
  node& n = nodes_[at];
  set_clock();
  std::int64_t offset = -1;
  while (!n.stream.empty() && n.stream.front().number <= until) {
    for (auto const& effect : n.stream.front().effects) n.model.apply(effect);
    offset = n.stream.front().offset;
    n.stream.pop_front();
  }
  if (offset >= 0) acknowledge(at, offset);
  (void)n.model.take_effects();
  distribute(at, n.model.take_pushes());
}

/// They were slow until now. What is on its way to them comes at once.
void world::quicken_replicas() {
  say("the replicas are quick from now on");
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    node& n = nodes_[i];
    if (!n.follows) continue;
    n.delay = plan_.replication_delay * static_cast<nanos>(i);
    after(n.delay, [this, i, number = shards_[n.shard].batches] { catch_up(i, number); });
  }
}

/// The master is told, unless another one is the master by then, or has lost that replica.
void world::acknowledge(std::size_t replica, std::int64_t offset) {
  if (!plan_.synced) return;
  after(nodes_[replica].delay, [this, replica, offset, of = master(nodes_[replica].shard)] {
    if (of != master(nodes_[replica].shard) || nodes_[of].down || !nodes_[replica].follows) return;
    nodes_[of].model.acknowledge(replica, offset);
    answer_waits(of);
  });
}

/// Those of which enough replicas have acknowledged, or whose time has passed.
void world::answer_waits(std::size_t at) {
  set_clock();
  node& n = nodes_[at];
  if (n.down) return;
  auto const answers = n.model.take_waited();
  distribute(at, answers);
  for (auto const& one : answers) {
    auto const to = n.by_id.find(one.to);
    if (to == n.by_id.end()) continue;
    link_ptr const l = to->second;
    if (tracing()) say("server: client " + std::to_string(l->client) + " WAIT is over -> " + describe(one.message));
    observer_->waited(*l, one.message.integer);
    read_on(l);
  }
}

bool world::all_follow(std::size_t of_shard) const {
  node const& leader = nodes_[master(of_shard)];
  return !leader.down && std::all_of(nodes_.begin(), nodes_.end(),
                                     [&](node const& n) { return n.shard != of_shard || n.follows || &n == &leader; });
}

/// From here on it has what the master has.
void world::follow_master(std::size_t at) {
  node& n = nodes_[at];
  n.model.set_replica(true);
  n.takes_writes = false;
  distribute(at, n.model.take_pushes());
  drop_killed(n);
  redis_model const& leader = nodes_[master(n.shard)].model;
  n.model.copy_data(leader);
  (void)n.model.take_effects();
  n.stream.clear();
  n.follows = true;
  acknowledge(at, leader.offset());
}

/// It is the master from here on, with what it has.
void world::take_over(std::size_t next) {
  node& n = nodes_[next];
  shard& of = shards_[n.shard];
  n.stream.clear();  // it never gets the rest
  n.follows = false;
  n.takes_writes = true;
  ++n.term;
  n.order = ++of.masters;
  n.model.set_replica(false);
  of.master = next;
}

std::size_t world::replica_for(fault_plan const& f, std::size_t old) const {
  std::size_t const in_shard = nodes_.size() / shards_.size(), first = nodes_[old].shard * in_shard;
  return first + (old - first + 1 + static_cast<std::size_t>(f.name) % (in_shard - 1)) % in_shard;
}

/// In good order: the replica has everything before it takes over, and the clients of the other stay where they are, or
/// are sent away. The address follows, sooner or later.
void world::change_roles(fault_plan const& f) {
  if (nodes_[master()].down) return;
  std::size_t const old = master(), next = 1 - old;
  catch_up(next, shards_[0].batches);
  take_over(next);
  follow_master(old);
  observer_->roles_changed();
  if ((f.variant & 1) != 0) {
    auto const all = nodes_[old].by_id;
    for (auto const& [id, l] : all) close_server_end(l, true);
  }
  auto const moved = [this] { addresses_.assign(addresses_.size(), master()); };
  if ((f.variant & 2) != 0) moved();
  after(f.length2, moved);
}

void world::stop_node(std::size_t at, bool silent) {
  node& n = nodes_[at];
  n.down = true;
  n.silent = silent;
  auto const all = n.by_id;
  for (auto const& [id, l] : all) {
    l->received.clear();
    if (silent) {
      l->server_open = false;
    } else {
      close_server_end(l, true);
    }
  }
  n.by_id.clear();
}

// ------------------------------------------------------------------------------- a replica takes over, and misses
// something

/// The beginning of it: the replicas receive nothing more from the master, which goes on, is killed, or is paused.
void world::lose_master(fault_plan const& f) {
  std::size_t const of = shard_of(f.name), old = master(of);
  if (nodes_.size() == shards_.size() || is_changing(of) || nodes_[old].down) return;
  shards_[of].switching = true;
  auto const how = f.master_is;
  if (how != fault_plan::master_state::well) {
    for (node& n : nodes_) n.follows = n.follows && n.shard != of;  // what is under way arrives
  }
  nanos const back = now_ + f.length + f.length2 / 2;
  if (how == fault_plan::master_state::killed) {
    stop_node(old, (f.variant & 8) != 0);
    at(back, [this, old] {
      node& n = nodes_[old];
      set_clock();
      n.model.restart(true);
      if (plan_.watched) watch_channels(n.model);
      n.down = false;
      say("the former master is back");
    });
  }
  if (how == fault_plan::master_state::frozen) nodes_[old].frozen_until = back;
  after(f.length, [this, &f, old] { promote(f, old); });
}

void world::promote(fault_plan const& f, std::size_t old) {
  std::size_t const next = replica_for(f, old), of = nodes_[old].shard;
  say("server " + std::to_string(next) + " is the master now, and server " + std::to_string(old) +
      " does not know yet");
  set_clock();
  take_over(next);
  shards_[of].promoted_at = now_;
  set_clock();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (i != old && i != next && nodes_[i].shard == of) follow_master(i);
  }
  observer_->promoted();
  if (plan_.shards != 0) {
    becomes_master(next);
    spread_news(f.told < 0 ? f.length2 : f.told);
  } else {
    tell_of_switch(f);
  }
  after(f.length2, [this, &f, old] { demote(f, old); });
}

/// Each client is told in its own time, or never.
void world::tell_of_switch(fault_plan const& f) {
  if (!sentinels_.empty()) return tell_sentinels(f);
  int const clients = static_cast<int>(clients_.size());
  for (int i = 0; i < clients; ++i) {
    nanos const told = f.told == 0 ? 0 : random_.between(0, f.told);
    if (f.told >= 0) after(told, [this, i] { move_address(i); });
  }
}

void world::move_address(int client) {
  addresses_[static_cast<std::size_t>(client)] = master();
  clients_[static_cast<std::size_t>(client)]->told_of_switch();
  observer_->told_of_switch(client);
}

/// The former master learns of it: it becomes a replica, and takes over what the master has.
void world::demote(fault_plan const& f, std::size_t old) {
  say("the former master is a replica now");
  set_clock();
  nodes_[old].down = false;
  nodes_[old].frozen_until = std::min(nodes_[old].frozen_until, now_);
  if (plan_.shards != 0) becomes_replica(old);
  follow_master(old);
  if ((f.variant & 4) != 0 && plan_.shards == 0) {
    auto const all = nodes_[old].by_id;
    for (auto const& [id, l] : all) close_server_end(l, true);
  }
  shards_[nodes_[old].shard].switching = false;
  shards_[nodes_[old].shard].all_follow_since = now_;
  if (plan_.shards != 0) return observer_->former_master_knows(nodes_[old].shard);
  if (!sentinels_.empty()) return all_sentinels_know();
  addresses_.assign(addresses_.size(), master());
  for (int i = 0; i < static_cast<int>(clients_.size()); ++i) observer_->told_of_switch(i);
}

}  // namespace conch::sim
