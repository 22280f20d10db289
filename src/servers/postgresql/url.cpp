// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/url.hpp"

#include "base/endpoint.hpp"
#include "base/url_text.hpp"

#include <algorithm>

namespace conch::postgresql {

namespace {

/// Without user and password, and what comes behind them.
std::string_view hosts_of(std::string_view rest) {
  std::string_view hosts = rest.substr(0, rest.find_first_of("/?"));
  hosts.remove_prefix(hosts.rfind('@') + 1);  // npos + 1 is 0
  return hosts;
}

}  // namespace

void check_url(std::string_view of_url) {
  std::string_view const rest = url::behind_scheme(of_url);
  url::check_percent_encoding(rest);
  std::string_view hosts = hosts_of(rest);
  for (;;) {
    std::string_view one = hosts.substr(0, hosts.find(','));
    bool const is_last = one.size() == hosts.size();
    if (!is_last) hosts.remove_prefix(one.size() + 1);
    if (one.starts_with('[')) one.remove_prefix(std::min(one.find(']'), one.size() - 1));
    if (auto const colon = one.find(':'); colon != std::string_view::npos) (void)url::read_port(one.substr(colon + 1));
    if (is_last) return;
  }
}

std::string server_in(std::string_view of_url) {
  std::string_view const hosts = hosts_of(url::behind_scheme(of_url));
  std::string_view const one = hosts.substr(0, hosts.find(','));
  endpoint first;
  first.port = 5432;
  bool const has_brackets = one.starts_with('[');
  std::string_view const host = has_brackets ? one.substr(1, one.find(']') - 1) : one.substr(0, one.find(':'));
  std::string_view const port = one.substr(std::min(one.size(), host.size() + (has_brackets ? 2 : 0)));
  if (port.size() > 1) first.port = url::read_port(port.substr(1));
  first.host = host;
  return url::site_of(first);
}

std::string database_in(std::string_view of_url) {
  std::string_view const all = url::behind_scheme(of_url);
  std::string_view path = all.substr(0, all.find('?'));
  auto const slash = path.find('/');
  return std::string{slash == std::string_view::npos ? std::string_view{} : path.substr(slash + 1)};
}

std::string shown(std::string_view of_url) {
  std::string_view where = url::behind_scheme(of_url);
  where = where.substr(0, where.find('?'));
  return "postgresql://" + std::string{where.substr(where.rfind('@') + 1)};  // npos + 1 is 0
}

}  // namespace conch::postgresql
