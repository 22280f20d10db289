// A master and its replicas: what the master writes reaches them later, one of them takes over, with or without all of it, and
// the former master hears of that late.
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>

namespace conch::sim {

void world::make_nodes() {
  using kind = fault_plan::kind;
  int const replicas = plan_.replicas != 0 ? plan_.replicas : plan_.has({kind::role_change}) ? 1 : 0;
  for (int i = 0; i <= replicas; ++i) {
    nodes_.push_back({redis_model{plan_.epoch_us}});
    node& n = nodes_.back();
    n.model.set_own_pushes_after_reply(plan_.own_pushes_after_reply);
    if (!plan_.may_kill) n.model.deny("client|kill");
    if (plan_.watched) watch_channels(n.model);
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
    n.delay = plan_.replication_delay * i;
    n.ahead_us = i * plan_.replica_ahead / microsecond;
    server().acknowledge(static_cast<std::size_t>(i), 0);
  }
}

/// What the master has changed reaches each replica a little later, in order. What a former master changes reaches nobody.
void world::replicate(std::size_t from) {
  if (nodes_.size() == 1) return;
  auto const effects = nodes_[from].model.take_effects();
  if (effects.empty() || from != master_) return;
  ++batches_;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    node& n = nodes_[i];
    if (!n.follows) continue;
    n.stream.push_back({batches_, effects, nodes_[from].model.offset()});
    after(n.delay, [this, i, number = batches_] { catch_up(i, number); });
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

/// The master hears of it, unless another one is the master by then, or does not hear of that replica any more.
void world::acknowledge(std::size_t replica, std::int64_t offset) {
  if (!plan_.synced) return;
  after(nodes_[replica].delay, [this, replica, offset, of = master_] {
    if (of != master_ || nodes_[of].down || !nodes_[replica].follows) return;
    server().acknowledge(replica, offset);
    answer_waits(of);
  });
}

/// Those of which enough replicas have acknowledged, or whose time is over.
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

bool world::all_follow() const {
  return !nodes_[master_].down &&
         static_cast<std::size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](node const& n) { return n.follows; })) + 1 == nodes_.size();
}

/// From here on it has what the master has.
void world::follow_master(std::size_t at) {
  node& n = nodes_[at];
  n.model.set_replica(true);
  n.takes_writes = false;
  distribute(at, n.model.take_pushes());
  drop_killed(n);
  n.model.copy_data(server());
  (void)n.model.take_effects();
  n.stream.clear();
  n.follows = true;
  acknowledge(at, server().offset());
}

/// In good order: the replica has everything before it takes over, and the clients of the other stay where they are, or are
/// sent away. The address follows, sooner or later.
void world::change_roles(fault_plan const& f) {
  if (nodes_[master_].down) return;
  std::size_t const old = master_, next = 1 - master_;
  catch_up(next, batches_);
  nodes_[next].follows = false;
  master_ = next;
  server().set_replica(false);
  nodes_[next].takes_writes = true;
  ++nodes_[next].term;
  nodes_[next].order = ++masters_;
  follow_master(old);
  observer_->roles_changed();
  if ((f.variant & 1) != 0) {
    auto const all = nodes_[old].by_id;
    for (auto const& [id, l] : all) close_server_end(l, true);
  }
  auto const moved = [this] { addresses_.assign(addresses_.size(), master_); };
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

// ------------------------------------------------------------------------------- a replica takes over, and misses something

/// The begin of it: the replicas hear no more of the master, which goes on, is killed, or stands still.
void world::lose_master(fault_plan const& f) {
  if (nodes_.size() == 1 || switching_ || nodes_[master_].down) return;
  std::size_t const old = master_;
  switching_ = true;
  auto const how = f.master_is;
  if (how != fault_plan::master_state::well) {
    for (node& n : nodes_) n.follows = false;  // what is under way arrives
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
  std::size_t const others = nodes_.size() - 1;
  std::size_t const next = (old + 1 + static_cast<std::size_t>(f.name) % others) % nodes_.size();
  say("server " + std::to_string(next) + " is the master now, and server " + std::to_string(old) + " does not know yet");
  set_clock();
  node& n = nodes_[next];
  n.stream.clear();  // it never gets the rest
  n.follows = false;
  n.takes_writes = true;
  ++n.term;
  n.order = ++masters_;
  n.model.set_replica(false);
  master_ = next;
  promoted_at_ = now_;
  set_clock();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (i != old && i != next) follow_master(i);
  }
  observer_->promoted();
  tell_of_switch(f);
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
  addresses_[static_cast<std::size_t>(client)] = master_;
  clients_[static_cast<std::size_t>(client)]->told_of_switch();
  observer_->told_of_switch(client);
}

/// The former master hears of it: it becomes a replica, and takes over what the master has.
void world::demote(fault_plan const& f, std::size_t old) {
  say("the former master is a replica now");
  set_clock();
  nodes_[old].down = false;
  nodes_[old].frozen_until = std::min(nodes_[old].frozen_until, now_);
  follow_master(old);
  if ((f.variant & 4) != 0) {
    auto const all = nodes_[old].by_id;
    for (auto const& [id, l] : all) close_server_end(l, true);
  }
  switching_ = false;
  all_follow_since_ = now_;
  if (!sentinels_.empty()) return all_sentinels_know();
  addresses_.assign(addresses_.size(), master_);
  for (int i = 0; i < static_cast<int>(clients_.size()); ++i) observer_->told_of_switch(i);
}

}  // namespace conch::sim
