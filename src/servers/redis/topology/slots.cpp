// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/topology/slots.hpp"

#include "servers/redis/codec.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace conch::redis {

namespace {

/// CRC-16/XMODEM: x^16 + x^12 + x^5 + 1, from 0, for each value of a byte.
constexpr std::array<std::uint16_t, 256> make_crc_table() {
  std::array<std::uint16_t, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    unsigned crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1;
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}

constexpr std::array<std::uint16_t, 256> crc_table = make_crc_table();

/// About 110,000 numbers are tried, which takes 2 ms.
std::array<std::uint32_t, slot_count> make_tags() {
  constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  std::array<std::uint32_t, slot_count> tags{};
  tags.fill(none);
  unsigned missing = slot_count;
  char digits[10];
  for (std::uint32_t number = 0; missing != 0; ++number) {
    char const* const end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
    std::uint32_t& tag = tags[slot_of_tag({digits, static_cast<std::size_t>(end - digits)})];
    if (tag != none) continue;
    tag = number;
    --missing;
  }
  return tags;
}

}  // namespace

unsigned slot_of_tag(std::string_view tag) noexcept {
  unsigned crc = 0;
  for (char const c : tag) crc = ((crc << 8) & 0xffff) ^ crc_table[((crc >> 8) ^ static_cast<unsigned char>(c)) & 0xff];
  return crc % slot_count;
}

unsigned slot_of_lock(std::string_view name) {
  bool const as_it_is = std::none_of(name.begin(), name.end(), [](char c) { return c == '%' || c == '}'; });
  return as_it_is ? slot_of_tag(name) : slot_of_tag(escape_name(name));
}

std::uint32_t tag_of_slot(unsigned slot) {
  BOOST_ASSERT(slot < slot_count);
  static std::array<std::uint32_t, slot_count> const tags = make_tags();
  return tags[slot];
}

}  // namespace conch::redis
