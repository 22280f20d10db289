// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/endpoint.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace conch::zookeeper {

/// One server of an ensemble.
struct address : login_endpoint {
  address() { port = 2181; }

  std::string shown() const { return (over_tls ? "zookeepers://" : "zookeeper://") + host_and_port(host, port); }
};

/// The servers of an ensemble.
struct ensemble_url {
  std::vector<address> servers;  // with the user and password of all
  std::string chroot;            // "/a/b", or empty
};

/// `zookeeper://[user:password@]host[:2181],host,...[/chroot]`, and the same over TLS with `zookeepers://`, which takes
/// words about TLS behind '?'.
/// Throws boost::system::system_error{errc::invalid_url}; what() names the wrong part.
ensemble_url parse(std::string_view url);

}  // namespace conch::zookeeper
