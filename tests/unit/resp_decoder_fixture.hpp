// A decoder that is fed whole messages, cut ones and pieces, and what it made of them in words.
#pragma once

#include "resp/decoder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::resp::test {

using namespace std::string_literals;

inline std::string_view name(kind what) {
  constexpr std::string_view names[] = {
      "simple", "error",      "integer",  "bulk", "array", "null",      "boolean", "real",
      "big",    "bulk_error", "verbatim", "map",  "set",   "attribute", "push",
  };
  return names[static_cast<std::size_t>(what)];
}

inline bool is_aggregate(kind what) {
  return what == kind::array || what == kind::map || what == kind::set || what == kind::push;
}

// "array(integer 1, bulk 'a')". Consumes one value with all its children from the front of `rest`
// and checks that counts and depths agree.
inline std::string describe(std::span<node const>& rest, std::uint32_t depth) {
  if (rest.empty()) {
    return "(missing)";
  }
  node const n = rest.front();
  rest = rest.subspan(1);
  if (n.depth != depth) {
    return "(wrong depth)";
  }
  std::string out{name(n.what)};
  if (is_aggregate(n.what)) {
    out += '(';
    for (std::uint64_t i = 0; i < n.count; ++i) {
      if (i != 0) {
        out += ", ";
      }
      out += describe(rest, depth + 1);
    }
    return out + ')';
  }
  if (n.count != 0) {
    out += " (with a count)";
  }
  if (n.what == kind::null) {
    return out;
  }
  if (n.what == kind::integer || n.what == kind::boolean) {
    out += ' ' + std::to_string(n.integer);
  }
  if (n.what == kind::boolean || (n.what == kind::integer && n.text == std::to_string(n.integer))) {
    return out;
  }
  return out + " '" + std::string(n.text) + '\'';
}

inline std::string describe(decoder const& d) {
  auto rest = d.message();
  if (rest.empty()) {
    return "(empty)";
  }
  if (d.is_push() != (rest.front().what == kind::push)) {
    return "(is_push is wrong)";
  }
  auto out = describe(rest, 0);
  return rest.empty() ? out : out + " (and more)";
}

// The messages in order, then the error if there was one.
using transcript = std::vector<std::string>;

inline void drain(decoder& d, transcript& out) {
  for (;;) {
    switch (d.next()) {
      case decoder::progress::need_more: return;
      case decoder::progress::message: out.push_back(describe(d)); break;
      case decoder::progress::failed:
        if (out.empty() || !out.back().starts_with("failed")) {
          out.push_back("failed: "s.append(d.error()));
        }
        return;
    }
  }
}

inline void give(decoder& d, std::string_view bytes, std::size_t at_least = 1) {
  auto const room = d.prepare(std::max(at_least, bytes.size()));
  ASSERT_GE(room.size(), std::max(at_least, bytes.size()));
  std::copy(bytes.begin(), bytes.end(), room.begin());
  d.commit(bytes.size());
}

inline transcript decode_whole(std::string_view input, limits bounds = {}) {
  decoder d(bounds);
  transcript out;
  give(d, input);
  drain(d, out);
  return out;
}

inline transcript decode_cut_at(std::string_view input, std::size_t cut, limits bounds = {}) {
  decoder d(bounds);
  transcript out;
  give(d, input.substr(0, cut));
  drain(d, out);
  give(d, input.substr(cut));
  drain(d, out);
  return out;
}

inline transcript decode_by(std::string_view input, std::size_t piece, limits bounds = {}) {
  decoder d(bounds);
  transcript out;
  for (; !input.empty(); input.remove_prefix(std::min(piece, input.size()))) {
    give(d, input.substr(0, piece));
    drain(d, out);
  }
  return out;
}

// Every example goes through here, so every one is tried in all splits.
inline transcript decode(std::string_view input, limits bounds = {}) {
  auto const whole = decode_whole(input, bounds);
  for (std::size_t cut = 0; cut <= input.size(); ++cut) {
    EXPECT_EQ(decode_cut_at(input, cut, bounds), whole) << "cut at " << cut << ": " << input;
  }
  for (std::size_t const piece : {1U, 2U, 3U}) {
    EXPECT_EQ(decode_by(input, piece, bounds), whole) << "pieces of " << piece << ": " << input;
  }
  return whole;
}

inline transcript only(std::string message) { return {std::move(message)}; }

}  // namespace conch::resp::test
