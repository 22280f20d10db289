// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <string>
#include <string_view>

namespace conch {

/// Two lower-case digits for each byte.
inline std::string in_hex(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (char const c : bytes) {
    auto const byte = static_cast<unsigned char>(c);
    text += digits[byte >> 4u];
    text += digits[byte & 15u];
  }
  return text;
}

}  // namespace conch
