// A message of RESP, from the bytes of it.
#pragma once

#include "resp/decoder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string_view>

namespace conch::test {

/// Of bytes that have one message. It lies in `in`.
inline std::span<resp::node const> only_message(resp::decoder& in, std::string_view bytes) {
  auto const room = in.prepare(bytes.size());
  std::copy(bytes.begin(), bytes.end(), room.begin());
  in.commit(bytes.size());
  EXPECT_EQ(in.next(), resp::decoder::progress::message) << bytes;
  return in.message();
}

}  // namespace conch::test
