// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/settings.hpp"

#include <conch/client.hpp>
#include <conch/named_lock.hpp>

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace conch::cli {

/// Are these tokens of one grant? The last twelve bits count hand-offs in a process, which the server does not know.
inline bool same_grant(std::int64_t a, std::int64_t b) { return a >> 12 == b >> 12; }

/// Throws the library's errors about the settings, such as two URLs of a quorum that name one server. Makes no
/// connection.
void require_valid(connection const& servers);

/// Asks one server, and waits for the answers. An operation fails as the library's does: these functions throw
/// boost::system::system_error.
class operator_client {
 public:
  /// `url`: one of connection::servers.
  operator_client(connection const& servers, std::string const& url, log_hook log = nullptr);

  lock_status inspect(std::string const& name);
  /// The same for many, asked together. A lock of which nothing is known is an empty entry.
  std::vector<std::optional<lock_status>> inspect(std::vector<std::string> const& names);
  wait_chain why(std::string const& name);
  /// `fence`: empty: from all holders. Result: from how many it was taken.
  std::uint32_t force_release(std::string const& name, std::optional<std::int64_t> fence);

 private:
  void wait_for(bool const& done);
  /// `ask`: begins the operation, with a handler for its error and result.
  template <class Result, class Ask>
  Result answer_to(Ask const& ask);

  asio::io_context context_{1};
  client client_;
};

}  // namespace conch::cli
