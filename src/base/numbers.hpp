// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace conch {

/// In decimal digits. Empty: it is not a number, something follows it, or it does not fit.
template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number number{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace conch
