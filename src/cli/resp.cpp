// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/resp.hpp"

#include "cli/exit_code.hpp"

#include <charconv>
#include <utility>

namespace conch::cli {

namespace {

[[noreturn]] void refuse() { throw failure{exit_code::refused, "the server does not speak the protocol of Redis"}; }

std::int64_t number_of(std::string_view text) {
  std::int64_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) refuse();
  return number;
}

}  // namespace

std::string encoded(std::vector<std::string> const& command) {
  std::string out = '*' + std::to_string(command.size()) + "\r\n";
  for (std::string const& word : command) out += '$' + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return out;
}

std::optional<reply> reply_reader::next() {
  std::size_t at = 0;
  std::optional<reply> found = read(at, 0);
  if (found) input_.erase(0, at);
  return found;
}

std::optional<reply> reply_reader::read(std::size_t& at, int depth) const {
  constexpr int deepest = 8;
  constexpr std::int64_t longest = 64 << 20, most = 1 << 20;
  if (depth > deepest) refuse();
  auto const end = input_.find("\r\n", at);
  if (end == std::string::npos) {
    constexpr std::size_t longest_line = 64 << 10;
    if (input_.size() - at > longest_line) refuse();
    return std::nullopt;
  }
  std::string_view const line = std::string_view{input_}.substr(at, end - at);
  if (line.empty()) refuse();
  std::string_view const rest = line.substr(1);
  at = end + 2;
  reply r;
  switch (line.front()) {
    case '+':
    case '-':
      r.what = line.front() == '+' ? reply::kind::status : reply::kind::error;
      r.text = rest;
      return r;
    case ':':
      r.what = reply::kind::integer;
      r.number = number_of(rest);
      return r;
    case '$': {
      std::int64_t const size = number_of(rest);
      if (size < 0) return r;
      if (size > longest) refuse();
      std::size_t const length = static_cast<std::size_t>(size);
      if (input_.size() < at + length + 2) return std::nullopt;
      r.what = reply::kind::string;
      r.text = input_.substr(at, length);
      at += length + 2;
      return r;
    }
    case '*': {
      std::int64_t const size = number_of(rest);
      if (size < 0) return r;
      if (size > most) refuse();
      r.what = reply::kind::array;
      for (std::int64_t i = 0; i < size; ++i) {
        std::optional<reply> item = read(at, depth + 1);
        if (!item) return std::nullopt;
        r.items.push_back(std::move(*item));
      }
      return r;
    }
    default: refuse();
  }
}

}  // namespace conch::cli
