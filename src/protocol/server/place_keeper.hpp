// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/grant_id.hpp"

#include <conch/clock.hpp>

#include <chrono>

namespace conch::engine {
class backend;
}

namespace conch::protocol {

using namespace engine;
using std::chrono::milliseconds;

struct server_place;

/// The server that a place is with now. What happens to a place that was met at another server happens through it.
class place_keeper {
 public:
  virtual backend& whole() noexcept = 0;
  /// The timer of the place has fired.
  virtual void due(server_place& p, time_point now) = 0;
  virtual void assert_consistent(server_place const& p) const = 0;
  virtual void ask_because_of_push(server_place& p, time_point now) = 0;
  /// The place waits for a lock. The lease of its holder ends in `left`.
  virtual void lease_ends_in(server_place& p, milliseconds left, time_point now) = 0;
  /// An operator has taken the lock away.
  virtual void taken_away(server_place& p, grant_id id, time_point now) = 0;
  /// Was the hold granted in another run, or at another server?
  virtual bool is_of_other_run(server_place const& p) const = 0;
  /// The server has renewed the grant; that was written at `written`.
  virtual void prolonged(server_place& p, time_point written, milliseconds lease, bool keeps_fence, time_point now) = 0;
  /// The server has no such grant.
  virtual void not_prolonged(server_place& p, time_point now) = 0;

 protected:
  ~place_keeper() = default;
};

}  // namespace conch::protocol
