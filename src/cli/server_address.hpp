// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/config.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace conch::cli {

/// One server, as its URL names it.
struct server_address {
  std::string host;
  std::string port = "6379";
  std::string path;  // of a unix socket; then there is no host
  credentials login{};
  int database = 0;
  bool over_tls = false;
  tls_config tls{};  // with what the URL says of it

  /// Nobody between this process and the server can listen.
  bool on_this_machine() const;
};

/// `url` is one that conch::client has accepted. `configured`: what counts where the URL says nothing.
server_address parse_address(std::string const& url, tls_config const& configured);

/// A URL with several hosts in its parts.
struct url_parts {
  std::string_view login;  // "user:password@", or nothing
  std::string_view hosts;  // with commas between them
  std::string_view rest;   // "/2?sentinelMasterId=m"
};
url_parts split_hosts(std::string_view url);

/// The hosts of such a URL, without brackets, each with its port.
struct named_host {
  std::string_view host, port;
};
std::vector<named_host> hosts_of(std::string_view url, std::string_view default_port);

/// "h:7", "[::1]:7".
std::string host_and_port(std::string_view host, std::string_view port);

/// The URL of one server that is not named in `url` itself: a master of Sentinels, a node of a Cluster. With what `url` says of user, database
/// and TLS.
std::string url_of_server(std::string_view url, std::string_view host, std::string_view port);

/// What stands behind `name=` in the query of a URL; empty: nothing.
std::string query_value(std::string_view url, std::string_view name);

}  // namespace conch::cli
