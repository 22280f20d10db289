// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/url.hpp"

#include "base/url_text.hpp"

#include <algorithm>

namespace conch::postgresql {

void check_url(std::string_view of_url) {
  std::string_view const rest = url::behind_scheme(of_url);
  url::check_percent_encoding(rest);
  std::string_view hosts = rest.substr(0, rest.find_first_of("/?"));
  hosts.remove_prefix(hosts.rfind('@') + 1);  // npos + 1 is 0
  for (;;) {
    std::string_view one = hosts.substr(0, hosts.find(','));
    bool const is_last = one.size() == hosts.size();
    if (!is_last) hosts.remove_prefix(one.size() + 1);
    if (one.starts_with('[')) one.remove_prefix(std::min(one.find(']'), one.size() - 1));
    if (auto const colon = one.find(':'); colon != std::string_view::npos) (void)url::read_port(one.substr(colon + 1));
    if (is_last) return;
  }
}

std::string shown(std::string_view of_url) {
  std::string_view where = url::behind_scheme(of_url);
  where = where.substr(0, where.find('?'));
  return "postgresql://" + std::string{where.substr(where.rfind('@') + 1)};  // npos + 1 is 0
}

}  // namespace conch::postgresql
