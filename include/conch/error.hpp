// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>

#include <boost/system/error_code.hpp>
#include <boost/system/error_condition.hpp>
#include <string_view>

namespace conch {

using boost::system::error_code;

/// What can go wrong. Compare with `ec == conch::errc::timed_out`.
///
/// The error_code may also carry a text, which `ec.message()` and `system_error::what()` then show: what was asked, for
/// which lock, at which server, and what it answered. The text changes nothing else: value() is that of the errc, and
/// the code is equal to the one without it. It stands in a table of the process, which keeps the last 4096 different
/// texts: show or copy message() when you handle the error, since a code that is kept for long may lose its text and
/// then shows only the errc. A cancellation is reported as `boost::asio::error::operation_aborted`, as everywhere in
/// Asio.
enum class errc {
  timed_out = 1,   ///< the lock was not granted within `.wait`
  lost,            ///< the hold ended before it was released
  not_held,        ///< this object holds nothing (empty, moved from, or released before)
  closed,          ///< the client is closed
  unreachable,     ///< no answer from the server; what the operation began is cleaned up once the server is back
  access_denied,   ///< wrong user or password, or a command that this user may not run
  wrong_type,      ///< a key of the lock holds something that is not a lock
  server_refused,  ///< the server answered with an error that a repetition would not fix
  protocol,        ///< the server does not speak its protocol, or an older version of it
  invalid_name,    ///< a lock's name must have 1 to 512 bytes
  invalid_config,  ///< a member of conch::config or of the options is out of range
  invalid_url,     ///< the URL could not be understood
  not_supported,   ///< this kind of server does not offer that
  would_deadlock,  ///< a reader asked to become a writer; or a blocking call would wait for its own thread
  tls_failed,      ///< TLS to the server failed: a certificate is not accepted, or a file of config::tls cannot be used
  not_replicated,  ///< fewer replicas than config::sync_replicas have acknowledged the grant; it was given back
};

/// Groups of errors, for code that only needs to know what to do next.
enum class condition {
  not_mine = 1,     ///< lost, not_held: another client may own the lock
  unreachable,      ///< unreachable, closed
  invalid_request,  ///< invalid_name, invalid_config, invalid_url, not_supported, would_deadlock: fix the call
};

CONCH_API boost::system::error_category const& error_category() noexcept;  ///< That of errc; its name is "conch".

CONCH_API error_code make_error_code(errc e) noexcept;  ///< An error_code without a text.

/// The same error, followed by the server's own text. A process-wide table keeps the last 4096 different
/// texts; a code whose text has left it shows only `e` itself.
CONCH_API error_code make_error_code(errc e, std::string_view words);

CONCH_API boost::system::error_condition make_error_condition(errc e) noexcept;  ///< For `ec == errc::lost`.
/// For `ec == condition::unreachable`.
CONCH_API boost::system::error_condition make_error_condition(condition c) noexcept;

}  // namespace conch

namespace boost::system {
template <>
struct is_error_condition_enum<conch::errc> : std::true_type {};
template <>
struct is_error_condition_enum<conch::condition> : std::true_type {};
}  // namespace boost::system
