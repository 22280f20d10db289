// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/detail/api.hpp>
#include <conch/error.hpp>

#include <iosfwd>
#include <string>
#include <version>

#ifdef __cpp_lib_format
#include <format>
#endif

namespace conch {

enum class lock_kind : char;
struct lock_holder;
struct lock_status;
class hold;
class reentrant_hold;
class multi_hold;

// For logs: one line each, without an end of line. The words may change between versions; the names and numbers of errc
// do not. <conch/conch.hpp> does not include it. Thread safety: as the const functions of what is printed.

/// The name: "timed_out". An error_code prints as "conch:1", and its message() are the words for people.
CONCH_API std::string to_string(errc e);
/// "shared_mutex".
CONCH_API std::string to_string(lock_kind kind);
/// "mutex, 1 of 1 held, 3 waiting: client 0123… since 2026-11-23 10:00:00 UTC, fence 12, 29.5 s left".
CONCH_API std::string to_string(lock_status const& s);
CONCH_API std::string to_string(lock_holder const& h);  ///< The same for a holder.
/// "held, fence 12, 29.5 s left", "not held any more, fence 12" (lost or released), "empty".
CONCH_API std::string to_string(hold const& h);
CONCH_API std::string to_string(reentrant_hold const& h);  ///< The same.
CONCH_API std::string to_string(multi_hold const& h);      ///< The same.

CONCH_API std::ostream& operator<<(std::ostream& to, errc e);                   ///< The name of the enumerator.
CONCH_API std::ostream& operator<<(std::ostream& to, lock_kind kind);           ///< As to_string() says.
CONCH_API std::ostream& operator<<(std::ostream& to, lock_status const& s);     ///< As to_string() says.
CONCH_API std::ostream& operator<<(std::ostream& to, lock_holder const& h);     ///< As to_string() says.
CONCH_API std::ostream& operator<<(std::ostream& to, hold const& h);            ///< As to_string() says.
CONCH_API std::ostream& operator<<(std::ostream& to, reentrant_hold const& h);  ///< As to_string() says.
CONCH_API std::ostream& operator<<(std::ostream& to, multi_hold const& h);      ///< As to_string() says.

#ifdef __cpp_lib_format
namespace detail {
template <class T>
struct formats_as_text : std::formatter<std::string> {
  template <class Context>
  auto format(T const& what, Context& context) const {
    return std::formatter<std::string>::format(to_string(what), context);
  }
};
}  // namespace detail
#endif

}  // namespace conch

#ifdef __cpp_lib_format
template <>
struct std::formatter<conch::errc> : conch::detail::formats_as_text<conch::errc> {};
template <>
struct std::formatter<conch::lock_kind> : conch::detail::formats_as_text<conch::lock_kind> {};
template <>
struct std::formatter<conch::lock_status> : conch::detail::formats_as_text<conch::lock_status> {};
template <>
struct std::formatter<conch::lock_holder> : conch::detail::formats_as_text<conch::lock_holder> {};
template <>
struct std::formatter<conch::hold> : conch::detail::formats_as_text<conch::hold> {};
template <>
struct std::formatter<conch::reentrant_hold> : conch::detail::formats_as_text<conch::reentrant_hold> {};
template <>
struct std::formatter<conch::multi_hold> : conch::detail::formats_as_text<conch::multi_hold> {};
#endif
