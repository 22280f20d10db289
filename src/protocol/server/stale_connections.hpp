// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <cstdint>
#include <vector>

namespace conch::protocol {

using namespace engine;

/// Earlier connections that the server may still hold open. It would carry out the bytes in their buffers after ours,
/// and would count their subscriptions as receivers. A new connection ends them with CLIENT KILL, if this user may.
class stale_connections {
 public:
  void add(session const& ended) { open_.push_back(ended); }
  /// Forgets the connections to other runs of the server than the one of `on`. After a restart none of them is left,
  /// and other clients' connections may have their ids. On a unix socket all addresses are equal, so a CLIENT KILL
  /// would end another client's connection.
  void drop_earlier_runs(session const& on, time_point now);
  std::vector<session> const& open() const noexcept { return open_; }

  void ended(std::uint64_t client_id, time_point now);
  void may_not_be_ended();
  /// May this user end its connections? According to the server's last answer; false before the first.
  bool can_end() const noexcept { return can_end_; }
  /// Have they all ended, as far as is known?
  bool are_ended() const noexcept { return open_.empty(); }
  /// When this client learned that the last of them had ended.
  time_point ended_at() const noexcept { return ended_at_; }
  /// May one of them, which could not be ended, still bring a request to the server after the one that was written at
  /// `written`? `old_connection_until`: of the place or the clean-up. The time of writing counts, because the answer
  /// may be late.
  bool may_echo(time_point old_connection_until, time_point written) const noexcept {
    return !can_end_ && written < old_connection_until;
  }

 private:
  std::vector<session> open_;
  bool can_end_ = false;
  time_point ended_at_ = time_point::min();
};

}  // namespace conch::protocol
