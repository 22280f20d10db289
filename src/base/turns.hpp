// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <cstddef>

namespace conch {

/// How many steps the engine takes in one turn: timers that are due, work for a new connection, waits and holds to be
/// ended. A timer that is due at once does the rest, so that other handlers of the event loop run in between. A turn
/// takes about 2 ms.
inline constexpr std::size_t in_one_turn = 1'000;

/// The time of the next turn. A timer that is due now would fire in this very turn.
constexpr time_point in_next_turn(time_point now) { return now + duration{1}; }

}  // namespace conch
