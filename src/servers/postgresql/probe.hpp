// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/probe.hpp"

#include <memory>

namespace conch::postgresql {

/// Connects with the first question. Throws errc::invalid_url for what libpq does not understand.
std::unique_ptr<servers::probe> make_probe(config const& settings);

}  // namespace conch::postgresql
