#include "support/cluster_set.hpp"

#include "support/free_port.hpp"
#include "support/patience.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace conch::test {

namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr unsigned slots = 16384;

void must_be_ok(std::string const& said, std::string const& what) {
  if (said != "OK") throw std::runtime_error{what + ": " + said};
}

}  // namespace

cluster_set::cluster_set(cluster_set_options const& o) {
  tls_ = o.tls;
  for (std::size_t i = 0; i < o.masters + o.replicas + o.empty; ++i) {
    start(o);
    ids_.push_back(probe(i).command({"CLUSTER", "MYID"}));
    // A configuration of its own each: nothing needs to be agreed on.
    must_be_ok(probe(i).command({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)}), "SET-CONFIG-EPOCH");
    if (i >= o.masters) continue;
    auto const first = static_cast<unsigned>(slots * i / o.masters),
               behind = static_cast<unsigned>(slots * (i + 1) / o.masters);
    must_be_ok(probe(i).command({"CLUSTER", "ADDSLOTSRANGE", std::to_string(first), std::to_string(behind - 1)}),
               "ADDSLOTSRANGE");
  }
  for (std::size_t i = 0; i < size(); ++i) {
    for (std::size_t other = 0; other < i; ++other) {  // rather than to wait for gossip
      must_be_ok(probe(i).command({"CLUSTER", "MEET", "127.0.0.1", std::to_string(node(other).port()), buses_[other]}),
                 "MEET");
    }
  }
  std::size_t const empty_from = o.masters + o.replicas;
  for (std::size_t i = o.masters; i < empty_from; ++i) {
    std::size_t const master = (i - o.masters) % o.masters;
    auto const end = steady::now() + patience;
    // It must know the master.
    while (probe(i).command({"CLUSTER", "REPLICATE", id(master)}) != "OK") {
      if (steady::now() > end) throw std::runtime_error{"a node never knew its master"};
      std::this_thread::sleep_for(10ms);
    }
  }
  for (std::size_t i = o.masters; i < empty_from; ++i)
    wait_for_answer(node(i), {"INFO", "replication"}, {"master_link_status:up"});
  settle();
}

/// A node that knows no other, and has no slots.
void cluster_set::start(cluster_set_options const& o) {
  constexpr int attempts = 5;
  for (int attempt = 1;; ++attempt) {
    std::string const bus = std::to_string(find_free_port());
    redis_server_options s;
    s.tcp = !o.tls;
    s.tls = o.tls;
    s.appendonly = o.appendonly;
    s.arguments = {"--cluster-enabled",
                   "yes",
                   "--cluster-port",
                   bus,
                   "--cluster-node-timeout",
                   std::to_string(o.node_timeout.count()),
                   "--repl-diskless-sync-delay",
                   "0",
                   "--repl-ping-replica-period",
                   "1"};
    if (o.tls) s.arguments.insert(s.arguments.end(), {"--tls-cluster", "yes", "--tls-replication", "yes"});
    s.arguments.insert(s.arguments.end(), o.arguments.begin(), o.arguments.end());
    try {
      nodes_.push_back(std::make_unique<redis_server>(s));
    } catch (std::runtime_error const&) {
      if (attempt == attempts) throw;
      continue;  // another program has taken the port of the bus
    }
    buses_.push_back(bus);
    probes_.emplace_back();
    return;
  }
}

std::string cluster_set::url(std::vector<std::size_t> const& of) const {
  std::string hosts;
  for (std::size_t i = 0; i < size(); ++i) {
    if (!of.empty() && std::find(of.begin(), of.end(), i) == of.end()) continue;
    hosts += (hosts.empty() ? "" : ",") + std::string{"127.0.0.1:"} + std::to_string(nodes_[i]->port());
  }
  return (tls_ ? "rediss-cluster://" : "redis-cluster://") + hosts;
}

