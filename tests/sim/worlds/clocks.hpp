// By how much the clocks of replicas may differ from their master's.
#pragma once

#include "sim/worlds/plan.hpp"

namespace conch::sim {

// Expiry is replicated as a time of day. A hold of the lease L is valid for L - drift_of(L) by its client's clock, and
// ends at a promoted replica that is ahead by s when L - s has passed by the clocks of the servers. So s may be what is
// left of the drift allowance when the rates of these clocks have had their part of it. The last replica may be ahead
// by that much.
nanos ahead_at_most(plan const& p);

}  // namespace conch::sim
