// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

namespace conch {

/// A duration for people: "26.7 µs", "1.5 s", "3 m 20 s". A negative one is "0 µs".
inline std::string duration_text(duration d) {
  double const ns = static_cast<double>(std::max(d, duration::zero()).count());
  auto const in_two_units = [ns](double large, double small, char const* first, char const* second) {
    auto const whole = static_cast<long long>(ns / large);
    auto const rest = static_cast<long long>((ns - static_cast<double>(whole) * large) / small);
    return std::to_string(whole) + ' ' + first + ' ' + std::to_string(rest) + ' ' + second;
  };
  constexpr double minute = 60e9, hour = 60 * minute, day = 24 * hour;
  if (ns >= day) return in_two_units(day, hour, "d", "h");
  if (ns >= hour) return in_two_units(hour, minute, "h", "m");
  if (ns >= minute) return in_two_units(minute, 1e9, "m", "s");
  char text[40];
  if (ns < 999.5e3) {
    std::snprintf(text, sizeof text, "%.3g µs", ns / 1e3);
  } else if (ns < 999.5e6) {
    std::snprintf(text, sizeof text, "%.3g ms", ns / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.3g s", ns / 1e9);
  }
  return text;
}

/// "26 ms", of any length.
inline std::string ms_text(duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count()) + " ms";
}

}  // namespace conch
