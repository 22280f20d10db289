// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/mutant.hpp"

#include <conch/clock.hpp>

#include <cstddef>

namespace conch::engine {

/// What is due, owed to a new connection, or to be ended, is done in turns of so many; the rest by a timer that is due at once, so that
/// everybody else in the event loop comes in between. A turn takes about 2 ms. Smaller in the simulator, which has fewer of everything.
#ifdef CONCH_MUTANTS
#define CONCH_IN_ONE_TURN ::conch::sim::engine_steps_in_one_turn
#else
inline constexpr std::size_t in_one_turn = 1'000;
#define CONCH_IN_ONE_TURN ::conch::engine::in_one_turn
#endif

/// When the rest is due: a timer that is due now fires in this very turn.
constexpr time_point in_next_turn(time_point now) { return now + duration{1}; }

}  // namespace conch::engine
