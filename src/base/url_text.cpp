// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/url_text.hpp"

#include "base/numbers.hpp"

#include <conch/error.hpp>

#include <boost/system/system_error.hpp>

namespace conch::url {

namespace {

constexpr auto npos = std::string_view::npos;

/// -1: not a hexadecimal digit.
int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The value of the two digits after the '%' at this place. -1: there are none.
int decoded_at(std::string_view text, std::size_t percent) {
  if (percent + 2 >= text.size()) return -1;
  int const high = hex(text[percent + 1]), low = hex(text[percent + 2]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void read_login(std::string_view text, login_endpoint& to) {
  auto const colon = text.find(':');
  if (colon == npos) refuse("expected user:password or :password before '@'");
  to.user = percent_decoded(text.substr(0, colon), "user or password");
  if (looks_like_a_token(to.user)) to.token = to.user;
  to.password = percent_decoded(text.substr(colon + 1), "user or password");
  if (to.password.empty()) refuse("the password before '@' is empty");
}

[[noreturn]] void ambiguous() {
  refuse(
      "ambiguous: in a user, a password and a value after '?' write '@' as %40, '/' as %2F, '?' as %3F and '#' as %23");
}

/// Takes the host away; what is left is nothing, or ':' and a port.
std::string_view take_host(std::string_view& text) {
  if (!text.starts_with('[')) {
    auto const colon = text.find(':');
    std::string_view const host = text.substr(0, colon);
    text = colon == npos ? std::string_view{} : text.substr(colon);
    if (text.find(':', 1) != npos) refuse("an IPv6 address needs brackets");
    return host;
  }
  auto const close = text.find(']');
  if (close == npos) refuse("an IPv6 address lacks its closing ']'");
  std::string_view const host = text.substr(1, close - 1);
  text.remove_prefix(close + 1);
  if (!text.empty() && !text.starts_with(':')) refuse("after ']' only ':' and a port may follow");
  return host;
}

void check_host(std::string_view host) {
  if (host.empty()) refuse("the host is missing");
  for (char const c : host) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 127) refuse("the host contains a space or a control character");
    if (c == '[' || c == ']') refuse("the host contains a bracket");
  }
  if (!can_be_host(host))
    refuse("the host is longer than 255 bytes, or contains a backslash or a character that cannot be seen");
}

}  // namespace

void refuse(std::string_view why) { throw boost::system::system_error{make_error_code(errc::invalid_url, why)}; }

std::optional<std::string_view> scheme_of(std::string_view url) noexcept {
  auto const end = url.find("://");
  return end == npos ? std::nullopt : std::optional{url.substr(0, end)};
}

std::string_view behind_scheme(std::string_view url) noexcept {
  auto const end = url.find("://");
  return end == npos ? std::string_view{} : url.substr(end + 3);
}

void refuse_ambiguous(std::string_view rest, shape of) {
  // A name and a path are taken as they are, and there is nothing secret in them.
  if (of == shape::name || (of == shape::socket && rest.starts_with('/'))) return;
  if (rest.find('#') != npos) ambiguous();
  if (of == shape::socket) {
    auto const found = rest.find('@');
    if (found != npos && (rest.substr(0, found).find_first_of("/?") != npos || rest.find('@', found + 1) != npos))
      ambiguous();
    return;
  }
  for (std::string_view left = rest;;) {
    auto const comma = of == shape::list_of_servers ? left.find(',') : npos;
    std::string_view const one = left.substr(0, comma);
    auto const found = one.rfind('@');
    if (found != npos && one.substr(0, found).find_first_of("@/?") != npos) ambiguous();
    if (comma == npos) return;
    left.remove_prefix(comma + 1);
  }
}

std::string percent_decoded(std::string_view text, std::string const& where) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    int const byte = decoded_at(text, i);
    if (byte < 0) refuse("'%' in " + where + " must be followed by two hexadecimal digits");
    plain += static_cast<char>(byte);
    i += 2;
  }
  return plain;
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF",
                             plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string all;
  for (char const c : text) {
    if (plain.find(c) != npos) {
      all += c;
    } else {
      auto const byte = static_cast<unsigned char>(c);
      all += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return all;
}

void check_percent_encoding(std::string_view text) {
  for (std::size_t i = text.find('%'); i != npos; i = text.find('%', i + 1)) {
    if (decoded_at(text, i) < 0) refuse("'%' must be followed by two hexadecimal digits");
  }
}

std::optional<std::string_view> take_query(std::string_view& rest) {
  auto const mark = rest.find('?');
  if (mark == npos) return std::nullopt;
  std::string_view const query = rest.substr(mark + 1);
  rest = rest.substr(0, mark);
  return query;
}

void read_query(std::string_view query, std::function<std::string*(std::string_view)> const& find,
                std::string_view known) {
  for (;;) {
    std::string_view const one = query.substr(0, query.find('&'));
    auto const equals = one.find('=');
    std::string* const value = find(one.substr(0, equals));
    if (value == nullptr || equals == npos) refuse(known);
    if (!value->empty()) refuse("duplicate parameter after '?'");
    *value = percent_decoded(one.substr(equals + 1), "what follows '?'");
    if (value->empty() || value->find('\0') != std::string::npos)
      refuse("after '?' a value is empty or contains a NUL");
    if (one.size() == query.size()) break;
    query.remove_prefix(one.size() + 1);
  }
}

std::string* setting_of_tls(std::string_view word, tls_config& to) noexcept {
  if (word == "cacert") return &to.ca_file;
  if (word == "cacertdir") return &to.ca_path;
  if (word == "cert") return &to.cert_file;
  if (word == "key") return &to.key_file;
  if (word == "sni") return &to.server_name;
  return nullptr;
}

void check_key(tls_config const& t) {
  if (t.cert_file.empty() && !t.key_file.empty()) refuse("after '?' key= needs cert=");
}

void read_tls(std::string_view query, tls_config& to) {
  read_query(
      query, [&](std::string_view word) { return setting_of_tls(word, to); },
      "after '?' a URL with TLS takes cacert=, cacertdir=, cert=, key= and sni=; only config::tls.verify switches the "
      "verification off");
  check_key(to);
}

void take_login(std::string_view& rest, login_endpoint& to) {
  auto const found = rest.rfind('@');
  if (found == npos) return;
  read_login(rest.substr(0, found), to);
  rest.remove_prefix(found + 1);
}

void refuse_login_inside(std::string_view hosts) {
  auto const found = hosts.rfind('@');
  if (found != npos && hosts.find(',') < found)
    refuse("user and password are allowed once, before the first host; percent-encode a ',' in them");
}

void read_host_and_port(std::string_view text, endpoint& to) {
  std::string_view port = text;
  to.host = take_host(port);
  check_host(to.host);
  if (!port.empty()) to.port = read_port(port.substr(1));
}

std::string site_of(endpoint const& one) { return host_and_port(one_spelling(one.host), one.port); }

std::uint16_t read_port(std::string_view text) {
  auto const number = whole_number<std::uint16_t>(text);
  if (!number || *number == 0) refuse("the port must be a number from 1 to 65535");
  return *number;
}

}  // namespace conch::url
