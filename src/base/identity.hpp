// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace conch::detail {

/// 128 random bits as 32 hexadecimal digits. All grant ids of one client begin with them.
std::string new_client_id();

/// A seed for jitter.
std::uint64_t seed_of(std::string_view id) noexcept;

}  // namespace conch::detail
