// What several parts of the simulation read out of ids and answers.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

namespace conch::sim {

/// 0 if it is none.
inline std::int64_t number(std::string_view text) {
  std::int64_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

/// Of a grant id, CLIENT.N.
inline std::string_view client_of(std::string_view id) { return id.substr(0, id.find('.')); }

}  // namespace conch::sim
