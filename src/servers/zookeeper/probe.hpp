// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/probe.hpp"
#include "servers/zookeeper/url.hpp"

#include <memory>

namespace conch::zookeeper {

/// Connects with the first question.
std::unique_ptr<servers::probe> make_probe(config const& settings, ensemble_url where);

}  // namespace conch::zookeeper
