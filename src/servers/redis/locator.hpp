// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "net/role.hpp"
#include "servers/redis/url.hpp"

#include <conch/clock.hpp>

namespace conch::redis {

using net::location;

/// Knows the present address of a server that moves. No I/O.
class locator {
 public:
  /// To be called for each connection. Sets host and port of `to` if the server is `here`. To `wait`:
  /// net::lifecycle::moved() follows.
  virtual location locate(address& to, time_point now) = 0;

 protected:
  ~locator() = default;
};

}  // namespace conch::redis
