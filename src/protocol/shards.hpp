// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <conch/clock.hpp>

#include <cstddef>
#include <string_view>

namespace conch::protocol {

/// What the owner of the map tells the owner of the locks.
class shard_events {
 public:
  /// Some slot has another owner than before.
  virtual void moved(time_point now) = 0;
  /// That master has ended the subscription for the slot, unasked.
  virtual void unsubscribed(std::size_t number, unsigned slot, time_point now) = 0;

 protected:
  ~shard_events() = default;
};

/// Knows which master of a Cluster has the locks of each slot, and owns the transports to the masters. A master keeps
/// its number. No function here may call back into the engine before it has returned.
class shards {
 public:
  static constexpr std::size_t unknown_master = static_cast<std::size_t>(-1);

  /// Where a renewal is to be sent that a master has put off.
  struct detour {
    enum class kind : std::uint8_t {
      none,        // later, to the same
      each_alone,  // to the same, at once: each lock in a script of its own
      there,       // at once, to the master with that number, after an asking_command
    };

    kind what = kind::none;
    std::size_t number = unknown_master;
  };

  /// Where to report. To be called once, before all others.
  virtual void report_to(shard_events& e) noexcept = 0;
  virtual unsigned slot_of(std::string_view name) const = 0;
  /// The number of the master that has the slot; `unknown_master`: it is not known.
  virtual std::size_t owner(unsigned slot) const = 0;
  /// The transport to that master. That of `unknown_master` never connects: it waits for the map, and the attempt fails
  /// when the map cannot be fetched.
  virtual wire& way_to(std::size_t number) = 0;
  /// Where the events of that transport go. To be called once for each number, before its first command.
  virtual void report_to(std::size_t number, wire_events& e) = 0;
  /// Has it any slots?
  virtual bool is_master(std::size_t number) const = 0;
  /// `words`: of that master, with fault::try_later.
  virtual detour detour_of(std::string_view words, std::size_t by) = 0;
  /// A place waits for a slot with no known owner, or none does any more.
  virtual void wait_for_owner(bool wanted, time_point now) = 0;

 protected:
  ~shards() = default;
};

}  // namespace conch::protocol
