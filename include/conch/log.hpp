// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <functional>
#include <string_view>

namespace conch {

/// How urgent a line of the log is.
enum class log_level { debug, info, warning, error };

/// Called from any thread that runs the client. It must not throw and must not call the client.
/// It never receives a password.
using log_hook = std::function<void(log_level, std::string_view)>;

/// A hook that writes the lines from this level on to standard error, with the time (UTC) and the level:
/// `2026-11-24T20:05:44.123Z conch warning: cannot connect to redis://127.0.0.1:6379: Connection refused`. Each line is
/// written at once and as a whole, from any thread; a standard error that is not read (a full pipe) holds the client
/// up. Use it as `config::log`.
CONCH_API log_hook log_to_stderr(log_level from = log_level::info);

}  // namespace conch
