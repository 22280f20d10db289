// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <conch/config.hpp>

#include <cstdint>

namespace conch::protocol {

using namespace engine;

/// The runs of a server that this client has noticed, and whether other clients may not know of the present one yet. No
/// I/O, no clock.
class server_runs {
 public:
  explicit server_runs(config const& settings) noexcept : settings_{settings} {}

  /// A connection has begun. `before`: the session of the last one, which ended at `lost_at`.
  void began(session const& before, session const& now_on, time_point lost_at, time_point now);
  /// The server has answered so.
  void says(fault what) noexcept { was_replica_ = was_replica_ || what == fault::reconnect; }
  /// Locks have come here whose waiters may still be on their way.
  void wait_for_others(time_point now);

  /// Counts the runs.
  std::uint32_t number() const noexcept { return number_; }
  /// Do scripts wait for the first in the queue, who may not be connected to this run yet? Always before `until`.
  bool is_patient(time_point now, time_point until = time_point::min()) const noexcept;
  /// Does every other client know of this run?
  bool all_know(time_point now) const noexcept { return now >= all_know_; }

 private:
  config const& settings_;
  bool connected_before_ = false;
  bool was_replica_ = false;  // since the last greeting the server has reported that it is a replica
  std::uint32_t number_ = 0;
  // by then the clients of the previous run that know of this one are connected again
  time_point regrouped_ = time_point::min();
  time_point all_know_ = time_point::min();  // by then all of them know of it
};

}  // namespace conch::protocol
