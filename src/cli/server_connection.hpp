// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/secrets.hpp"
#include "cli/resp.hpp"
#include "cli/server_address.hpp"
#include "cli/settings.hpp"

#include <conch/clock.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace conch::cli {

/// A connection for questions that the library does not ask. It blocks; each wait ends after `timeout`. TLS as the library's: chain and name
/// are verified.
class server_connection {
 public:
  /// Connects, authenticates and selects the database. `url`: one of connection::servers; with Sentinels, to the master that they name.
  /// Throws failure: unreachable, access_denied, wrong_config (the certificate, a file for TLS, or an unknown master).
  server_connection(connection const& all, std::string const& url, duration timeout = std::chrono::seconds{3});
  /// To exactly this server. An empty password: none.
  server_connection(server_address where, credentials const& login, duration timeout);
  ~server_connection();
  server_connection(server_connection const&) = delete;
  server_connection& operator=(server_connection const&) = delete;

  /// Throws failure if the connection ends, or no answer comes in time. An error of the server is a reply.
  reply command(std::vector<std::string> const& words);
  /// The same, and an error of the server is a failure: access_denied (a right is missing) or refused.
  reply answer_to(std::vector<std::string> const& words);
  /// The next message that no command asked for.
  reply next();

  /// "TLSv1.3, TLS_AES_256_GCM_SHA384"; empty: no TLS.
  std::string tls() const;
  server_address const& address() const noexcept { return address_; }

 private:
  class stream;

  void log_in(credentials const& login);

  server_address const address_;
  secret sent_{};
  std::unique_ptr<stream> stream_;
  reply_reader reader_;
  std::string secret_;
};

/// The text with *** in place of each occurrence of the secret.
std::string without_secret(std::string text, std::string_view secret);

}  // namespace conch::cli
