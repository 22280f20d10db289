// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/readable.hpp"
#include "protocol/wire.hpp"
#include "resp/decoder.hpp"
#include "servers/redis/url.hpp"

#include <conch/clock.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace conch::redis {

/// The exchange on a connection to a server that keeps no locks. No I/O.
class dialogue {
 public:
  enum class progress : std::uint8_t {
    greeting,  // it is not clear yet whether the server is the right one
    good,      // it is
    failed,    // it is not, or has broken the protocol: fault() and why() say more
  };

  /// The bytes that begin a connection.
  virtual std::string begin(address const& where, std::string const& client_name) = 0;
  virtual progress received(std::span<resp::node const> message, bool is_push, time_point now) = 0;
  /// The end of a connection, or of an attempt to make one.
  virtual void ended(protocol::fault what, std::string_view why) = 0;

  protocol::fault fault() const noexcept { return fault_; }
  std::string const& why() const noexcept { return why_; }

 protected:
  ~dialogue() = default;

  /// `why`: words of ours. Those of the server go through readable() first.
  progress fail(protocol::fault what, std::string_view why) {
    fault_ = what;
    why_ = readable_line(why);
    return progress::failed;
  }

 private:
  protocol::fault fault_ = protocol::fault::none;
  std::string why_;
};

/// The owner of the connections on which the servers of a set are asked about it.
class topology_owner {
 public:
  /// A dialogue has reported something to the core: carry out what the core wants now.
  virtual void carry_out() = 0;

 protected:
  ~topology_owner() = default;
};

}  // namespace conch::redis
