// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/server_address.hpp"
#include "cli/settings.hpp"

#include <string>
#include <string_view>
#include <vector>

// The master of a URL with Sentinels, for the questions that the library does not ask.
namespace conch::cli {

bool names_sentinels(std::string_view url) noexcept;

/// `redis-sentinel://` and `rediss-sentinel://`: what they name. `url` is one that conch::client has accepted.
struct sentinel_addresses {
  std::vector<server_address> sentinels;
  std::string master;  // its name
};
sentinel_addresses parse_sentinels(std::string const& url, config const& settings);

/// What one Sentinel said.
struct sentinel_answer {
  std::string sentinel;  // host:port
  std::string host, port;
  std::string error;  // of the question; then there is no address
};
/// Asks each of them, one after the other, for a second at most.
std::vector<sentinel_answer> ask_sentinels(connection const& all, std::string const& url);

/// The URL of the first server that a Sentinel names and that is a master by its own word. Throws failure: unreachable, with what each of
/// them said; wrong_config if they know no master of that name.
std::string url_of_master(connection const& all, std::string const& url);

}  // namespace conch::cli
