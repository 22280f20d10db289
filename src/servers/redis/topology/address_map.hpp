// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/url_text.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace conch::redis {

/// What config::address_map makes of an address that a server has reported.
inline void map_address(std::map<std::string, std::string> const& address_map, std::string& host, std::uint16_t& port) {
  auto const found = address_map.find(host_and_port(host, port));
  if (found == address_map.end()) return;
  endpoint to;
  url::read_host_and_port(found->second, to);  // checked when the client was made
  host = to.host;
  port = to.port;
}

}  // namespace conch::redis
