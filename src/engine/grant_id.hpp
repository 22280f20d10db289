// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace conch::engine {

/// The N of a grant id CLIENT.N. The count distinguishes the requests of one client. The nonce keeps others from
/// guessing the id. The text is COUNT-NONCE, or COUNT alone if the nonce is 0 (tests, and older clients).
struct grant_id {
  std::uint64_t count = 0;  // 0: none
  std::uint64_t nonce = 0;

  constexpr grant_id() = default;
  constexpr grant_id(std::uint64_t c, std::uint64_t n = 0) noexcept : count{c}, nonce{n} {}

  friend constexpr auto operator<=>(grant_id const&, grant_id const&) = default;
};

/// 64 bits in base 64, which needs no escaping anywhere.
constexpr std::size_t nonce_digits = 11;
/// Room for any grant_id.
constexpr std::size_t longest_grant_id = 20 + 1 + nonce_digits;

/// The number of characters that write_grant_id writes.
std::size_t text_size(grant_id id) noexcept;
/// Returns the end of what it wrote.
char* write_grant_id(char* to, grant_id id) noexcept;
CONCH_API std::string to_text(grant_id id);
/// Reads a grant id up to the first blank, and removes both from the front of `text`. False: `text` does not begin with
/// a grant id, and stays as it is.
CONCH_API bool read_grant_id(std::string_view& text, grant_id& id) noexcept;

}  // namespace conch::engine

template <>
struct std::hash<conch::engine::grant_id> {
  // The ids of one client differ in the count already, but a message may name any id.
  std::size_t operator()(conch::engine::grant_id const& id) const noexcept {
    return static_cast<std::size_t>(id.count * 0x9e3779b97f4a7c15u ^ id.nonce);
  }
};
