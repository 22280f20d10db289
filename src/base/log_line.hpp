// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/log.hpp>

#include <string>
#include <string_view>

namespace conch {

/// What log_to_stderr writes: "2026-11-24T20:05:44.123Z conch info: connected\n".
std::string formatted_log_line(log_level level, std::string_view words);

}  // namespace conch
