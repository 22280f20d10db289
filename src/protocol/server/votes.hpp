// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server/asking.hpp"
#include "protocol/server/renewals.hpp"

#include <span>

namespace conch::protocol {

using namespace engine;

/// A server as a quorum sees it: places are votes.
class votes {
 public:
  votes(common_parts& on, asking& asks, renewals& renews) noexcept : on_{on}, asks_{asks}, renews_{renews} {}

  void ask(server_place& p, vote_terms const& terms, bool wait, milliseconds lease, time_point now);
  /// The lock is held with this vote, or may soon be. A renewal of the vote, also by a new connection, carries these
  /// terms and this lease.
  static void hold(server_place& p, vote_terms const& terms, milliseconds lease) noexcept;
  void renew(std::span<server_place* const> all, time_point now);
  bool has_room_for_renewal() const noexcept { return on_.sent.window().has_room_for_renewal(); }
  /// Gives back a place that is not idle; it is idle at once. Ends in released for `r`, if there is one.
  void give_back(server_place& p, vote_terms const& terms, receipt* r, time_point now);
  void leave_unless_granted(server_place& p, time_point now) { asks_.leave_unless_granted(p, now); }
  /// As asking::ask_again.
  void ask_again(server_place& p, time_point now) { asks_.ask_again(p, now); }
  /// As asking::trouble_of.
  std::string trouble_of(server_place const& p) const { return asks_.trouble_of(p); }
  /// Why the server cannot be used at this moment (requests::silence).
  std::string silence(time_point now) const { return on_.sent.silence(now); }
  /// The smoothed time from a command to its answer; zero: not known yet.
  duration round_trip() const noexcept { return on_.sent.round_trip(); }

 private:
  common_parts& on_;
  asking& asks_;
  renewals& renews_;
};

}  // namespace conch::protocol
