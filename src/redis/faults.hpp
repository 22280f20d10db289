// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <string_view>

namespace conch::redis {

/// What an error answer means to the engine, by its first word. docs/protocol.md has the same table in prose.
engine::fault classify(std::string_view words) noexcept;

}  // namespace conch::redis
