// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/backend.hpp"
#include "engine/permit.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace conch::engine {

/// A hold between two clients, as hold::async_detach gives it and async_adopt reads it. As text it is
///   conch1:KIND:SHARE:LEASE:TOKEN:ID:NAME
/// KIND is `m` for a mutex, else the letter of permit_kind; LEASE in milliseconds; ID the grant id CLIENT.N-NONCE; NAME
/// in percent-encoding. The text has no blank and no control character. Another version of it begins with another word.
struct detached {
  std::string name;
  std::string id;
  std::int64_t token = 0;
  milliseconds lease{};
  permit_kind kind = permit_kind::none;
  std::uint32_t share = 1;  // of a lock with several owners

  bool operator==(detached const&) const = default;

  /// What place::origin is.
  std::string origin() const { return id + ' ' + std::to_string(token / hand_offs_per_grant); }
  /// The token index of the adopter: greater than the old one, as for a hand-off in memory. There is none above the
  /// last.
  int next_index() const noexcept;
};

std::string to_text(detached const& d);
/// Empty: it is no such text. What it returns can be used in a command as it is.
std::optional<detached> read_detached(std::string_view text);

}  // namespace conch::engine
