#include "chaos/cluster_nemesis.hpp"

#include "servers/redis/topology/slots.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <thread>

namespace conch::test {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds node_timeout = 2s;

std::vector<redis_server*> nodes_of(cluster_set& set) {
  std::vector<redis_server*> all;
  for (std::size_t i = 0; i < set.size(); ++i) all.push_back(&set.node(i));
  return all;
}

std::string lock_of(int number) { return "chaos:" + std::to_string(number); }

}  // namespace

// ----------------------------------------------------------------------------------------------------------- judge

std::size_t cluster_judge::shard_of(int port) const {
  return std::find_if(ports_.begin(), ports_.end(), [&](shard_of_port const& one) { return one.port == port; })->shard;
}

/// While its slot moves it is at both.
bool cluster_judge::was_at(std::string const& lock, std::size_t shard, nanoseconds_of_boot from,
                           nanoseconds_of_boot to) const {
  slot_move const* last = nullptr;
  for (slot_move const& one : moves_) {
    if (one.lock != lock) continue;
    if (last != nullptr && last->to == shard && last->from <= to && one.ended >= from) return true;
    last = &one;
  }
  return last != nullptr && last->to == shard && last->from <= to;
}

bool cluster_judge::is_explained(pair const& p) const {
  for (std::size_t i = 1; i < promotions().size(); ++i) {
    promotion const& one = promotions()[i];
    std::size_t const shard = shard_of(one.port);
    if (one.lossless || one.from > p.from || !was_at(p.lower.lock, shard, one.from, p.to)) continue;
    if (p.to <= one.to + in_ns(lease()) + in_ns(asking)) return true;
    for (standstill const& s : standstills()) {
      bool const is_former = s.who != std::to_string(one.port) &&
                             std::any_of(ports_.begin(), ports_.end(), [&](shard_of_port const& other) {
                               return other.shard == shard && std::to_string(other.port) == s.who;
                             });
      if (is_former && s.from <= one.to && s.to >= one.from && p.to <= s.to + in_ns(asking)) return true;
    }
  }
  return false;
}

// ---------------------------------------------------------------------------------------------------------- events

cluster_nemesis::cluster_nemesis(chaos_options const& options)
    : redis_nemesis{options},
      set_{{.masters = chaos_shards,
            .replicas = chaos_shards,
            .node_timeout = node_timeout,
            .appendonly = true,
            .arguments = {"--cluster-allow-replica-migration", "no"}}},
      states_(set_.size(), state::up),
      roles_{nodes_of(set_)} {
  for (int i = 0; i < options_.locks; ++i)
    moves_.push_back({lock_of(i), set_.owner(redis::slot_of_lock(lock_of(i))) % chaos_shards, 0, 0});
  for (worker& w : workers_) start(w);
}

std::vector<cluster_judge::shard_of_port> cluster_nemesis::ports() {
  std::vector<cluster_judge::shard_of_port> all;
  for (std::size_t i = 0; i < set_.size(); ++i) all.push_back({set_.node(i).port(), i % chaos_shards});
  return all;
}

/// Some know one node, and are told of the others.
std::vector<std::string> cluster_nemesis::arguments_of(worker const& w) {
  std::vector<std::size_t> listed;
  std::size_t const known = 1 + static_cast<std::size_t>(w.number) % set_.size();
  for (std::size_t i = 0; i < known; ++i) listed.push_back((static_cast<std::size_t>(w.number) + i) % set_.size());
  return {"--url", set_.url(listed)};
}

void cluster_nemesis::stands_still(std::string const& who, bool does) {
  if (does) {
    standstills_.push_back({who, boot_now(), std::numeric_limits<nanoseconds_of_boot>::max()});
    return;
  }
  for (standstill& s : standstills_) {
    if (s.who == who) s.to = std::min(s.to, boot_now());
  }
}

bool cluster_nemesis::is_up() {
  return std::all_of(states_.begin(), states_.end(), [](state s) { return s == state::up; });
}

redis_server& cluster_nemesis::keeper_of(std::string const& lock) {
  return set_.node(set_.owner(redis::slot_of_lock(lock)));
}

std::vector<redis_server*> cluster_nemesis::keepers() {
  std::vector<redis_server*> all;
  for (std::size_t i = 0; i < set_.size(); ++i) {
    if (is_master(i)) all.push_back(&set_.node(i));
  }
  return all;
}

