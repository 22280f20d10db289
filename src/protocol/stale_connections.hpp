// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <cstdint>
#include <vector>

namespace conch::engine {

/// Earlier connections that the server may still hold open. Bytes in their buffers would be carried out after ours, and their
/// subscriptions would count as somebody who hears. A new connection ends them with CLIENT KILL, where this user may.
class stale_connections {
 public:
  void add(session const& ended) { open_.push_back(ended); }
  /// Connected to the run of the server that `now` names. After a restart no connection of before is left, and others may have the old
  /// numbers; on a unix socket all addresses are the same, so it would be somebody else's that ended.
  void drop_earlier_runs(session const& now);
  std::vector<session> const& open() const noexcept { return open_; }

  void ended(std::uint64_t client_id);
  void may_not_be_ended();
  /// May this user end its connections? As the server's last answer says; no, before there was one.
  bool can_end() const noexcept { return can_end_; }

 private:
  std::vector<session> open_;
  bool can_end_ = false;
};

}  // namespace conch::engine
