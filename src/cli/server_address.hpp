// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/config.hpp>

#include <string>
#include <string_view>

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

/// What stands behind `name=` in the query of a URL; empty: nothing.
std::string query_value(std::string_view url, std::string_view name);

}  // namespace conch::cli