void cluster_nemesis::strike() {
  int const what = roll(100);
  if (what < 40) {
    // A process that is paused for longer than a lease has lost something.
    hurt_worker(any_worker(), roll(options_.lose_data ? 100 : 45));
  } else if (what < 55) {
    auto const i = static_cast<std::size_t>(roll(static_cast<int>(set_.size())));
    if (states_[i] != state::up) return;
    try {
      kill_a_connection(set_.node(i));
    } catch (std::runtime_error const&) {
      // Too slow to answer at the moment: it is not this one's part to complain.
    }
  } else if (what < 75) {
    move_a_slot();
  } else if (!options_.sabotage && steady::now() >= quiet_until_) {  // else a failover would explain some of it
    quiet_until_ = steady::now() + 500ms + milliseconds{roll(3500)};
    hurt_nodes(roll(100));
  }
}

void cluster_nemesis::hurt_nodes(int chance) {
  auto const shard = static_cast<std::size_t>(roll(static_cast<int>(chaos_shards)));
  auto const at = master_of(shard);
  if (!at) return;
  // Shorter than the others' patience, or longer.
  auto const some_time = [&] { return milliseconds{roll(3) == 0 ? roll(700) : 2500 + roll(3500)}; };
  if (!options_.lose_data) {
    if (chance < 70) fail_over(shard);
    else stop_node(chance < 90 ? *at : (*at + chaos_shards) % set_.size(), milliseconds{roll(700)});
  } else if (chance < 22) {
    kill_node(*at, some_time());
  } else if (chance < 42) {
    stop_node(*at, some_time());
  } else if (chance < 62) {
    fail_over(shard);
  } else if (chance < 82) {
    cut_replica_off(*at);
  } else if (chance < 91) {
    stop_node((*at + chaos_shards) % set_.size(), some_time());
  } else {
    kill_node((*at + chaos_shards) % set_.size(), some_time());
  }
}

/// Nothing if it does not answer.
std::optional<std::string> cluster_nemesis::say(std::size_t node, std::vector<std::string> const& command) {
  if (states_[node] != state::up) return {};
  try {
    return redis_probe{set_.node(node), 2s}.command(command);
  } catch (std::runtime_error const&) {
    return {};
  }
}

bool cluster_nemesis::is_master(std::size_t node) {
  auto const role = say(node, {"ROLE"});
  return role && role->starts_with("[master");
}

std::optional<std::size_t> cluster_nemesis::master_of(std::size_t shard) {
  std::size_t const other = shard + chaos_shards;
  bool const first = is_master(shard), second = is_master(other);
  if (first == second) return {};  // one does not know yet
  return first ? shard : other;
}

void cluster_nemesis::kill_node(std::size_t i, milliseconds back_after) {
  // What a new replica has is not on disk before its file is rewritten.
  auto const said = say(i, {"INFO", "persistence"});
  bool const on_disk = said && said->find("aof_rewrite_in_progress:0") != std::string::npos &&
                       said->find("aof_rewrite_scheduled:0") != std::string::npos &&
                       said->find("loading:0") != std::string::npos;
  if (!on_disk) return;
  note(is_master(i) ? "masters killed" : "replicas killed");
  roles_.forget(i);
  hurt_[i % chaos_shards] = boot_now();
  set_.kill(i);
  states_[i] = state::down;
  std::string const port = std::to_string(set_.node(i).port());
  stands_still(port, true);
  later(back_after, [this, i, port] {
    set_.restart(i);
    states_[i] = state::up;
    hurt_[i % chaos_shards] = boot_now();
    stands_still(port, false);
  });
}

void cluster_nemesis::stop_node(std::size_t i, milliseconds goes_on_after) {
  if (states_[i] != state::up) return;
  note(is_master(i) ? "masters stopped" : "replicas stopped");
  hurt_[i % chaos_shards] = boot_now();
  set_.node(i).stop();
  states_[i] = state::stopped;
  std::string const port = std::to_string(set_.node(i).port());
  stands_still(port, true);
  later(goes_on_after, [this, i, port] {
    if (states_[i] != state::stopped) return;
    set_.node(i).cont();
    states_[i] = state::up;
    hurt_[i % chaos_shards] = boot_now();
    stands_still(port, false);
  });
}

