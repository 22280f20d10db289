// What several parts of the simulation read out of ids and answers.
#pragma once

#include "engine/grant_id.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace conch::sim {

/// 0 if it is none.
inline std::int64_t number(std::string_view text) {
  std::int64_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

/// The client of a grant id, CLIENT.N.
inline std::string_view client_of(std::string_view id) { return id.substr(0, id.find('.')); }

/// CLIENT.TICKET of a vote's id: without the three digits of the attempt, and the nonce.
inline std::string_view vote_of(std::string_view id) {
  constexpr std::size_t digits_of_attempt = 3;
  std::size_t const counted = id.substr(0, id.find('-', id.find('.'))).size();
  return id.substr(0, counted - std::min(counted, digits_of_attempt));
}

/// The N of a grant id.
inline engine::grant_id id_of(std::string_view id) {
  engine::grant_id n;
  id.remove_prefix(id.find('.') + 1);
  (void)engine::read_grant_id(id, n);
  return n;
}

}  // namespace conch::sim
