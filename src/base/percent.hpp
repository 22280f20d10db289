// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// Any bytes in words of few characters: what is not plain becomes '%' and two digits. base/url_text.hpp does it for
// URLs, whose reader accepts any digits and names what is wrong.
namespace conch {

/// `is_plain`: of the byte at a position; never of '%'. `digits`: the sixteen, in upper or in lower case.
template <class IsPlain>
std::string percent_encoded(std::string_view text, std::string_view digits, IsPlain const& is_plain) {
  std::string all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const byte = static_cast<unsigned char>(text[i]);
    if (is_plain(i)) all += text[i];
    else all += {'%', digits[byte >> 4u], digits[byte & 15u]};
  }
  return all;
}

/// None: a '%' without two of these digits.
inline std::optional<std::string> percent_decoded(std::string_view text, std::string_view digits) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    auto const high = digits.find(text[i + 1]), low = digits.find(text[i + 2]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    plain += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return plain;
}

}  // namespace conch
