// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/scheme.hpp"
#include "servers/simulated/surroundings.hpp"

#include <memory>

namespace conch::simulated {

/// The simulated server in that world that stands in for `real`. It shows itself as `real` does and refuses the
/// settings that `real` refuses, so that code which works in a world works outside of it.
std::unique_ptr<servers::target> stand_in_for(std::unique_ptr<servers::target> real, surroundings& world);

}  // namespace conch::simulated
