// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/config.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Where the server is and how one gets in: from the command line, the environment and a file, in this order of
// importance.
namespace conch::cli {

/// As given on the command line. Empty: not given.
struct connection_options {
  std::string url;
  std::string config_file;
  std::string user;
  std::string password_file;
  std::string key_prefix;
  std::string label;
  std::optional<std::uint32_t> sync_replicas = std::nullopt;
  std::optional<duration> sync_timeout = std::nullopt;
  std::optional<duration> lock_delay = std::nullopt;
};

/// All that the commands need to know of the servers.
struct connection {
  // url, credentials_provider, key_prefix, tls, sync_replicas, lock_delay, label are set; a URL may contain the login
  config settings;
  std::vector<std::string> servers;  // the URL of each server
  bool quorum = false;               // the lock is kept by all of them, and a majority decides

  /// The settings for one of `servers`.
  config at(std::string const& url) const;
};

/// Reads the environment (CONCH_URL, CONCH_USER, CONCH_PASSWORD) and the configuration file: that of the options, which
/// must exist, else $XDG_CONFIG_HOME/conch.toml or ~/.config/conch.toml if it is there.
/// Throws failure: usage (a password in `--url`, which everybody on the machine can read), wrong_config (the file
/// cannot be read, others can read it, it has an unknown key, a variable that is needed is set and empty, or a value
/// makes no sense).
connection read_connection(connection_options const& given);

/// A regular file that others than its owner may read is refused, and so is one that belongs to another user than the
/// user or root.
/// `what`: for the error. Throws failure.
std::string read_private_file(std::string const& path, std::string const& what);

}  // namespace conch::cli
