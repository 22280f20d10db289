#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

// The part of the Redis protocol (RESP2) that GET, SET, DEL, EVAL, PING, AUTH and SELECT need.
namespace http_counter {

struct resp2_reply {
  enum class kind { text, nothing, error };
  kind what = kind::nothing;
  std::string text;
};

struct resp2_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string encode_command(std::initializer_list<std::string_view> words);

/// Removes one reply from the front of `input`; empty while the reply is incomplete. Throws `resp2_error`
/// on anything that is not a simple string, error, integer or bulk string.
std::optional<resp2_reply> take_reply(std::string& input);

/// All replies to these commands are far shorter.
inline constexpr std::size_t longest_reply = 64 * 1024;

}  // namespace http_counter
