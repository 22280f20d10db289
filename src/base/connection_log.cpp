// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/connection_log.hpp"

namespace conch {

log_line line_of(connection_event what, std::string_view server, std::string_view why) {
  std::string const where{server}, reason = ": " + std::string{why};
  switch (what) {
    case connection_event::connected: return {log_level::info, "connected to " + where};
    case connection_event::lost: return {log_level::warning, "lost the connection to " + where + reason};
    case connection_event::failed: return {log_level::warning, "cannot connect to " + where + reason};
    case connection_event::refused: return {log_level::error, "cannot connect to " + where + reason};
  }
  return {};
}

}  // namespace conch
