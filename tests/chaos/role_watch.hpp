// Which server is made a master, and when.
#pragma once

#include "chaos/failover_judge.hpp"
#include "support/redis_probe.hpp"
#include "support/redis_server.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace conch::test {

nanoseconds_of_boot boot_now();

/// Asks all servers for their roles, again and again.
class role_watch {
 public:
  explicit role_watch(std::vector<redis_server*> of);
  ~role_watch();
  role_watch(role_watch const&) = delete;
  role_watch& operator=(role_watch const&) = delete;

  /// It is about to be killed: the role in which it comes back is not a promotion. What it has become since the last
  /// look counts.
  void forget(std::size_t server);
  /// Clients are sent to it as the master since some moment between these two. One that came back as a master, and was
  /// no replica since, is promoted by that.
  void named(std::size_t server, nanoseconds_of_boot from, nanoseconds_of_boot to);
  std::vector<promotion> promotions();

 private:
  struct seen {
    bool was_replica = false;
    nanoseconds_of_boot at = 0;
    std::uint64_t life = 0;
    bool returned = false;  // from a kill, and neither a replica nor named as the master since
  };

  void keep_looking(std::size_t server);
  void look(std::size_t server, std::optional<redis_probe>& probe);

  std::vector<redis_server*> const of_;
  std::mutex mutex_;
  std::vector<seen> seen_;
  std::vector<promotion> promotions_;
  std::atomic<bool> ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace conch::test
