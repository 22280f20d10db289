// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/login_guard.hpp"

#include <algorithm>

namespace conch::postgresql {

namespace {

constexpr std::size_t head_size = 5;                                    // letter and length
constexpr std::size_t longest_question = 2000, longest_error = 30'000;  // libpq refuses longer ones
constexpr std::uint32_t sasl = 10, sasl_continue = 11;

std::uint32_t number_at(std::string_view text, std::size_t begin) noexcept {
  std::uint32_t n = 0;
  for (std::size_t i = begin; i < begin + 4; ++i) n = n << 8U | static_cast<unsigned char>(text[i]);
  return n;
}

/// The ROUNDS of `r=NONCE,s=SALT,i=ROUNDS`. libpq reads the number with strtol(), which takes signs and blanks; conch
/// does not.
bool is_too_dear(std::string_view words) noexcept {
  for (std::size_t begin = words.find(",i="); begin != std::string_view::npos; begin = words.find(",i=", begin + 1)) {
    std::string_view const digits = words.substr(begin + 3);
    std::uint64_t rounds = 0;
    for (char const c : digits.substr(0, digits.find(','))) {
      if (c < '0' || c > '9') return true;
      rounds = std::min<std::uint64_t>(rounds * 10 + static_cast<std::uint64_t>(c - '0'), most_scram_rounds + 1);
    }
    if (rounds > most_scram_rounds) return true;
  }
  return false;
}

}  // namespace

login_guard::step login_guard::look(std::string_view unread) noexcept {
  if (unread.empty()) return step::nothing;
  while (!unread.empty()) {
    char const letter = unread[0];
    bool const is_question = letter == 'R';
    // The first word may be that of another protocol: libpq says so.
    if (!is_question && letter != 'E' && letter != 'v') return has_asked_ ? step::too_much : step::pass;
    if (unread.size() < head_size) return step::wait;
    std::size_t const size = std::size_t{1} + number_at(unread, 1);
    if (size < head_size || size > (is_question ? longest_question : longest_error))
      return has_asked_ ? step::too_much : step::pass;
    if (letter == 'E') return step::pass;
    if (unread.size() < size) return step::wait;
    if (is_question) {
      auto const kind = size < head_size + 4 ? 0 : number_at(unread, head_size);
      if (kind != sasl && kind != sasl_continue) return step::pass;
      // The server waits for the answer. What it sent before that would be in libpq's buffer when the next word is
      // checked.
      if (unread.size() > size) return step::too_much;
      if (kind == sasl_continue && is_too_dear(unread.substr(head_size + 4))) return step::too_dear;
      has_asked_ = true;
    }
    unread.remove_prefix(size);
  }
  return step::pass;
}

}  // namespace conch::postgresql
