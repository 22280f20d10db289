// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/operator.hpp"
#include "cli/server_connection.hpp"

#include <conch/named_lock.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::cli {

/// A pattern of Redis for keys: it fits those of all locks whose names match `pattern`, and perhaps others.
std::string key_pattern(std::string_view prefix, std::string_view pattern);

/// Does the name match the pattern? As Redis matches: * ? [a-c] [^a] and a backslash before what is meant literally.
bool matches(std::string_view pattern, std::string_view name);

/// The name of the lock whose key this is; empty: it is no such key.
std::string name_in_key(std::string_view prefix, std::string_view key);

/// The names of the locks that one server has and that match one of the patterns (none: all), in order. By SCAN, 1000 keys at a time.
/// Throws failure.
std::vector<std::string> names_of_locks(server_connection& server, std::string const& prefix, std::vector<std::string> const& patterns);

/// What one server has, or the masters of a Cluster: each lock that is held or waited for. The connections are made when they are needed, and
/// again after a failure.
class lock_scanner {
 public:
  lock_scanner(connection const& all, std::string url, std::vector<std::string> patterns);

  /// Throws failure, boost::system::system_error.
  std::vector<std::pair<std::string, lock_status>> look();
  std::string const& url() const noexcept { return url_; }

 private:
  connection const& all_;
  std::string const url_;
  std::vector<std::string> const patterns_;
  std::optional<operator_client> client_;
  std::map<std::string, std::unique_ptr<server_connection>> scanned_;  // by the URL of the server
};

}  // namespace conch::cli
