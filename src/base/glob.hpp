// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Patterns for names, as Redis has them, for servers that cannot match by themselves: * ? [a-c] [^a] and a backslash
// before what is meant literally.
namespace conch {

namespace glob {

/// What begins a pattern and matches one byte of a name.
struct one_byte {
  std::size_t size = 1;  // in the pattern
  bool fits = false;
};

/// `pattern` begins with '['.
inline one_byte match_set(std::string_view pattern, char c) {
  auto const byte = [](char b) { return static_cast<unsigned char>(b); };
  std::size_t position = 1;
  bool const negated = pattern.substr(position, 1) == "^";
  if (negated) ++position;
  bool found = false;
  for (; position < pattern.size() && pattern[position] != ']'; ++position) {
    if (pattern[position] == '\\' && position + 1 < pattern.size()) {
      found = found || pattern[++position] == c;
    } else if (position + 2 < pattern.size() && pattern[position + 1] == '-') {
      auto const [least, most] = std::minmax({byte(pattern[position]), byte(pattern[position + 2])});
      found = found || (least <= byte(c) && byte(c) <= most);
      position += 2;
    } else {
      found = found || pattern[position] == c;
    }
  }
  return {std::min(position + 1, pattern.size()), found != negated};
}

/// `pattern` is not empty, and does not begin with '*'.
inline one_byte match_one(std::string_view pattern, char c) {
  switch (pattern.front()) {
    case '?': return {1, true};
    case '[': return match_set(pattern, c);
    case '\\':
      if (pattern.size() > 1) return {2, pattern[1] == c};
      break;
    default: break;
  }
  return {1, pattern.front() == c};
}

}  // namespace glob

/// Does the whole name match the pattern? Takes time in proportion to the product of their sizes at most.
inline bool matches(std::string_view pattern, std::string_view name) {
  std::size_t position = 0, in_name = 0, behind_star = std::string_view::npos, tried = 0;
  while (in_name < name.size()) {
    if (position < pattern.size() && pattern[position] == '*') {
      behind_star = ++position;
      tried = in_name;
      continue;
    }
    glob::one_byte const one =
        position < pattern.size() ? glob::match_one(pattern.substr(position), name[in_name]) : glob::one_byte{};
    if (one.fits) {
      position += one.size;
      ++in_name;
    } else if (behind_star != std::string_view::npos) {
      position = behind_star;
      in_name = ++tried;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', position) == std::string_view::npos;
}

/// One of the patterns, or there is none.
inline bool matches_one(std::vector<std::string> const& patterns, std::string_view name) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(), [&](std::string const& one) { return matches(one, name); });
}

}  // namespace conch