redis_probe& cluster_set::probe(std::size_t i) {
  if (!probes_[i]) probes_[i] = std::make_unique<redis_probe>(node(i), 10s);
  return *probes_[i];
}

unsigned cluster_set::slot_of(std::string_view key) {
  return static_cast<unsigned>(probe(0).integer({"CLUSTER", "KEYSLOT", key}));
}

std::size_t cluster_set::owner(unsigned slot, std::size_t by) {
  for (std::string const& line : view_of(by)) {
    std::istringstream words{line};
    std::string name, range;
    words >> name >> range;
    if (range != "master" && range != "master?") continue;
    while (words >> range) {
      std::size_t const dash = range.find('-');
      auto const first = std::stoul(range),
                 last = dash == std::string::npos ? first : std::stoul(range.substr(dash + 1));
      if (slot < first || slot > last) continue;
      return static_cast<std::size_t>(std::find(ids_.begin(), ids_.end(), name) - ids_.begin());
    }
  }
  throw std::runtime_error{"nobody has slot " + std::to_string(slot)};
}

std::string cluster_set::name_at(std::size_t node, unsigned number) {
  for (unsigned n = 0;; ++n) {
    std::string name = "lock-" + std::to_string(number) + "-" + std::to_string(n);
    if (owner(slot_of("{" + name + "}")) == node) return name;
  }
}

void cluster_set::begin_move(unsigned slot, std::size_t to) {
  std::size_t const from = owner(slot, to);
  must_be_ok(probe(to).command({"CLUSTER", "SETSLOT", std::to_string(slot), "IMPORTING", id(from)}), "IMPORTING");
  must_be_ok(probe(from).command({"CLUSTER", "SETSLOT", std::to_string(slot), "MIGRATING", id(to)}), "MIGRATING");
}

