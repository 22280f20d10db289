// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/readable.hpp"

#include <algorithm>

namespace conch {

namespace {

constexpr std::string_view dots = "...";

struct character {
  char32_t value = 0;
  std::size_t size = 0;  // in bytes; 0: the text does not begin with a whole character
};

/// The first character of `text`, by the table of well-formed UTF-8 (Unicode 15, table 3-7).
character first_of(std::string_view text) {
  auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned const lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  std::size_t const size = lead >= 0xc2 && lead <= 0xdf ? 2U : lead >= 0xe0 && lead <= 0xef ? 3U : lead >= 0xf0 && lead <= 0xf4 ? 4U : 0U;
  if (size == 0 || text.size() < size) return {};
  char32_t value = lead & (0xffU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    value = value << 6U | (byte(i) & 0x3fU);
  }
  bool const too_long = (size == 3 && value < 0x800) || (size == 4 && value < 0x10000);
  bool const surrogate = value >= 0xd800 && value <= 0xdfff;
  if (too_long || surrogate || value > 0x10ffff) return {};
  return {value, size};
}

bool harmless(char32_t c) {
  if (c < 0x20 || (c >= 0x7f && c <= 0x9f)) return false;                 // C0, DEL, C1
  if (c == 0x61c || c == 0x200e || c == 0x200f) return false;             // marks of direction
  return !(c >= 0x2028 && c <= 0x202e) && !(c >= 0x2066 && c <= 0x2069);  // line and paragraph ends, embeddings, isolates
}

void append_escaped(char c, std::string& to) {
  constexpr char digits[] = "0123456789abcdef";
  auto const byte = static_cast<unsigned char>(c);
  to += {'\\', 'x', digits[byte >> 4U], digits[byte & 15U]};
}

}  // namespace

std::string readable(std::string_view words, std::size_t most) {
  std::string out;
  out.reserve(std::min(words.size(), most));
  std::size_t whole = 0;  // behind so many bytes the dots still fit
  while (!words.empty()) {
    character const next = first_of(words);
    std::size_t const size = std::max<std::size_t>(next.size, 1);
    if (next.size != 0 && harmless(next.value)) {
      out += words.substr(0, size);
    } else {
      for (char const c : words.substr(0, size)) append_escaped(c, out);
    }
    words.remove_prefix(size);
    if (out.size() > most) {
      out.resize(whole);
      return out.append(dots);
    }
    if (out.size() + dots.size() <= most) whole = out.size();
  }
  return out;
}

}  // namespace conch
