// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"
#include "servers/redis/url.hpp"

#include <conch/clock.hpp>

#include <cstdint>
#include <string>

namespace conch::redis {

/// Whether it is known where a server is.
struct location {
  enum class kind : std::uint8_t { here, wait, nowhere, not_needed };  // not_needed: not before the connection is wanted again

  kind what = kind::wait;
  protocol::fault why = protocol::fault::none;  // nowhere: what the attempt to connect fails with
  std::string words{};                          // of an error, unless it is here
  duration within = duration::max();            // here: the attempt may take no longer, since there are others to try
};

/// Knows where a server is whose address changes. No I/O.
class locator {
 public:
  /// To be called for each connection. Sets host and port of `to` if the server is `here`. To `wait`: connection_fsm::moved() follows.
  virtual location locate(address& to, time_point now) = 0;

 protected:
  ~locator() = default;
};

}  // namespace conch::redis
