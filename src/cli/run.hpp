// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/locks.hpp"
#include "cli/options.hpp"

#include <boost/asio/io_context.hpp>

namespace conch::cli {

/// `conch run` under these locks. Runs the context until everything has ended. `grace`: between TERM and KILL.
/// Result: the exit code. Throws failure if --events-fd names no open descriptor.
int run_under(asio::io_context& context, arguments const& given, run_locks& locks, duration grace);

}  // namespace conch::cli
