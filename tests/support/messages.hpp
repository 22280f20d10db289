// Messages of RESP, from the bytes of them.
#pragma once

#include "resp/decoder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace conch::test {

/// What the network would have put there.
inline void feed(resp::decoder& in, std::string_view bytes) {
  auto const room = in.prepare(bytes.size());
  std::copy(bytes.begin(), bytes.end(), room.begin());
  in.commit(bytes.size());
}

/// Reads bytes that hold one message. It lies in `in`.
inline std::span<resp::node const> only_message(resp::decoder& in, std::string_view bytes) {
  feed(in, bytes);
  EXPECT_EQ(in.next(), resp::decoder::progress::message) << in.error() << " in " << bytes;
  return in.message();
}

/// The words of the only command in `bytes`.
inline std::vector<std::string> only_command(std::string_view bytes) {
  resp::decoder in;
  std::vector<std::string> words;
  for (auto const& node : only_message(in, bytes).subspan(1)) words.emplace_back(node.text);
  return words;
}

}  // namespace conch::test
