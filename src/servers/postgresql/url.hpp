// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <string>
#include <string_view>

namespace conch::postgresql {

/// libpq reads the URL. What it would repeat in an error, or look up as a name, is looked at here: a password without
/// its '@' is a port.
/// Throws boost::system::system_error{errc::invalid_url}.
void check_url(std::string_view url);

/// "host:port" of the first server, and the name of the database: for a simulated world.
std::string server_in(std::string_view url);
std::string database_in(std::string_view url);

/// Without user, password and parameters.
std::string shown(std::string_view url);

}  // namespace conch::postgresql
