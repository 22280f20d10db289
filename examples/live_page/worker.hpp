#pragma once

#include <string>

#include "options.hpp"

namespace live_page {

/// What a worker is told first.
std::string settings_for_workers(http_counter::options const& chosen);

/// A worker: takes orders from standard input, and reports on standard output, until the former ends. The exit code.
int run_worker();

/// A lock and a counter are of one name; the counter without the lock has a name of its own, so that both can count at once.
std::string counter_key(std::string const& name, bool locked);
std::string round_key(std::string const& name);
std::string sale_name(std::string const& name);

/// How long a holder that was stopped keeps the lock from the others.
inline constexpr int round_lease_ms = 3000;

}  // namespace live_page
