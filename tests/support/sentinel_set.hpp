#pragma once

#include "support/redis_server.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace conch::test {

struct sentinel_set_options {
  std::size_t replicas = 2;
  std::size_t sentinels = 3;
  /// A machine that is busy with something else must not look like a master that is down.
  std::chrono::milliseconds down_after = std::chrono::seconds{3};
  std::chrono::milliseconds failover_timeout = std::chrono::seconds{10};
  /// A server that is killed, and started again, has its data: as a master, for it knows of no other.
  bool appendonly = false;
};

/// A master `m`, its replicas and their Sentinels. What does not come about in a minute throws `std::runtime_error`.
class sentinel_set {
 public:
  explicit sentinel_set(sentinel_set_options const& o = {});

  /// That of the Sentinels with these numbers; none: of all.
  std::string url(std::vector<std::size_t> const& of = {}) const;

  redis_server& server(std::size_t i) { return *servers_[i]; }
  redis_server& sentinel(std::size_t i) { return *sentinels_[i]; }
  std::size_t servers() const { return servers_.size(); }
  std::size_t sentinels() const { return sentinels_.size(); }

  /// By what this Sentinel says.
  std::size_t master(std::size_t by = 0, std::chrono::milliseconds within = std::chrono::seconds{10});

  /// Asks a Sentinel for a failover, in which the old master lives on.
  void fail_over(std::size_t by = 0);

  /// Until all Sentinels name another master, and this server is a replica. Before that a client that asks for the
  /// first time may still come to this server, and be granted what the failover then loses.
  void wait_until_replaced(std::size_t old_master);

  /// Until all Sentinels know each other, and the same master with all its replicas.
  void settle();

  static redis_server_options server_options(std::vector<std::string> const& more);

 private:
  std::vector<std::unique_ptr<redis_server>> servers_, sentinels_;
};

}  // namespace conch::test
