// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/url.hpp"

#include <conch/clock.hpp>
#include <conch/config.hpp>

#include <string>
#include <vector>

namespace conch::zookeeper {

/// What a server reports about itself to `srvr`, one of ZooKeeper's words of four letters.
struct self_description {
  std::string server;  // its URL
  std::string text;    // at most a few KiB, as it came; empty: `trouble` says why
  std::string trouble;
};

/// Asks all of them at once, each on its own connection. No longer than `limit`.
std::vector<self_description> ask_each(std::vector<address> const& servers, tls_config const& tls, duration limit);

}  // namespace conch::zookeeper
