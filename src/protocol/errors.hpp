// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <conch/error.hpp>

#include <string_view>

namespace conch::protocol {

using namespace engine;

/// The error of a request that the server answered with that fault.
error_code to_error(fault what, std::string_view words);

}  // namespace conch::protocol
