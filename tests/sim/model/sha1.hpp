// SHA-1 for naming scripts as Redis does. Not for anything that needs a secure hash.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace conch::sim {

namespace detail {

inline void sha1_block(std::array<std::uint32_t, 5>& state, unsigned char const* block) {
  std::array<std::uint32_t, 80> w{};
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = static_cast<std::uint32_t>(block[4 * i]) << 24 | static_cast<std::uint32_t>(block[4 * i + 1]) << 16 |
           static_cast<std::uint32_t>(block[4 * i + 2]) << 8 | static_cast<std::uint32_t>(block[4 * i + 3]);
  }
  for (std::size_t i = 16; i < 80; ++i) {
    w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  }

  auto [a, b, c, d, e] = state;
  for (std::size_t i = 0; i < 80; ++i) {
    std::uint32_t f = 0;
    std::uint32_t k = 0;
    if (i < 20) {
      f = (b & c) | (~b & d);
      k = 0x5a827999;
    } else if (i < 40) {
      f = b ^ c ^ d;
      k = 0x6ed9eba1;
    } else if (i < 60) {
      f = (b & c) | (b & d) | (c & d);
      k = 0x8f1bbcdc;
    } else {
      f = b ^ c ^ d;
      k = 0xca62c1d6;
    }
    std::uint32_t const next = std::rotl(a, 5) + f + e + k + w[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
}

}  // namespace detail

// 40 lower-case hexadecimal digits.
inline std::string sha1_hex(std::string_view data) {
  std::array<std::uint32_t, 5> state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

  // Padding: one bit, zeros, the length in bits; it may need a second block.
  std::string padded{data};
  padded += '\x80';
  while (padded.size() % 64 != 56) {
    padded += '\0';
  }
  auto const bits = static_cast<std::uint64_t>(data.size()) * 8;
  for (int shift = 56; shift >= 0; shift -= 8) {
    padded += static_cast<char>((bits >> shift) & 0xff);
  }

  for (std::size_t at = 0; at < padded.size(); at += 64) {
    detail::sha1_block(state, reinterpret_cast<unsigned char const*>(padded.data()) + at);
  }

  constexpr char const* digits = "0123456789abcdef";
  std::string hex;
  hex.reserve(40);
  for (std::uint32_t const word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      hex += digits[(word >> shift) & 0xf];
    }
  }
  return hex;
}

}  // namespace conch::sim
