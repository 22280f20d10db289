#include "resp2.hpp"

#include <charconv>

namespace http_counter {

namespace {

constexpr std::string_view line_end = "\r\n";

long parse_length(std::string_view text) {
  long value = 0;
  auto const [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value < -1 ||
      value > static_cast<long>(longest_reply)) {
    throw resp2_error("Redis sent an invalid length");
  }
  return value;
}

}  // namespace

std::string encode_command(std::initializer_list<std::string_view> words) {
  std::string out = "*" + std::to_string(words.size());
  out += line_end;
  for (auto const word : words) {
    out += '$';
    out += std::to_string(word.size());
    out += line_end;
    out += word;
    out += line_end;
  }
  return out;
}

std::optional<resp2_reply> take_reply(std::string& input) {
  auto const end = input.find(line_end);
  if (end == input.npos) {
    if (input.size() > longest_reply) {
      throw resp2_error("Redis sent a line that is too long");
    }
    return std::nullopt;
  }
  std::string const line = input.substr(0, end);
  std::size_t used = end + line_end.size();
  resp2_reply reply;
  if (line.starts_with('+') || line.starts_with(':')) {
    reply = {resp2_reply::kind::text, line.substr(1)};
  } else if (line.starts_with('-')) {
    reply = {resp2_reply::kind::error, line.substr(1)};
  } else if (line.starts_with('$')) {
    long const length = parse_length(std::string_view(line).substr(1));
    if (length >= 0) {
      auto const size = static_cast<std::size_t>(length);
      if (input.size() < used + size + line_end.size()) {
        return std::nullopt;
      }
      if (input.compare(used + size, line_end.size(), line_end) != 0) {
        throw resp2_error("Redis sent a string without CRLF at its end");
      }
      reply = {resp2_reply::kind::text, input.substr(used, size)};
      used += size + line_end.size();
    }
  } else {
    throw resp2_error("the server does not speak the Redis protocol");
  }
  input.erase(0, used);
  return reply;
}

}  // namespace http_counter
