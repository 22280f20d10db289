#include "redis_address.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace http_counter {

namespace {

using std::string_view;

[[noreturn]] void fail(char const* what) { throw std::invalid_argument(std::string("--redis: ") + what); }

bool take_prefix(string_view& text, string_view prefix) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

std::string decode(string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned char byte = 0;
    auto const digits = text.substr(i + 1, 2);
    auto const end = digits.data() + digits.size();
    if (digits.size() != 2 || std::from_chars(digits.data(), end, byte, 16).ptr != end) {
      fail("two hexadecimal digits must follow %");
    }
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

std::string parse_database(string_view text) {
  auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
  if (text.size() > 9 || !std::all_of(text.begin(), text.end(), is_digit)) {
    fail("the database must be a number");
  }
  return std::string(text);
}

void parse_user(string_view text, redis_address& into) {
  auto const colon = text.find(':');
  if (colon == text.npos) {
    into.user = decode(text);
    return;
  }
  into.user = decode(text.substr(0, colon));
  into.password = decode(text.substr(colon + 1));
}

void parse_host(string_view text, redis_address& into) {
  auto const colon = text.starts_with('[') ? text.find(':', text.find(']')) : text.rfind(':');
  string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  if (host.empty()) {
    fail("the host is missing");
  }
  into.host = std::string(host);
  if (colon != text.npos) {
    into.port = std::string(text.substr(colon + 1));
  }
}

}  // namespace

redis_address parse_address(std::string const& url) {
  redis_address result;
  string_view rest = url;
  if (take_prefix(rest, "memory://")) {
    result.in_memory = true;
    return result;
  }
  if (take_prefix(rest, "unix://")) {
    auto const mark = rest.find('?');
    result.socket = decode(rest.substr(0, mark));
    if (mark != rest.npos) {
      string_view query = rest.substr(mark + 1);
      if (!take_prefix(query, "db=")) {
        fail("the query of a unix:// URL must be db=NUMBER");
      }
      result.database = parse_database(query);
    }
    if (result.socket.empty()) {
      fail("the path is missing");
    }
    return result;
  }
  if (!take_prefix(rest, "redis://")) {
    fail("the URL must begin with redis://, unix:// or memory://");
  }
  if (auto const at = rest.rfind('@'); at != rest.npos) {
    parse_user(rest.substr(0, at), result);
    rest.remove_prefix(at + 1);
  }
  auto const slash = rest.find('/');
  parse_host(rest.substr(0, slash), result);
  if (slash != rest.npos) {
    result.database = parse_database(rest.substr(slash + 1));
  }
  return result;
}

}  // namespace http_counter
