// Single pieces of a plan, drawn at random: what plan.cpp and plan_rare.cpp make plans of.
#pragma once

#include "sim/worlds/plan.hpp"
#include "sim/worlds/random.hpp"

namespace conch::sim {

inline duration as_duration(nanos n) { return duration{n}; }

inline nanos whole_ms(nanos n) { return n / millisecond * millisecond; }

config make_settings(random_source& r, nanos lease, nanos hop);
operation make_operation(random_source& r, plan const& p, nanos lease, bool hectic);
fault_plan make_fault(random_source& r, plan const& p, nanos lease, nanos until, fault_plan::kind what);

// What the plans drawn at large hardly ever come to, in a share of them (plan_rare.cpp).
void make_rare(random_source& r, plan& p);

}  // namespace conch::sim
