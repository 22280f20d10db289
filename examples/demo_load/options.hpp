#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace demo_load {

/// The parts of `http://HOST:PORT`.
struct server_address {
  std::string host;
  std::string port;
};

struct options {
  std::vector<server_address> servers;
  int requests = 2000;
  int connections = 100;
  bool locked = true;
  bool reset = false;
  std::chrono::seconds limit{120};  ///< for the whole run
};

/// The text names the wrong option.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Empty after `--help`, which it prints. Throws `usage_error`.
std::optional<options> parse_options(int argc, char const* const* argv);

}  // namespace demo_load
