// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server/asking.hpp"

#include <span>
#include <vector>

namespace conch::protocol {

using namespace engine;

/// Several locks tried in one script. Each has its own id, and gets the answer that its own script would have given.
/// From then on it is a lock like any other, also when it is asked for again after a reconnect or a "later".
class tries {
 public:
  tries(common_parts& on, cleanups& pending, asking& asks) noexcept : on_{on}, cleanups_{pending}, asks_{asks} {}

  /// Those that were held back since asking::gather().
  void send_gathered(time_point now) { send_together(asks_.take_gathered(), now); }
  /// Those of one slot in one script.
  void send_gathered_by_slot(time_point now);
  void answered(in_flight const& r, answer const& a, time_point now);

 private:
  enum class of_the_rest : std::uint8_t { next, busy, each_alone, as_these };
  void send_together(std::span<server_place* const> places, time_point now);
  void send(std::span<server_place* const> places, std::vector<tried> later, bool with_source, time_point now);
  void try_rest(std::vector<tried> const& later, of_the_rest what, answer const& a, time_point now);

  common_parts& on_;
  cleanups& cleanups_;
  asking& asks_;
};

}  // namespace conch::protocol
