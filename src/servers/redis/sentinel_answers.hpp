// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/redis/url.hpp"

#include <conch/config.hpp>
#include <conch/error.hpp>

#include <cstdint>
#include <string>
#include <vector>

// The master of a URL with Sentinels, for questions that no client asks. These functions block.
namespace conch::redis {

/// What one Sentinel answers. Neither a master nor an error: it does not know the name.
struct sentinel_answer {
  std::string host{};  // of the master
  std::uint16_t port = 0;
  error_code why{};

  bool names_one() const noexcept { return port != 0; }
};
/// Asks each of them, one after the other, for a second at most. In the order of `url`.
std::vector<sentinel_answer> ask_sentinels(config const& settings, sentinel_url const& url);

/// What it means that none of them names a master; for answers without one.
error_code no_master(sentinel_url const& url, std::vector<sentinel_answer> const& answers);

/// The first server that a Sentinel names and that reports itself a master. Throws boost::system::system_error with the
/// error of each.
address find_master(config const& settings, sentinel_url const& url, std::vector<sentinel_answer> const& answers);

}  // namespace conch::redis
