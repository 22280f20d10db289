// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace conch::protocol {

/// Commands that one script carries out together (lua/gathered.lua): those that a client sends one after the other,
/// before any of them is written. Each has its own id, and its own answer as if it had been alone. No I/O, no clock.
class gathering {
 public:
  /// Locks in one script. While it runs, no other client is served: for 16 contended locks about as long as for 16
  /// scripts of one lock.
  static constexpr std::size_t most = 16;

  struct member {
    bool releases = false;
    std::string name;
    grant_id id = 0;
    std::int64_t ticket = 0, not_after_us = 0, proposal = 0;  // as in acquire_command
    grant_id new_id = 0;                                      // this and what follows as in release_command
    std::int64_t floor = 0, next_fence_floor = 0;
  };
  /// What all of them have in common.
  struct terms {
    milliseconds lease{}, claim{}, retention{};
    bool votes = false;
    unsigned slot = 0;  // of a Cluster, whose nodes refuse a script for several slots; otherwise always the same

    bool operator==(terms const&) const = default;
  };

  /// Takes the command, if it fits to those that are here: of the same terms, and for another lock than any of them.
  /// False: it does not. A command with its source, or for what the script does not do, fits to nothing.
  bool add(command const& c, unsigned slot);
  void clear() noexcept { size_ = 0; }

  std::span<member const> members() const noexcept { return std::span{members_}.first(size_); }
  bool empty() const noexcept { return size_ == 0; }
  terms const& common() const noexcept { return terms_; }
  bool waits() const noexcept { return waits_ != waiting::no; }  // acquires join the queue

  /// How many acquire. In the script they come first.
  std::size_t acquires() const noexcept { return acquires_; }
  /// The places of the members in the script's answer.
  std::array<std::uint8_t, most> places() const noexcept;

 private:
  enum class waiting : std::uint8_t { unknown, no, yes };

  bool fits(terms const& t, std::string_view name, waiting w) const noexcept;
  member& next(terms const& t, std::string_view name, waiting w);

  std::array<member, most> members_;  // their names keep their memory
  std::size_t size_ = 0, acquires_ = 0;
  terms terms_;
  waiting waits_ = waiting::unknown;
};

}  // namespace conch::protocol
