#pragma once

#include "support/redis_server.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace conch::test {

struct cluster_set_options {
  std::size_t masters = 3;
  /// Each is a replica of the master with the same number, modulo the number of masters.
  std::size_t replicas = 0;
  /// Masters without slots, behind all others.
  std::size_t empty = 0;
  /// All connections of clients and between nodes use TLS; `arguments` name the certificate.
  bool tls = false;
  /// A machine that is busy with something else must not look like a node that is down.
  std::chrono::milliseconds node_timeout = std::chrono::seconds{5};
  /// A node that is killed, and started again, has its data.
  bool appendonly = false;
  /// More arguments of every node.
  std::vector<std::string> arguments = {};
};

/// A Redis Cluster: masters with equal parts of the slots, in order, and behind them their replicas. Where a node is
/// meant by a number, it keeps the number for good, whatever its role. What does not come about in a minute throws
/// `std::runtime_error`.
class cluster_set {
 public:
  explicit cluster_set(cluster_set_options const& o = {});

  /// That of the nodes with these numbers; none: of all.
  std::string url(std::vector<std::size_t> const& of = {}) const;

  redis_server& node(std::size_t i) { return *nodes_[i]; }
  std::size_t size() const { return nodes_.size(); }
  /// The 40 digits by which the others know it.
  std::string const& id(std::size_t i) const { return ids_[i]; }

  /// As CLUSTER KEYSLOT of a node says.
  unsigned slot_of(std::string_view key);
  /// The node that has the slot, by what the node `by` says; throws if it says that none has it.
  std::size_t owner(unsigned slot, std::size_t by = 0);
  /// A name for which the lock's key is in a slot of that node; names with different numbers differ.
  std::string name_at(std::size_t node, unsigned number = 0);

  /// Moves a slot as `redis-cli --cluster reshard` does, key by key; or in these three parts.
  void move_slot(unsigned slot, std::size_t to);
  void begin_move(unsigned slot, std::size_t to);
  /// All that are there at this moment. Answers how many.
  std::size_t move_keys(unsigned slot, std::size_t to);
  void end_move(unsigned slot, std::size_t to);

  /// Do the nodes know CLUSTER MIGRATESLOTS (Valkey 9)?
  bool can_move_at_once();
  /// Moves slots of one node with all their keys at once. Returns when the new owner says that it has them.
  void move_at_once(std::vector<unsigned> const& those, std::size_t to);

  /// CLUSTER FAILOVER at this replica. Returns when all nodes that run see it as a master with slots.
  void fail_over(std::size_t replica);

  /// By SIGKILL; and from the data that it has written.
  void kill(std::size_t i);
  void restart(std::size_t i);

  /// Do all nodes that run say that the Cluster is well, and the same of each node and slot?
  bool agree();
  /// Until all nodes that run say that the Cluster is well, and the same of each node and slot.
  void settle();
  /// Tells all nodes that run, as an operator does where they do not agree.
  void assign(unsigned slot, std::size_t to);

 private:
  void start(cluster_set_options const& o);
  redis_probe& probe(std::size_t i);
  std::vector<std::string> view_of(std::size_t by);
  std::string views();

  bool tls_ = false;
  std::vector<std::unique_ptr<redis_server>> nodes_;
  std::vector<std::string> buses_;  // the ports of the bus
  std::vector<std::string> ids_;
  std::vector<std::unique_ptr<redis_probe>> probes_;  // made when first used
};

}  // namespace conch::test
