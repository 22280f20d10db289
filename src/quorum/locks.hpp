// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "quorum/quorum_lock.hpp"
#include "quorum/servers.hpp"

#include <memory>
#include <string_view>
#include <unordered_map>

namespace conch::quorum {

/// The locks in use, by name.
class locks {
 public:
  /// `to`: what their timers report to.
  locks(servers& all, events& to) noexcept : servers_{all}, events_{to} {}

  quorum_lock* find(std::string_view name);
  quorum_lock& get(std::string_view name);
  /// Ends the lock if it is no longer needed.
  void retire(quorum_lock& q);
  std::unordered_map<std::string_view, std::unique_ptr<quorum_lock>> const& all() const noexcept { return locks_; }

 private:
  servers& servers_;
  events& events_;
  std::unordered_map<std::string_view, std::unique_ptr<quorum_lock>> locks_;  // keys live in the quorum_locks
};

}  // namespace conch::quorum
