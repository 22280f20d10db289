// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/operator.hpp"
#include "servers/probe.hpp"

#include <conch/named_lock.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace conch::cli {

/// The locks that are held or waited for, at one of connection::servers. The connections are made when they are needed,
/// and again after a failure.
class lock_scanner {
 public:
  lock_scanner(connection const& all, std::string url, std::vector<std::string> patterns);

  /// Throws boost::system::system_error.
  std::vector<std::pair<std::string, lock_status>> look();
  std::string const& url() const noexcept { return url_; }

 private:
  void inspect(std::vector<servers::seen_lock>& some);

  connection const& all_;
  std::string const url_;
  std::vector<std::string> const patterns_;
  std::optional<operator_client> client_;
  std::unique_ptr<servers::probe> probe_;
};

}  // namespace conch::cli
