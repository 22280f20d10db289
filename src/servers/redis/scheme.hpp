// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/scheme.hpp"

#include <span>

namespace conch::redis {

/// One server, Sentinels that know it, a Cluster, and a list of servers that vote.
std::span<servers::scheme const> schemes() noexcept;

}  // namespace conch::redis
