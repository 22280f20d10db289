// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/server_address.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::cli {

namespace {

constexpr auto npos = std::string_view::npos;

std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '%' && i + 2 < text.size() && std::from_chars(text.data() + i + 1, text.data() + i + 3, code, 16).ec == std::errc{}) {
      plain += static_cast<char>(code);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// What is behind `by`, which is taken away with it; empty: it is not there.
std::string_view split_off(std::string_view& text, std::size_t at) {
  if (at == npos) return {};
  std::string_view const behind = text.substr(at + 1);
  text = text.substr(0, at);
  return behind;
}

struct query_word {
  std::string_view name;
  std::string value;
};

std::vector<query_word> words_of(std::string_view query) {
  std::vector<query_word> all;
  while (!query.empty()) {
    std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), one.size() + 1));
    std::string value = decoded(split_off(one, one.find('=')));
    all.push_back({one, std::move(value)});
  }
  return all;
}

/// As the library: an authority, or a key, of the URL does not belong to a file of the configuration.
void read_query(std::string_view query, server_address& to) {
  std::vector<query_word> const words = words_of(query);
  auto const has = [&](std::string_view a, std::string_view b) {
    return std::any_of(words.begin(), words.end(), [&](query_word const& w) { return w.name == a || w.name == b; });
  };
  if (has("cacert", "cacertdir")) to.tls.ca_file = to.tls.ca_path = "";
  if (has("cert", "key")) to.tls.cert_file = to.tls.key_file = "";
  for (auto const& [name, value] : words) {
    if (name == "db") std::from_chars(value.data(), value.data() + value.size(), to.database);
    if (name == "cacert") to.tls.ca_file = value;
    if (name == "cacertdir") to.tls.ca_path = value;
    if (name == "cert") to.tls.cert_file = value;
    if (name == "key") to.tls.key_file = value;
    if (name == "sni") to.tls.server_name = value;
  }
}

void read_host(std::string_view text, server_address& to) {
  bool const in_brackets = text.starts_with('[');
  auto const colon = in_brackets ? text.find(':', text.find(']')) : text.find(':');
  std::string_view const port = split_off(text, colon);
  if (!port.empty()) to.port = port;
  if (in_brackets) text = text.substr(1, text.size() - 2);
  to.host = text;
}

void read_login(std::string_view text, server_address& to) {
  std::string_view const password = split_off(text, text.find(':'));
  to.login.user = decoded(text);
  to.login.password = decoded(password);
}

}  // namespace

bool server_address::on_this_machine() const { return !path.empty() || host == "localhost" || host == "::1" || host.starts_with("127."); }

std::string query_value(std::string_view url, std::string_view name) {
  for (query_word& one : words_of(split_off(url, url.find('?')))) {
    if (one.name == name) return std::move(one.value);
  }
  return {};
}

url_parts split_hosts(std::string_view url) {
  url.remove_prefix(url.find("://") + 3);
  url_parts all;
  if (auto const at = url.substr(0, url.find('?')).rfind('@'); at != npos) {
    all.login = url.substr(0, at + 1);
    url.remove_prefix(at + 1);
  }
  auto const end = std::min(url.find_first_of("/?"), url.size());
  all.hosts = url.substr(0, end);
  all.rest = url.substr(end);
  return all;
}

std::vector<named_host> hosts_of(std::string_view url, std::string_view default_port) {
  std::vector<named_host> all;
  for (std::string_view left = split_hosts(url).hosts;;) {
    auto const comma = left.find(',');
    std::string_view host = left.substr(0, comma);
    bool const in_brackets = host.starts_with('[');
    std::string_view const port = split_off(host, host.find(':', in_brackets ? host.find(']') : 0));
    if (in_brackets) host = host.substr(1, host.size() - 2);
    all.push_back({host, port.empty() ? default_port : port});
    if (comma == npos) return all;
    left.remove_prefix(comma + 1);
  }
}

std::string host_and_port(std::string_view host, std::string_view port) {
  std::string words;
  bool const is_v6 = host.find(':') != npos;
  if (is_v6) words += '[';
  words.append(host);
  if (is_v6) words += ']';
  return words.append(":").append(port);
}

std::string url_of_server(std::string_view url, std::string_view host, std::string_view port) {
  url_parts const parts = split_hosts(url);
  bool const over_tls = url.starts_with("rediss") || url.starts_with("valkeys");
  std::string one = over_tls ? "rediss://" : "redis://";
  return one.append(parts.login).append(host_and_port(host, port)).append(parts.rest);
}

server_address parse_address(std::string const& url, tls_config const& configured) {
  server_address to;
  to.tls = configured;
  std::string_view rest = url;
  auto const scheme_end = rest.find("://");
  std::string_view const scheme = rest.substr(0, scheme_end);
  rest = rest.substr(scheme_end == npos ? rest.size() : scheme_end + 3);
  read_query(split_off(rest, rest.find('?')), to);
  if (scheme == "unix") {
    auto const slash = rest.find('/');
    if (auto const at = rest.find('@'); at < slash) {
      read_login(rest.substr(0, at), to);
      rest = rest.substr(at + 1);
    }
    to.path = rest;
    return to;
  }
  to.over_tls = scheme == "rediss" || scheme == "valkeys";
  std::string_view const database = split_off(rest, rest.find('/'));
  std::from_chars(database.data(), database.data() + database.size(), to.database);
  if (auto const at = rest.rfind('@'); at != npos) {
    read_login(rest.substr(0, at), to);
    rest = rest.substr(at + 1);
  }
  read_host(rest, to);
  return to;
}

}  // namespace conch::cli
