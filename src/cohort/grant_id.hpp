// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace conch::engine {

/// The N of a grant id CLIENT.N: a count, which tells the requests of one client apart, and a nonce, which keeps anybody else from
/// naming them. As text COUNT-NONCE, or COUNT alone where the nonce is 0 (tests, and clients of before).
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

/// What write_grant_id writes.
std::size_t text_size(grant_id id) noexcept;
/// Answers the end.
char* write_grant_id(char* to, grant_id id) noexcept;
std::string to_text(grant_id id);
/// Takes it off the front of `text`, up to the first blank. False: it is none.
bool read_grant_id(std::string_view& text, grant_id& id) noexcept;

}  // namespace conch::engine

template <>
struct std::hash<conch::engine::grant_id> {
  // Of one client's ids the counts alone differ; but a message may name any.
  std::size_t operator()(conch::engine::grant_id const& id) const noexcept {
    return static_cast<std::size_t>(id.count * 0x9e3779b97f4a7c15u ^ id.nonce);
  }
};
