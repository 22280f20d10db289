// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <string_view>

namespace conch::redis {

/// The fault that an error answer means, by its first word. docs/protocol.md has the same table in prose.
protocol::fault classify(std::string_view words) noexcept;

/// The first bytes of a peer that does not speak RESP: what it may be, as a text to append to an error. Empty: unknown.
std::string_view stranger(std::string_view first_bytes) noexcept;

}  // namespace conch::redis
