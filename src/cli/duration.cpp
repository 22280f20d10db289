// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/duration.hpp"

#include "base/duration_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace conch::cli {

namespace {

constexpr std::array<std::pair<std::string_view, double>, 7> units{
    {{"ns", 1.0}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}}};

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

std::string readable(duration d) { return duration_text(d); }

}  // namespace conch::cli