std::size_t cluster_set::move_keys(unsigned slot, std::size_t to) {
  std::size_t const from = owner(slot, to);
  for (std::size_t moved = 0;; ++moved) {
    std::string const keys = probe(from).command({"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), "1"});
    if (keys == "[]") return moved;
    std::string const key = keys.substr(1, keys.size() - 2);
    std::string const said =
        probe(from).command({"MIGRATE", "127.0.0.1", std::to_string(node(to).port()), key, "0", "10000"});
    if (said != "OK" && said != "NOKEY") throw std::runtime_error{"MIGRATE: " + said};
  }
}

void cluster_set::end_move(unsigned slot, std::size_t to) {
  std::size_t const from = owner(slot, to);
  // The target first: for a moment both say that it has the slot, rather than neither.
  must_be_ok(probe(to).command({"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", id(to)}), "NODE");
  must_be_ok(probe(from).command({"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", id(to)}), "NODE");
  // As redis-cli tells the others: they would learn of it by gossip, and perhaps earlier of a move that follows. A
  // replica refuses.
  for (std::size_t i = 0; i < size(); ++i) {
    if (i != from && i != to && node(i).pid() != 0)
      (void)probe(i).command({"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", id(to)});
  }
}

void cluster_set::move_slot(unsigned slot, std::size_t to) {
  begin_move(slot, to);
  move_keys(slot, to);
  end_move(slot, to);
}

bool cluster_set::can_move_at_once() {
  return probe(0).command({"CLUSTER", "HELP"}).find("MIGRATESLOTS ") != std::string::npos;
}

void cluster_set::move_at_once(std::vector<unsigned> const& those, std::size_t to) {
  std::size_t const from = owner(those.front(), to);
  std::vector<std::string> order{"CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"};
  for (unsigned const slot : those) order.insert(order.end(), 2, std::to_string(slot));
  order.insert(order.end(), {"NODE", id(to)});
  must_be_ok(probe(from).command(order), "MIGRATESLOTS");
  auto const has_all = [&] {
    return std::all_of(those.begin(), those.end(), [&](unsigned slot) { return owner(slot, to) == to; });
  };
  for (auto const end = steady::now() + patience; !has_all(); std::this_thread::sleep_for(5ms)) {
    if (steady::now() > end)
      throw std::runtime_error{"the slots never move: " + probe(from).command({"CLUSTER", "GETSLOTMIGRATIONS"})};
  }
}

void cluster_set::fail_over(std::size_t replica) {
  constexpr auto one_attempt = 6s;  // the server gives up after 5
  auto const end = steady::now() + patience;
  auto const is_master = [&] {
    return probe(replica).command({"INFO", "replication"}).find("role:master") != std::string::npos;
  };
  for (auto next = steady::now();; std::this_thread::sleep_for(2ms)) {
    if (steady::now() >= next) {
      must_be_ok(probe(replica).command({"CLUSTER", "FAILOVER"}), "FAILOVER");
      next = steady::now() + one_attempt;
    }
    if (steady::now() > end) throw std::runtime_error{"the replica is never promoted: " + node(replica).log()};
    if (!is_master()) continue;
    settle();
    if (is_master()) return;
    // Redis 7.0, soon after another failover: it counts the votes of that one, and the others do not follow
    next = steady::now();
  }
}

void cluster_set::kill(std::size_t i) {
  node(i).kill();
  probes_[i].reset();
}

void cluster_set::restart(std::size_t i) { node(i).restart(true); }

bool cluster_set::agree() {
  std::string const known = "cluster_known_nodes:" + std::to_string(size());
  std::vector<std::string> first;
  for (std::size_t i = 0; i < size(); ++i) {
    if (node(i).pid() == 0) continue;
    std::string const said = redis_probe{node(i), 10s}.command({"CLUSTER", "INFO"});
    if (said.find(known) == std::string::npos || said.find("cluster_state:ok") == std::string::npos) return false;
    auto view = view_of(i);
    if (first.empty()) first = std::move(view);
    else if (first != view) return false;
  }
  return true;
}

void cluster_set::settle() {
  for (auto const end = steady::now() + patience; !agree(); std::this_thread::sleep_for(10ms)) {
    if (steady::now() > end) throw std::runtime_error{"the nodes do not agree: " + views()};
  }
}

void cluster_set::assign(unsigned slot, std::size_t to) {
  for (std::size_t i = 0; i < size(); ++i) {  // a replica refuses
    if (node(i).pid() != 0)
      (void)redis_probe{node(i), 10s}.command({"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", id(to)});
  }
  (void)redis_probe{node(to), 10s}.command({"CLUSTER", "BUMPEPOCH"});
}

/// What each node that runs says, as text.
std::string cluster_set::views() {
  std::string all;
  for (std::size_t i = 0; i < size(); ++i) {
    if (node(i).pid() == 0) continue;
    redis_probe at{node(i), 10s};
    all += "\nnode " + std::to_string(i) + "\n" + at.command({"CLUSTER", "INFO"}).substr(0, 20) + "\n" +
           at.command({"CLUSTER", "NODES"});
  }
  return all;
}

/// What the node says of each: the id, whether it is a master or whose replica it is, and its slots.
std::vector<std::string> cluster_set::view_of(std::size_t by) {
  std::istringstream all{redis_probe{node(by), 10s}.command({"CLUSTER", "NODES"})};
  std::vector<std::string> view;
  for (std::string line; std::getline(all, line);) {
    std::istringstream words{line};
    std::string name, address, flags, master, ignored, text;
    words >> name >> address >> flags >> master >> ignored >> ignored >> ignored >> ignored;
    text = name + (flags.find("master") != std::string::npos ? " master" : " of " + master) +
           (flags.find("handshake") != std::string::npos ? "?" : "");
    for (std::string slots_of; words >> slots_of;) {
      if (slots_of.front() != '[') text += " " + slots_of;
    }
    view.push_back(std::move(text));
  }
  std::sort(view.begin(), view.end());
  return view;
}

}  // namespace conch::test
