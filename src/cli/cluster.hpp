// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/server_address.hpp"
#include "cli/settings.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace conch::cli {

/// `redis-cluster://` and its like.
bool names_cluster(std::string_view url) noexcept;

/// The nodes that such a URL names. `url` is one that conch::client has accepted.
std::vector<server_address> seeds_of(std::string const& url, config const& settings);

/// All masters with slots, as the first seed says that answers. Throws failure.
std::vector<server_address> masters_of(connection const& all, std::string const& url);

}  // namespace conch::cli
