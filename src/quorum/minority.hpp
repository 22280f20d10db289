// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "quorum/quorum_environment.hpp"
#include "quorum/servers.hpp"
#include "quorum/vote_requests.hpp"

#include <cstddef>
#include <optional>

namespace conch::quorum {

/// Some votes in hand, but not enough. To keep them may keep all clients from the lock; to give them back may lose it.
class minority {
 public:
  minority(quorum_environment& on, servers& all, vote_requests& requests) noexcept
      : on_{on},
        servers_{all},
        requests_{requests} {}

  void decide(quorum_lock& q, time_point now);
  /// Passes the vote on to the next in line at that server.
  void yield(quorum_lock& q, vote& v, bool rest, time_point now);

 private:
  static std::size_t asked(quorum_lock const& q);
  std::optional<protocol::rival> rival_before(quorum_lock const& q, time_point first) const;
  void yield_all(quorum_lock& q, protocol::rival const& to, time_point now);
  void ask_others(quorum_lock& q, time_point first, bool too_few, time_point now);

  quorum_environment& on_;
  servers& servers_;
  vote_requests& requests_;
};

}  // namespace conch::quorum
