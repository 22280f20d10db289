// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/grant_id.hpp"

#include <algorithm>
#include <charconv>

namespace conch::engine {

namespace {

constexpr std::string_view digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";

int value_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  if (c == '_') return 36;
  if (c >= 'a' && c <= 'z') return c - 'a' + 37;
  return c == '~' ? 63 : -1;
}

}  // namespace

std::size_t text_size(grant_id id) noexcept {
  std::size_t size = 1;
  for (std::uint64_t rest = id.count; rest >= 10; rest /= 10) ++size;
  return id.nonce == 0 ? size : size + 1 + nonce_digits;
}

char* write_grant_id(char* to, grant_id id) noexcept {
  char* stop_here = std::to_chars(to, to + 20, id.count).ptr;
  if (id.nonce == 0) return stop_here;
  *stop_here++ = '-';
  for (std::size_t i = 0; i != nonce_digits; ++i) stop_here[i] = digits[id.nonce >> 6 * (nonce_digits - 1 - i) & 63u];
  return stop_here + nonce_digits;
}

std::string to_text(grant_id id) {
  char text[longest_grant_id];
  return {text, write_grant_id(text, id)};
}

bool read_grant_id(std::string_view& text, grant_id& id) noexcept {
  char const* const begin = text.data();
  char const* const end = begin + std::min(text.find(' '), text.size());
  grant_id read;
  auto const [stop, error] = std::from_chars(begin, end, read.count);
  if (error != std::errc{} || read.count == 0) return false;
  if (stop != end) {
    if (*stop != '-' || static_cast<std::size_t>(end - stop) != 1 + nonce_digits) return false;
    for (char const* it = stop + 1; it != end; ++it) {
      int const value = value_of(*it);
      bool const too_much = (read.nonce >> 58) != 0;
      if (value < 0 || too_much) return false;
      read.nonce = read.nonce << 6 | static_cast<unsigned>(value);
    }
    if (read.nonce == 0) return false;
  }
  text.remove_prefix(std::min(static_cast<std::size_t>(end - begin) + 1, text.size()));
  id = read;
  return true;
}

}  // namespace conch::engine
