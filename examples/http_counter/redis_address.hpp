#pragma once

#include <string>

namespace http_counter {

/// Where the counter is kept.
struct redis_address {
  bool in_memory = false;  ///< memory://
  std::string socket;      ///< of unix://; else empty
  std::string host = "127.0.0.1";
  std::string port = "6379";
  std::string user;
  std::string password;
  std::string database;
};

/// Understands what conch itself accepts: `redis://[user:password@]host[:port][/db]`,
/// `unix:///path[?db=n]` and `memory://`. Throws `std::invalid_argument`, without the password.
redis_address parse_address(std::string const& url);

}  // namespace http_counter
