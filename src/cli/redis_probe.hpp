// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/settings.hpp"
#include "servers/probe.hpp"

#include <memory>
#include <string>

namespace conch::cli {

/// Of a Redis server, its Sentinels, or a Cluster. Connects with the first question. Besides boost::system::system_error it throws failure.
std::unique_ptr<servers::probe> make_redis_probe(connection const& all, std::string const& url);

}  // namespace conch::cli
