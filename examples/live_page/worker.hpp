#pragma once

#include <string>

#include "options.hpp"

namespace live_page {

/// The first line that a worker reads.
std::string settings_for_workers(http_counter::options const& chosen);

/// Runs a worker: reads orders from standard input until it ends, and writes reports to standard output. Returns the
/// exit code.
int run_worker();

/// The counter has the lock's name. The counter without the lock has another key, so that both counts can run at once.
std::string counter_key(std::string const& name, bool locked);
std::string round_key(std::string const& name);
std::string sale_name(std::string const& name);

/// The lease in a round: how long a frozen holder blocks the others.
inline constexpr int round_lease_ms = 3000;

}  // namespace live_page
