#pragma once

#include <string>

namespace http_counter {

/// The server that keeps the counter.
struct redis_address {
  bool in_memory = false;  ///< memory://
  std::string socket;      ///< unix://; otherwise empty
  std::string host = "127.0.0.1";
  std::string port = "6379";
  std::string user;
  std::string password;
  std::string database;
};

/// Parses `redis://[user:password@]host[:port][/db]`, `unix:///path[?db=n]` and `memory://`, as conch does. Throws
/// `std::invalid_argument`, whose text never has the password.
redis_address parse_address(std::string const& url);

}  // namespace http_counter
