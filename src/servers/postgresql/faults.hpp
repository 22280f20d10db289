// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <string>
#include <string_view>

namespace conch::postgresql {

/// The fault that an error of the server means, by its SQLSTATE. Empty, or of another length: the error is not the
/// server's.
/// `words`: PgBouncer and others in between give one state to many errors.
protocol::fault classify(std::string_view sqlstate, std::string_view words = {}) noexcept;

/// The SQLSTATE with which sql/0_owners.sql ends the schema script.
inline constexpr std::string_view says_wrong_owner = "CN003";

/// lock_timeout: another session has held the row of a lock for long.
inline constexpr std::string_view says_locked = "55P03";

/// The schema `conch`, or something in it, is missing.
bool says_no_schema(std::string_view sqlstate) noexcept;

/// libpq's text about a connection that could not be made, "FATAL:  28P01: password ..." and more lines. The last error
/// of a server counts: with several hosts there is one from each. If no server has answered there is a line for each
/// address, in the order in which libpq tried them: `localhost` may be two. Then these lines are the words, without
/// libpq's hints, and as many of the last ones as a line of a log has room for.
struct refusal {
  std::string sqlstate;  // empty: no server has answered
  std::string words;
};
refusal read_refusal(std::string_view verbose);

}  // namespace conch::postgresql
