// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/scheme.hpp"

#include <span>

namespace conch::zookeeper {

/// `zookeeper://` and `zookeepers://` (TLS).
std::span<servers::scheme const> schemes() noexcept;

}  // namespace conch::zookeeper
