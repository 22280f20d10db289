// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/messages.hpp"

#include <conch/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// What the errors of ZooKeeper's servers mean. No I/O, no clock.
namespace conch::zookeeper {

/// What is to be done about an answer that is an error.
enum class remedy : std::uint8_t {
  none,       // the same request would be refused again: only its lock is affected, and the caller gets the error
  later,      // the request was not carried out, or perhaps: ask again after a pause
  reconnect,  // nothing more can be asked on this connection
};

/// One row of the table of errors: for any number that a server may send.
struct refusal {
  status what = status::ok;
  remedy then = remedy::none;
  errc error = errc::server_refused;
  std::string_view words{};  // what the server refuses, and what helps
};
refusal refusal_of(status what) noexcept;

/// "create /conch/a: a quota ... (ZooKeeper's error -125)"
std::string words_of(status what, std::string_view asked);

/// The error for a request that was refused. `asked`: "create /conch/a", say; `server`: its URL. Its caller adds the
/// name of the lock.
error_code to_error(status what, std::string_view asked, std::string_view server);

}  // namespace conch::zookeeper
