// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/settings.hpp"
#include "servers/probe.hpp"

#include <memory>
#include <string>

namespace conch::cli {

/// The probe for one of connection::servers. Throws boost::system::system_error for a wrong URL.
std::unique_ptr<servers::probe> probe_of(connection const& all, std::string const& url);

}  // namespace conch::cli
