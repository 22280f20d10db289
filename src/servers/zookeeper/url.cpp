// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/url.hpp"

#include "base/readable.hpp"
#include "base/url_text.hpp"

namespace conch::zookeeper {

namespace {

using url::refuse;

/// ZooKeeper's own rules for a path.
void check_chroot(std::string_view path) {
  for (std::string_view rest = path; !rest.empty();) {
    rest.remove_prefix(1);  // the slash
    std::string_view const part = rest.substr(0, rest.find('/'));
    if (part.empty() || part == "." || part == "..") refuse("a part of the path after the hosts is empty, '.' or '..'");
    rest.remove_prefix(part.size());
  }
  for (char const c : path) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 127)
      refuse("the path after the hosts contains a space or a control character");
  }
  // A server takes all that is not UTF-8 for the same character.
  if (readable(path, std::string::npos) != path) refuse("the path after the hosts is not plain UTF-8");
  if (path.find(',') != std::string_view::npos)
    refuse("the path is allowed once, after the last host, without ',': zookeeper://a:2181,b:2181/path");
  if (path == "/zookeeper" || path.starts_with("/zookeeper/")) refuse("/zookeeper belongs to the servers");
}

/// Removes the path after the hosts.
std::string take_chroot(std::string_view& rest) {
  auto const slash = rest.find('/');
  if (slash == std::string_view::npos) return {};
  std::string path{rest.substr(slash)};
  if (path == "/") path.clear();
  check_chroot(path);
  rest = rest.substr(0, slash);
  return path;
}

void check_login(address const& as) {
  if (!as.password.empty() && as.user.empty()) refuse("zookeeper:// takes user:password before '@'");
  if (as.user.find(':') != std::string::npos) refuse("the user contains a ':', which ends a user's name in ZooKeeper");
}

}  // namespace

ensemble_url parse(std::string_view of_url) {
  constexpr std::size_t most = 100;
  ensemble_url all;
  address common;
  common.over_tls = of_url.starts_with("zookeepers");
  std::string_view rest = url::behind_scheme(of_url);
  if (auto const query = url::take_query(rest)) {
    if (!common.over_tls) refuse("zookeeper:// takes no '?'");
    url::read_tls(*query, common.tls);
  }
  all.chroot = take_chroot(rest);
  url::refuse_login_inside(rest);
  url::take_login(rest, common);
  check_login(common);
  all.servers = url::read_hosts(rest, common, "the servers", most, "there are more than 100 servers");
  return all;
}

}  // namespace conch::zookeeper
