// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/login.hpp"

#include "base/url_text.hpp"
#include "registry/schemes.hpp"

namespace conch::servers {

login_rules login_rules_of(std::string_view url) {
  auto const name = url::scheme_of(url);
  scheme const* const found = name ? registry::find(*name) : nullptr;
  return found != nullptr ? found->login : login_rules{};
}

std::string with_login(std::string_view url, credentials const& login) {
  auto const scheme = url::scheme_of(url);
  if (!scheme) return std::string{url};
  std::string_view rest = url::behind_scheme(url);
  std::string user = url::percent_encoded(login.user);
  if (auto const end = rest.substr(0, rest.find('/')).rfind('@'); end != std::string_view::npos) {
    std::string_view const present = rest.substr(0, end);
    if (user.empty()) user = present.substr(0, present.find(':'));
    rest.remove_prefix(end + 1);
  }
  std::string all = std::string{*scheme} + "://" + user;
  if (!login.password.empty()) all += ':' + url::percent_encoded(login.password);
  return all.append("@").append(rest);
}

}  // namespace conch::servers
