// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/detached.hpp"

#include "base/numbers.hpp"
#include "engine/grant_id.hpp"
#include "engine/lease.hpp"

#include <algorithm>

namespace conch::engine {

namespace {

constexpr std::string_view version = "conch1";
constexpr std::string_view hex = "0123456789ABCDEF";
constexpr std::size_t longest_name = 512, longest_client = 64;

/// What no shell, no URL and no file of settings reads as anything else.
bool is_plain(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' || c == '.' ||
         c == '_' || c == '~' || c == '/';
}

std::optional<std::string> unescaped(std::string_view text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_plain(text[i])) {
      name += text[i];
      continue;
    }
    if (text[i] != '%' || text.size() - i < 3) return std::nullopt;
    auto const high = hex.find(text[i + 1]), low = hex.find(text[i + 2]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    name += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return name;
}

std::string_view field(std::string_view& text) {
  auto const end = std::min(text.find(':'), text.size());
  std::string_view const one = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return one;
}

bool read_number(std::string_view text, std::int64_t most, std::int64_t& number) {
  auto const read = whole_number<std::int64_t>(text);
  number = read.value_or(0);
  return number >= 1 && number <= most;
}

/// CLIENT.N-NONCE. A blank in it would end the word that the script compares.
bool is_grant(std::string_view id) {
  auto const dot = id.find('.');
  bool const has_client = dot != std::string_view::npos && dot != 0 && dot <= longest_client;
  if (!has_client || !std::all_of(id.begin(), id.end(), is_plain)) return false;
  std::string_view rest = id.substr(dot + 1);
  grant_id number;
  return read_grant_id(rest, number) && rest.empty();
}

}  // namespace

int detached::next_index() const noexcept {
  std::int64_t const index = token % hand_offs_per_grant;
  return static_cast<int>(std::min(index + 1, hand_offs_per_grant - 1));
}

std::string to_text(detached const& d) {
  std::string text{version};
  text += ':';
  text += d.kind == permit_kind::none ? 'm' : static_cast<char>(d.kind);
  for (std::int64_t const number : {std::int64_t{d.share}, std::int64_t{d.lease.count()}, d.token}) {
    text += ':';
    text += std::to_string(number);
  }
  text += ':';
  text += d.id;
  text += ':';
  for (char const c : d.name) {
    if (is_plain(c)) {
      text += c;
    } else {
      auto const byte = static_cast<unsigned char>(c);
      text += '%';
      text += hex[byte >> 4];
      text += hex[byte & 15];
    }
  }
  return text;
}

std::optional<detached> read_detached(std::string_view text) {
  if (field(text) != version) return std::nullopt;
  detached d;
  std::string_view const kind = field(text);
  if (kind.size() != 1 || std::string_view{"msrg"}.find(kind[0]) == std::string_view::npos) return std::nullopt;
  d.kind = kind == "m" ? permit_kind::none : static_cast<permit_kind>(kind[0]);
  constexpr std::int64_t most_shares = 1'000'000, most_token = (std::int64_t{1} << 62) - 1 + (std::int64_t{1} << 62);
  std::int64_t share = 0, lease = 0;
  if (!read_number(field(text), most_shares, share) || !read_number(field(text), longest_lease_ms, lease))
    return std::nullopt;
  if (!read_number(field(text), most_token, d.token) || d.token < hand_offs_per_grant) return std::nullopt;
  std::string_view const id = field(text);
  if (!is_grant(id)) return std::nullopt;
  auto name = unescaped(text);
  if (!name || name->empty() || name->size() > longest_name) return std::nullopt;
  bool const may_be_any = d.kind == permit_kind::semaphore,
             is_writer = d.kind == permit_kind::shared && share == most_shares;
  if (share != 1 && !may_be_any && !is_writer) return std::nullopt;
  d.share = static_cast<std::uint32_t>(share);
  d.lease = milliseconds{lease};
  d.id = id;
  d.name = std::move(*name);
  return d;
}

}  // namespace conch::engine
