// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/postgresql/login_guard.hpp"

#include <libpq-fe.h>

#include <cstddef>

// What has come in on a connection of libpq, before and behind libpq's own reading of it.
namespace conch::postgresql {

/// The bytes that wait in the socket.
std::size_t available(int socket) noexcept;

/// How many libpq has read, if there were `before`, and there are `left` now. At most as much as it has taken counts,
/// also if more has come meanwhile.
std::size_t taken(std::size_t before, std::size_t left) noexcept;

/// To be asked before libpq reads on while it connects: it would do whatever a server asks for, and buffer all that it
/// sends.
login_guard::step look_at_login(PGconn* connecting, login_guard& guard);

}  // namespace conch::postgresql
