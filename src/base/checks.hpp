// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/config.hpp>
#include <conch/detail/api.hpp>
#include <conch/error.hpp>

#include <string>
#include <string_view>

// Errors for invalid settings.
namespace conch::detail {

/// Throws boost::system::system_error with this code and reason.
[[noreturn]] CONCH_API void refuse(errc e, std::string_view why);

/// errc::invalid_config.
CONCH_API void require(bool holds, std::string const& why);

/// Why the value is refused; empty: it is not. `explained` follows the largest value, as in " (half of the lease)".
std::string less_than(std::string const& member, duration d, duration least);
std::string not_between(std::string const& member, duration d, duration least, duration most,
                        std::string const& explained = {});

/// The same as errors.
void at_least(std::string const& member, duration d, duration least);
void between(std::string const& member, duration d, duration least, duration most, std::string const& explained = {});
/// 0 switches the member off.
void zero_or_between(std::string const& member, duration d, duration least, duration most,
                     std::string const& explained = {});

/// The duration as text, in the largest unit in which it is a whole number.
std::string whole_duration(duration d);

/// `member`: "tls".
void check_files(std::string const& member, tls_config const& t);

}  // namespace conch::detail
