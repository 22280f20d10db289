// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/url.hpp"
#include "servers/probe.hpp"

#include <memory>

namespace conch::zookeeper {

/// Connects with the first question.
std::unique_ptr<servers::probe> make_probe(config const& settings, redis::zookeeper_url where);

}  // namespace conch::zookeeper
