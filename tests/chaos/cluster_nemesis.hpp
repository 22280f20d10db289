// Three masters with a replica each, and locks whose slots move from one to another.
#pragma once

#include "chaos/failover_judge.hpp"
#include "chaos/nemesis.hpp"
#include "chaos/role_watch.hpp"
#include "support/cluster_set.hpp"

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace conch::test {

/// A shard is a master and its replica: two nodes, whichever of them is the master.
constexpr std::size_t chaos_shards = 3;

/// The lock's slot was moved to that shard, somewhen between these two moments.
struct slot_move {
  std::string lock;
  std::size_t to = 0;
  nanoseconds_of_boot from = 0, ended = 0;
};

/// docs/guarantees.md, P1: as with Sentinels a promotion may lose writes. Here the former master tells its subscribers
/// that they are none any more as soon as it learns of the promotion itself: before that it grants and renews nothing,
/// unless it was frozen, and then for one answer. So two holds may overlap if the shard of the lock had a promotion
/// that may have lost something, after its begin, and until the lease of what was granted before has ended, or until
/// the former master has resumed and has been seen.
class cluster_judge final : public failover_judge {
 public:
  struct shard_of_port {
    int port = 0;
    std::size_t shard = 0;
  };

  cluster_judge(std::chrono::milliseconds lease, std::vector<shard_of_port> ports, std::vector<slot_move> const& moves)
      : failover_judge{lease, {}},
        ports_{std::move(ports)},
        moves_{moves} {}

 private:
  bool is_explained(pair const& p) const override;
  std::size_t shard_of(int port) const;
  bool was_at(std::string const& lock, std::size_t shard, nanoseconds_of_boot from, nanoseconds_of_boot to) const;

  std::vector<shard_of_port> const ports_;
  std::vector<slot_move> const& moves_;  // grows; the first of each lock is where it was at the begin
};

class cluster_nemesis final : public redis_nemesis {
 public:
  explicit cluster_nemesis(chaos_options const& options);

  void calm() override;
  std::vector<promotion> promotions();
  std::vector<standstill> const& standstills() const { return standstills_; }
  std::vector<slot_move> const& moves() const { return moves_; }
  std::vector<cluster_judge::shard_of_port> ports();

 private:
  redis_server& keeper_of(std::string const& lock) override;
  std::vector<redis_server*> keepers() override;
  enum class state : std::uint8_t { up, stopped, down };

  void strike() override;
  bool is_up() override;
  std::vector<std::string> arguments_of(worker const& w) override;
  void stands_still(worker const& w, bool does) override { stands_still(w.name(), does); }
  void stands_still(std::string const& who, bool does);

  void hurt_nodes(int chance);
  std::optional<std::string> say(std::size_t node, std::vector<std::string> const& command);
  bool is_master(std::size_t node);
  /// The master of that shard; none: no node names one at the moment.
  std::optional<std::size_t> master_of(std::size_t shard);
  void kill_node(std::size_t i, std::chrono::milliseconds back_after);
  void stop_node(std::size_t i, std::chrono::milliseconds goes_on_after);
  void fail_over(std::size_t shard);
  void cut_replica_off(std::size_t from);
  void move_a_slot();
  void settle();

  cluster_set set_;
  std::vector<state> states_;
  role_watch roles_;
  steady::time_point quiet_until_{};
  /// The last time at which something was done to a node of the shard that may lose writes, and what is planned
  /// without.
  std::array<nanoseconds_of_boot, chaos_shards> hurt_{};
  struct planned {
    std::size_t shard = 0;
    nanoseconds_of_boot from = 0, to = 0;
  };
  std::vector<planned> without_loss_;
  std::vector<standstill> standstills_;
  std::vector<slot_move> moves_;
};

}  // namespace conch::test
