// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

// A point at which the simulator (tests/sim) can break a rule, to show that it would notice. Anywhere else it is the
// constant `false`: a normal build contains no trace of it.
#ifdef CONCH_MUTANTS
#include "sim/engine_mutants.hpp"
#define CONCH_MUTANT(name) (::conch::sim::active_engine_mutant == ::conch::sim::engine_mutant::name)
#else
#define CONCH_MUTANT(name) false
#endif
