// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/urls.hpp"

#include "base/url_text.hpp"
#include "registry/schemes.hpp"

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <functional>

namespace conch::servers {

namespace {

constexpr auto npos = std::string_view::npos;

scheme const* find_scheme(std::string_view url) {
  auto const name = url::scheme_of(url);
  return name ? registry::find(*name) : nullptr;
}

/// A scheme that is not known is taken for one that may have a login.
url::shape shape_of(scheme const* found) { return found != nullptr ? found->shape : url::shape::hosts; }

bool is_ambiguous(std::string_view rest, url::shape of) {
  try {
    url::refuse_ambiguous(rest, of);
  } catch (boost::system::system_error const&) {
    return true;
  }
  return false;
}

/// What precedes the '@' of each server, and what is left of `rest` without that.
std::string take_logins(std::string_view rest, url::shape of, std::function<void(std::string_view)> const& to) {
  if (of == url::shape::name) return std::string{rest};
  std::size_t const end = of == url::shape::socket ? rest.find('/') : npos;
  std::string_view hosts = rest.substr(0, end);
  std::string left;
  for (;;) {
    // elsewhere a password may contain a comma
    auto const comma = of == url::shape::list_of_servers ? hosts.find(',') : npos;
    std::string_view const one = hosts.substr(0, comma);
    auto const it = one.rfind('@');
    if (it != npos) to(one.substr(0, it));
    left += one.substr(it + 1);  // npos + 1 is 0
    if (comma == npos) break;
    left += ',';
    hosts.remove_prefix(comma + 1);
  }
  return left.append(end == npos ? std::string_view{} : rest.substr(end));
}

/// "?NAME=VALUE" of that parameter; empty: there is none.
std::string parameter_in(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    std::string_view const one = query.substr(0, query.find('&'));
    if (one.starts_with(name) && one.substr(name.size()).starts_with('=')) return "?" + std::string{one};
    query.remove_prefix(std::min(query.size(), one.size() + 1));
  }
  return {};
}

}  // namespace

login_rules login_rules_of(std::string_view url) {
  scheme const* const found = find_scheme(url);
  return found != nullptr ? found->login : login_rules{};
}

login_in_url login_in(std::string_view url) {
  login_in_url all;
  std::string_view const rest = url::behind_scheme(url);
  url::shape const of = shape_of(find_scheme(url));
  take_logins(rest, of, [&](std::string_view login) {
    all.user = true;
    all.password = all.password || login.find(':') != npos;
  });
  // password= and sslpassword= of PostgreSQL, also in a program without its component.
  bool const in_query = of != url::shape::name && rest.find("password=") != npos;
  all.password = all.password || in_query;
  return all;
}

std::string with_login(std::string_view url, credentials const& login) {
  auto const scheme = url::scheme_of(url);
  if (!scheme) return std::string{url};
  std::string_view rest = url::behind_scheme(url);
  std::string user = url::percent_encoded(login.user);
  if (auto const end = rest.substr(0, rest.find('/')).rfind('@'); end != npos) {
    std::string_view const present = rest.substr(0, end);
    if (user.empty()) user = present.substr(0, present.find(':'));
    rest.remove_prefix(end + 1);
  }
  std::string all = std::string{*scheme} + "://" + user;
  if (!login.password.empty()) all += ':' + url::percent_encoded(login.password);
  return all.append("@").append(rest);
}

std::string without_login(std::string_view url) {
  auto const name = url::scheme_of(url);
  if (!name) return std::string{url};
  std::string_view rest = url::behind_scheme(url);
  scheme const* const found = find_scheme(url);
  url::shape const of = shape_of(found);
  if (is_ambiguous(rest, of)) return std::string{*name} + "://***";  // any part of it may be one of a password
  std::string_view query;
  // In a name or a path it is a character as any other.
  if (of == url::shape::hosts || of == url::shape::list_of_servers) query = url::take_query(rest).value_or("");
  std::string const left = take_logins(rest, of, [](std::string_view) {});
  bool const shows_one = found != nullptr && !found->shown_parameter.empty();
  return std::string{*name} + "://" + left + (shows_one ? parameter_in(query, found->shown_parameter) : std::string{});
}

bool names_voters(std::string_view url) {
  scheme const* const found = find_scheme(url);
  return found != nullptr && found->votes != nullptr;
}

std::vector<std::string> voters_of(std::string_view url) {
  scheme const* const found = find_scheme(url);
  if (found != nullptr && found->votes != nullptr) return found->votes(url);
  return {std::string{url}};
}

}  // namespace conch::servers
