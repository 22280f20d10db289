// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/exit_code.hpp"

namespace conch::cli {

int exit_code_of(error_code why) noexcept {
  if (why == errc::timed_out) return exit_code::not_granted;
  if (why == errc::not_replicated) return exit_code::not_replicated;
  if (why == errc::lost || why == errc::not_held) return exit_code::lost;
  if (why == errc::access_denied) return exit_code::access_denied;
  if (why == errc::tls_failed || why == errc::invalid_url) return exit_code::wrong_config;
  if (why == errc::invalid_name || why == errc::invalid_config || why == errc::not_supported) return exit_code::usage;
  if (why == errc::wrong_type || why == errc::server_refused || why == errc::protocol) return exit_code::refused;
  if (why == condition::unreachable) return exit_code::unreachable;
  return exit_code::internal;
}

}  // namespace conch::cli
