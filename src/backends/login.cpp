// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/login.hpp"

#include "base/url.hpp"

#include <algorithm>

namespace conch::servers {

namespace {

bool begins_with_one_of(std::string_view url, std::initializer_list<std::string_view> schemes) {
  return std::any_of(schemes.begin(), schemes.end(), [&](std::string_view scheme) { return url.starts_with(scheme); });
}

/// As a part of a URL: nothing in it has a meaning there.
std::string percent_encoded(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF", plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string all;
  for (char const c : text) {
    if (plain.find(c) != std::string_view::npos) {
      all += c;
    } else {
      auto const byte = static_cast<unsigned char>(c);
      all += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return all;
}

}  // namespace

login_rules login_rules_of(std::string_view url) noexcept {
  if (url.starts_with("memory://")) return {.in_this_process = true};
  if (redis::names_zookeeper(url)) return {.takes_provider = false};
  if (begins_with_one_of(url, {"postgresql://", "postgres://"})) return {.takes_provider = false, .needs_password = false};
  return {.has_sentinels = redis::names_sentinels(url)};
}

std::string with_login(std::string_view url, credentials const& login) {
  auto const mark = url.find("://");
  if (mark == std::string_view::npos) return std::string{url};
  std::string_view const scheme = url.substr(0, mark + 3);
  std::string_view rest = url.substr(mark + 3);
  std::string user = percent_encoded(login.user);
  if (auto const end = rest.substr(0, rest.find('/')).rfind('@'); end != std::string_view::npos) {
    std::string_view const present = rest.substr(0, end);
    if (user.empty()) user = present.substr(0, present.find(':'));
    rest.remove_prefix(end + 1);
  }
  std::string all = std::string{scheme} + user;
  if (!login.password.empty()) all += ':' + percent_encoded(login.password);
  return all.append("@").append(rest);
}

}  // namespace conch::servers
