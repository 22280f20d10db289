// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

// A point at which the simulator (tests/sim) can break a rule, to show that it would notice. Anywhere else it is the
// constant `false`: a normal build contains no trace of it. CONCH_MUTANTS names the simulator's list of them, in quotes.
#ifdef CONCH_MUTANTS
#include CONCH_MUTANTS
#define CONCH_MUTANT(name) (::conch::sim::active_engine_mutant == ::conch::sim::engine_mutant::name)
#else
#define CONCH_MUTANT(name) false
#endif
