// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace conch::redis {

/// One server, as a URL names it.
struct address {
  enum class kind { tcp, unix_socket, memory };

  kind what = kind::tcp;
  std::string host;      // tcp: name or address, without the brackets of IPv6
  std::uint16_t port = 6379;
  std::string path;      // unix_socket: the path; memory: the name of the store
  std::string user;      // empty: "default" if there is a password
  std::string password;
  int database = 0;

  /// For messages: no password.
  std::string shown() const;
};

/// `redis://[user:password@]host[:port][/db]`, `unix://[user:password@]/path[?db=n]`, `memory://[name]`.
/// User and password are percent-decoded. Throws boost::system::system_error{errc::invalid_url}; what() says which part.
address parse_url(std::string_view url);

}  // namespace conch::redis
