// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/probe.hpp"
#include "servers/redis/url.hpp"

#include <memory>
#include <variant>

namespace conch::redis {

/// What a URL of Redis names: one server, Sentinels that know it, or nodes of a Cluster.
using named_servers = std::variant<address, sentinel_url, cluster_url>;

/// Connects with the first question.
std::unique_ptr<servers::probe> make_probe(config const& settings, named_servers where);

}  // namespace conch::redis
