#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace http_counter {

struct options {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;       ///< 0: any free port
  std::vector<std::string> hosts;  ///< names of this server besides its addresses and localhost
  std::string redis = "redis://127.0.0.1:6379";
  std::vector<std::string> lock_servers;  ///< keep the lock; empty: `redis` keeps it, too
  std::string name = "counter";
  std::chrono::milliseconds wait{5000};              ///< for the lock, per request
  std::chrono::milliseconds lease{30000};            ///< of the lock
  std::chrono::milliseconds request_timeout{15000};  ///< to receive a request; also the idle timeout
  int threads = 2;
  std::string kill_command;  ///< kills the lock's server; shown on the page
  int workers = 0;           ///< processes that the page's buttons control; 0: no buttons
};

/// The text names the wrong option.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Empty after `--help`, which it prints. Throws `usage_error`.
std::optional<options> parse_options(int argc, char const* const* argv);

}  // namespace http_counter
