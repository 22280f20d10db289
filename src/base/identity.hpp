// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace conch::detail {

/// 128 random bits as 32 hexadecimal digits. All grant ids of one client begin with them.
std::string new_client_id();

/// The label of a client of this program: "billing@pod-7:4711", with host and process. At most longest_label bytes.
CONCH_API std::string label_of(std::string_view program);

/// The name of this program, without its folder.
std::string this_program();

/// A seed for jitter.
std::uint64_t seed_of(std::string_view id) noexcept;

}  // namespace conch::detail
