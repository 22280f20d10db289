// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server/cleanups.hpp"
#include "protocol/server/common_parts.hpp"
#include "protocol/server/grant_ids.hpp"
#include "protocol/server/grants.hpp"

namespace conch::protocol {

using namespace engine;

/// An owned place: its begin, what renewals make of it, its loss and its end.
class holds {
 public:
  holds(common_parts& on, grant_ids& ids, cleanups& pending) noexcept : on_{on}, ids_{ids}, cleanups_{pending} {}

  void begin(server_place& p, grant const& g, time_point deadline, time_point now);
  /// For a place that is already owned: an answer or a push reports that grant, or a later one.
  void heard_again(server_place& p, std::int64_t fence, time_point from, time_point deadline, bool confirmed,
                   time_point now);
  /// The server has renewed the grant; that was written at `written`.
  void prolonged(server_place& p, time_point written, milliseconds lease, bool keeps_fence, time_point now);
  /// The server has no such grant.
  void not_prolonged(server_place& p, time_point now);
  void lose(server_place& p, time_point now);
  /// ... and what there may be of it is given back.
  void lose_and_give_back(server_place& p, time_point now);
  /// An operator has taken the lock away.
  void taken_away(server_place& p, grant_id id, time_point now);
  /// Ends the hold. The caller sends the clean-up.
  cleanup& give_back(server_place& p, receipt* r, time_point now);
  void detach(server_place& p);

  /// Must the renewal prolong how long the fence is kept?
  bool fence_is_due(server_place const& p, time_point now) const;
  bool is_of_other_run(server_place const& p) const;

 private:
  void end_lost(server_place& p, bool gives_back, time_point now);

  common_parts& on_;
  grant_ids& ids_;
  cleanups& cleanups_;
};

}  // namespace conch::protocol
