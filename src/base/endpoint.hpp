// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/secrets.hpp"

#include <conch/config.hpp>
#include <conch/detail/api.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace conch {

/// Where one server listens.
struct endpoint {
  std::string host{};  // a name or an address, without the brackets of IPv6
  std::uint16_t port = 0;
  std::string path{};  // of a unix socket; then there is no host
  bool over_tls = false;
  tls_config tls{};  // what the URL says of TLS; its `verify` says nothing

  bool is_unix_socket() const noexcept { return !path.empty(); }
};

/// The same, with the user that logs in there.
struct login_endpoint : endpoint {
  std::string user{};
  secret password{};
  secret token{};  // the user, where that looks like a secret itself
};

/// Is this user name long and mixed, as a token is?
bool looks_like_a_token(std::string_view user) noexcept;

/// The settings of TLS for this server: those of the URL, and of the configuration where the URL sets none.
tls_config tls_of(endpoint const& where, tls_config const& configured);

/// Can this be the name or the address of a server? 1 to 255 bytes which can be seen. What a peer names is asked this,
/// too.
bool can_be_host(std::string_view text);

/// A name or an address of this machine alone: nothing between this process and the server can eavesdrop.
CONCH_API bool is_this_machine(std::string const& host);

/// `host:port`, with an IPv6 address in brackets.
std::string host_and_port(std::string const& host, std::uint16_t port);

/// Two spellings of one host are one server. Names are looked up without regard to case, and a final dot only means
/// that a name is fully qualified.
std::string one_spelling(std::string const& host);

}  // namespace conch
