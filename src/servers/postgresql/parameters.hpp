// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/secrets.hpp"

#include <conch/config.hpp>

#include <libpq-fe.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The parameters of a URL, as libpq reads them, and what the environment adds.
namespace conch::postgresql {

using parameters = std::vector<std::pair<std::string, std::string>>;

/// Throws errc::invalid_url for what libpq does not understand. `secrets`: gets the passwords.
parameters parameters_of(std::string const& url, config const& settings, std::vector<secret>& secrets);

/// Empty: it is not set.
std::string const& value_of(parameters const& all, std::string_view key);

/// A host, as the URL names it: a name, an address, or both; or the folder of a unix socket.
struct named_place {
  std::string name, address, port;

  bool is_path() const { return name.empty() || name.starts_with('/') || name.starts_with('@'); }
  /// Its address is not known.
  bool must_be_looked_up() const { return !is_path() && address.empty(); }
  /// Nothing between this process and the server can eavesdrop.
  bool is_on_this_machine() const;
};
/// Throws errc::invalid_url for lists of unequal length.
std::vector<named_place> places_of(parameters const& all);

/// To that one of the hosts, with everything else as the URL says. PQfinish() ends it. Null: there is no memory.
PGconn* begin_connection(parameters const& all, named_place const& to);

/// The servers and the database, without user and password. With several hosts each has its port, as in the URL.
std::string shown_of(parameters const& all);

/// The warning for a URL whose connection others may read. If encryption is not set, libpq asks the
/// server, and believes a "no", or a request for the password in clear. Empty: nothing.
std::string warning_of(parameters const& all);

}  // namespace conch::postgresql
