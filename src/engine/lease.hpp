// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstdint>

namespace conch::engine {

/// A day. Nothing is leased or claimed for longer, so no server may report more. lua/lib/line.lua has the same bound.
inline constexpr std::int64_t longest_lease_ms = 86'400'000;

}  // namespace conch::engine