/// The master waits until its replica has everything.
void cluster_nemesis::fail_over(std::size_t shard) {
  auto const at = master_of(shard);
  if (!at) return;
  std::size_t const to = (*at + chaos_shards) % set_.size();
  nanoseconds_of_boot const since = boot_now();
  if (say(to, {"CLUSTER", "FAILOVER"}) != "OK") return;
  note("CLUSTER FAILOVER");
  for (auto const end = steady::now() + 6s; steady::now() < end && !is_master(to); std::this_thread::sleep_for(5ms))
    run_due();
  // It is one without loss if nobody was hurt meanwhile; and a moment longer, for what looks at the roles.
  if (hurt_[shard] < since) without_loss_.push_back({shard, since, boot_now() + in_ns(200ms)});
}

/// The master goes on alone, and what it grants is lost if its replica takes over.
void cluster_nemesis::cut_replica_off(std::size_t from) {
  if (!say(from, {"ACL", "SETUSER", "default", "-psync", "-sync"})) return;
  note("replicas cut off");
  say(from, {"CLIENT", "KILL", "TYPE", "REPLICA"});
  milliseconds const before{100 + roll(1500)};
  bool const by_kill = roll(2) == 0;
  bool const is_hurt = roll(4) != 0;
  later(before, [this, from, by_kill, is_hurt] {
    if (states_[from] != state::up || !is_hurt) return;
    if (by_kill) kill_node(from, 2500ms + milliseconds{roll(3500)});
    else stop_node(from, 2500ms + milliseconds{roll(3500)});
  });
  later(before + milliseconds{500 + roll(1000)}, [this, from] {
    say(from, {"ACL", "SETUSER", "default", "+psync", "+sync"});
  });
}

/// Only where all is well: a slot of which one of the two nodes fails over on the way loses its keys, with or without
/// us.
void cluster_nemesis::move_a_slot() {
  if (!is_up() || !set_.agree()) return;
  std::string const lock = lock_of(roll(options_.locks));
  unsigned const slot = redis::slot_of_lock(lock);
  std::size_t const from = set_.owner(slot);
  auto const to = master_of((from + 1 + static_cast<std::size_t>(roll(2))) % chaos_shards);
  if (!to) return;
  note("slots moved");
  nanoseconds_of_boot const began = boot_now();
  set_.begin_move(slot, *to);
  if (roll(2) == 0) std::this_thread::sleep_for(milliseconds{roll(100)});
  set_.move_keys(slot, *to);
  if (roll(2) == 0) std::this_thread::sleep_for(milliseconds{roll(100)});
  set_.end_move(slot, *to);
  moves_.push_back({lock, *to % chaos_shards, began, boot_now()});
  settle();  // the replicas learn of it by gossip
}

void cluster_nemesis::calm() {
  nemesis::calm();
  // A node that was frozen or killed at the time has not been told.
  for (std::size_t i = 0; i < set_.size(); ++i) say(i, {"ACL", "SETUSER", "default", "+psync", "+sync"});
  settle();
}

/// Where the nodes never agree on a slot, an operator decides (`redis-cli --cluster fix`).
void cluster_nemesis::settle() {
  try {
    set_.settle();
  } catch (std::runtime_error const& why) {
    note("slots mended");
    std::fprintf(stderr, "\n%s\n", why.what());
    for (int i = 0; i < options_.locks; ++i) {
      std::string const lock = lock_of(i);
      auto const last =
          std::find_if(moves_.rbegin(), moves_.rend(), [&](slot_move const& one) { return one.lock == lock; });
      if (auto const to = master_of(last->to)) set_.assign(redis::slot_of_lock(lock), *to);
    }
    set_.settle();
  }
}

std::vector<promotion> cluster_nemesis::promotions() {
  auto all = roles_.promotions();
  for (promotion& p : all) {
    std::size_t shard = 0;
    for (auto const& one : ports()) {
      if (one.port == p.port) shard = one.shard;
    }
    p.lossless = std::any_of(without_loss_.begin(), without_loss_.end(),
                             [&](planned const& w) { return w.shard == shard && p.to >= w.from && p.to <= w.to; });
  }
  return all;
}

}  // namespace conch::test
