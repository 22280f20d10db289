// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <cstdint>
#include <vector>

namespace conch::protocol {

using namespace engine;

/// Earlier connections that the server may still hold open. It would carry out the bytes in their buffers after ours, and would count their
/// subscriptions as receivers. A new connection ends them with CLIENT KILL, if this user may.
class stale_connections {
 public:
  void add(session const& ended) { open_.push_back(ended); }
  /// Forgets the connections to other runs of the server than the one of `now`. After a restart none of them is left, and other clients'
  /// connections may have their ids. On a unix socket all addresses are equal, so a CLIENT KILL would end another client's connection.
  /// True: there was such a connection.
  bool drop_earlier_runs(session const& now);
  std::vector<session> const& open() const noexcept { return open_; }

  void ended(std::uint64_t client_id);
  void may_not_be_ended();
  /// May this user end its connections? As the server's last answer says; false before the first.
  bool can_end() const noexcept { return can_end_; }

 private:
  std::vector<session> open_;
  bool can_end_ = false;
};

}  // namespace conch::protocol
