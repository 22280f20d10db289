// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/server_address.hpp"

#include <conch/clock.hpp>

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

namespace conch::cli {

/// Waits for POLLIN or POLLOUT. Throws failure (exit_code::unreachable) when `until` comes first.
void wait_for_socket(int fd, short what, time_point until);

/// TLS on a socket that is connected and does not block. OpenSSL is in tls_layer.cpp only.
class tls_layer {
 public:
  /// Throws failure: wrong_config (a certificate or a file; conch was built without TLS), unreachable.
  tls_layer(int fd, server_address const& where, time_point until);
  ~tls_layer();
  tls_layer(tls_layer const&) = delete;
  tls_layer& operator=(tls_layer const&) = delete;

  /// How many bytes, at least one. Throws failure: unreachable.
  ssize_t write(std::string_view bytes, time_point until);
  ssize_t read(char* to, int room, time_point until);

  /// "TLSv1.3, TLS_AES_256_GCM_SHA384".
  std::string description() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace conch::cli
