#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace http_counter {

/// What the command line says.
struct options {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;       ///< 0: any that is free
  std::vector<std::string> hosts;  ///< names under which it is reached, besides its addresses and localhost
  std::string redis = "redis://127.0.0.1:6379";
  std::vector<std::string> lock_servers;  ///< of the lock alone; empty: `redis` has it, too
  std::string name = "counter";
  std::chrono::milliseconds wait{5000};              ///< for the lock, per request
  std::chrono::milliseconds lease{30000};            ///< of the lock
  std::chrono::milliseconds request_timeout{15000};  ///< to send a request, or to stay idle
  int threads = 2;
  std::string kill_command;  ///< shown on the page: how to kill the lock's server
  int workers = 0;           ///< processes that the buttons of the page drive; 0: there are no buttons
};

/// Its text names the option that is wrong.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Empty when `--help` was asked for (and has been printed). Throws `usage_error`.
std::optional<options> parse_options(int argc, char const* const* argv);

}  // namespace http_counter
