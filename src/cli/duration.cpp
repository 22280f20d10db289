// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/duration.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <utility>

namespace conch::cli {

namespace {

constexpr std::array<std::pair<std::string_view, double>, 7> units{
    {{"ns", 1.0}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}}};

std::string two_units(double whole, double per, char const* large, char const* small) {
  auto const first = static_cast<long long>(whole / per);
  auto const rest = static_cast<long long>(whole - static_cast<double>(first) * per);
  return std::to_string(first) + ' ' + large + ' ' + std::to_string(rest) + ' ' + small;
}

}  // namespace

std::optional<duration> parse_duration(std::string_view text) {
  auto const digits_end = text.find_first_not_of("0123456789.");
  if (digits_end == std::string_view::npos || digits_end == 0) return std::nullopt;
  double number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + digits_end, number, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + digits_end) return std::nullopt;
  std::string_view const unit = text.substr(digits_end);
  auto const known = std::find_if(units.begin(), units.end(), [&](auto const& one) { return one.first == unit; });
  if (known == units.end()) return std::nullopt;
  double const nanoseconds = number * known->second;
  // The greatest number of nanoseconds that a double holds without becoming more than the range.
  constexpr double most = 9.2e18;
  if (nanoseconds > most) return std::nullopt;
  return duration{static_cast<duration::rep>(nanoseconds + 0.5)};
}

std::string readable(duration d) {
  double const ns = static_cast<double>(std::max(d, duration::zero()).count());
  char text[40];
  if (ns < 999.5e3) {
    std::snprintf(text, sizeof text, "%.3g µs", ns / 1e3);
  } else if (ns < 999.5e6) {
    std::snprintf(text, sizeof text, "%.3g ms", ns / 1e6);
  } else if (ns < 60e9) {
    std::snprintf(text, sizeof text, "%.3g s", ns / 1e9);
  } else if (ns < 3600e9) {
    return two_units(ns / 1e9, 60, "m", "s");
  } else if (ns < 86400e9) {
    return two_units(ns / 60e9, 60, "h", "m");
  } else {
    return two_units(ns / 3600e9, 24, "d", "h");
  }
  return text;
}

}  // namespace conch::cli
