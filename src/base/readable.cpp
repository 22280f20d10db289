// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/readable.hpp"

#include "base/secrets.hpp"

#include <algorithm>
#include <iterator>

namespace conch {

namespace {

struct character {
  char32_t value = 0;
  std::size_t size = 0;  // in bytes; 0: the text does not begin with a whole character
};

/// The first character of `text`, by the table of well-formed UTF-8 (Unicode 15, table 3-7).
character first_of(std::string_view text) {
  auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned const lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  std::size_t const size = lead >= 0xc2 && lead <= 0xdf   ? 2U
                           : lead >= 0xe0 && lead <= 0xef ? 3U
                           : lead >= 0xf0 && lead <= 0xf4 ? 4U
                                                          : 0U;
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

struct range {
  char32_t first, last;
};

/// Characters that a terminal obeys, that break or reverse a line, or are invisible: the categories Cc, Zl, Zp and Cf,
/// the property
/// Default_Ignorable_Code_Point, and what is not a character at all. Sorted. (Unicode 15; unassigned places of the
/// blocks are in it too.)
constexpr range obeyed_or_unseen[] = {
    {0x00, 0x1f},        // C0
    {0x7f, 0x9f},        // DEL, C1
    {0xad, 0xad},        // a hyphen that is seen at the end of a line only
    {0x34f, 0x34f},      // joins graphemes
    {0x600, 0x605},      // signs of Arabic that enclose the digits after them
    {0x61c, 0x61c},      // a mark of direction
    {0x6dd, 0x6dd},      //
    {0x70f, 0x70f},      //
    {0x890, 0x891},      //
    {0x8e2, 0x8e2},      //
    {0x115f, 0x1160},    // fillers of Hangul
    {0x17b4, 0x17b5},    //
    {0x180b, 0x180f},    //
    {0x200b, 0x200f},    // no width, joiners, marks of direction
    {0x2028, 0x202e},    // the ends of lines and paragraphs, embeddings, overrides
    {0x2060, 0x206f},    // joiners, isolates
    {0x3164, 0x3164},    //
    {0xfdd0, 0xfdef},    // no characters
    {0xfe00, 0xfe0f},    // selectors of a variation
    {0xfeff, 0xfeff},    // the mark of byte order
    {0xffa0, 0xffa0},    //
    {0xfff0, 0xfffb},    // annotations
    {0xfffe, 0xffff},    // no characters, as the last two of each plane
    {0x110bd, 0x110bd},  //
    {0x110cd, 0x110cd},  //
    {0x13430, 0x1343f},  //
    {0x1bca0, 0x1bca3},  //
    {0x1d173, 0x1d17a},  //
    {0xe0000, 0xe0fff},  // tags, selectors of a variation
};

/// Characters that look like a space, or like several.
constexpr range like_a_space[] = {{0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a}, {0x202f, 0x202f},
                                  {0x205f, 0x205f}, {0x2800, 0x2800}, {0x3000, 0x3000}};

template <std::size_t N>
bool is_in(char32_t c, range const (&ranges)[N]) {
  auto const* const behind =
      std::upper_bound(std::begin(ranges), std::end(ranges), c, [](char32_t v, range const& r) { return v < r.first; });
  return behind != std::begin(ranges) && c <= std::prev(behind)->last;
}

bool harmless(char32_t c) { return !is_in(c, obeyed_or_unseen) && (c & 0xfffeU) != 0xfffe; }

void append_escaped(char c, std::string& to) {
  constexpr char digits[] = "0123456789abcdef";
  auto const byte = static_cast<unsigned char>(c);
  to += {'\\', 'x', digits[byte >> 4U], digits[byte & 15U]};
}

/// Escapes `text`, one character after the other, and appends `end`. A text of more than `most` bytes ends with `cut`
/// instead.
template <class Is_plain>
std::string escaped(std::string_view text, std::size_t most, std::string_view end, std::string_view cut,
                    Is_plain const& is_plain) {
  std::string out;
  out.reserve(std::min(text.size(), most));
  std::size_t whole = 0;  // after this many bytes `cut` still fits
  for (std::size_t begin = 0; begin < text.size();) {
    character const next = first_of(text.substr(begin));
    std::size_t const size = std::max<std::size_t>(next.size, 1);
    std::string_view const bytes = text.substr(begin, size);
    if (next.size != 0 && is_plain(next.value, begin)) {
      out += bytes;
    } else if (bytes == "\\" || bytes == "\"") {
      out.append("\\").append(bytes);
    } else {
      for (char const c : bytes) append_escaped(c, out);
    }
    begin += size;
    if (out.size() > most) {
      out.resize(whole);
      return out.append(cut);
    }
    if (out.size() + cut.size() <= most) whole = out.size();
  }
  return out.append(end);
}

}  // namespace

namespace {

std::string readable_by(written_by by, std::string_view words, std::size_t most) {
  // No more than this can be shown, and a peer must not be able to make us search more.
  std::size_t const looked_at = std::max(4 * most, 4 * longest_line);
  bool const is_cut = words.size() > looked_at;
  std::string const hidden = without_secrets(words.substr(0, looked_at), by) + (is_cut ? "..." : "");
  return escaped(hidden, most, "", "...", [](char32_t c, std::size_t) { return harmless(c); });
}

}  // namespace

std::string readable(std::string_view words, std::size_t most) { return readable_by(written_by::others, words, most); }

std::string readable_line(std::string_view line) { return readable_by(written_by::us, line, longest_line); }

std::string printable(std::string_view name, std::size_t most) {
  return escaped(name, most, "", "\\...", [&](char32_t c, std::size_t position) {
    bool const at_an_end = c == ' ' && (position == 0 || position + 1 == name.size());
    return harmless(c) && !is_in(c, like_a_space) && c != '\\' && !at_an_end;
  });
}

std::string in_quotes(std::string_view name, std::size_t most) {
  return '"' + escaped(name, most, "\"", "\"...", [](char32_t c, std::size_t) {
           return harmless(c) && !is_in(c, like_a_space) && c != '\\' && c != '"';
         });
}

}  // namespace conch
