// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <chrono>

namespace conch::protocol {

/// How much two clocks may differ over a lease: 1 % of it, and 2 ms for rounding (Redis counts expiry in milliseconds).
/// The formula is Redlock's (redis.io, "Distributed Locks with Redis").
constexpr duration drift_of(duration lease) { return lease / 100 + std::chrono::milliseconds{2}; }

/// How long a grant is valid, from the moment at which its request was written.
constexpr duration good_for(duration lease) { return lease - drift_of(lease); }

}  // namespace conch::protocol
