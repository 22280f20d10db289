// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/named_lock.hpp>

#include <boost/json/object.hpp>

#include <string>

// Statuses of locks, for people and as JSON.
namespace conch::cli {

/// "billing@pod-7:4711 (order 17)", as wait_chain::text names a holder.
std::string name_of(lock_holder const& h);

/// "stock: mutex, held, 3 waiting", and a line for each holder and for the first waiters. `now`: of this machine; how
/// long ago a grant was needs clocks that agree.
std::string as_text(std::string const& name, lock_status const& s, std::chrono::system_clock::time_point now);

/// Names are printable (base/readable.hpp), as in text. Fences are strings: most readers of JSON keep 53 bits of a
/// number.
boost::json::object as_json(std::string const& name, lock_status const& s);

/// "waits", "deadlock" and so on, and for each lock of the chain its holder.
boost::json::object as_json(std::string const& name, wait_chain const& c);

/// As JSON on a line.
std::string one_line(boost::json::object const& o);

/// The server's clock: "2026-11-24 10:00:00 UTC".
std::string in_utc(std::chrono::system_clock::time_point t);

}  // namespace conch::cli
