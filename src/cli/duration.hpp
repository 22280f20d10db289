// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace conch::cli {

/// `500ms`, `30s`, `1.5s`, `5m`, `2h`, `1d`; `us` and `ns` too. The unit is needed, also behind 0. Empty: not a
/// duration, or beyond duration::max().
std::optional<duration> parse_duration(std::string_view text);

/// For people, with three digits: "850 µs", "1.25 ms", "29.5 s", "5 m 10 s", "3 d 2 h".
std::string readable(duration d);

}  // namespace conch::cli
