// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>
#include <conch/log.hpp>

#include <string>
#include <string_view>

namespace conch {

/// A line for the log hook.
struct log_line {
  log_level level = log_level::info;
  std::string words;
};

/// What becomes of connections, the same for every kind of server.
enum class connection_event {
  connected,
  lost,     // one that was of use has ended, for this reason
  failed,   // none could be made; it is tried again
  refused,  // none could be made, for a reason that does not change by itself: what waits for the server ends
};

/// The one place that words it. `server`: its URL without a password; `why`: the server's words, or those of the
/// system.
CONCH_API log_line line_of(connection_event what, std::string_view server, std::string_view why = {});

}  // namespace conch
