// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/connection_log.hpp"
#include "zookeeper/messages.hpp"

#include <conch/clock.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// The port between the session, which knows the protocol, and whoever has the connections.
namespace conch::zookeeper {

/// Why a connection could not be made, or has ended.
enum class fault : std::uint8_t {
  later,       // it may get better by itself
  tls_failed,  // it does not: a certificate, a version, no TLS at all
  malformed,   // the server said something that is not of the protocol
};

/// One connection at a time, to one server of an ensemble. All functions are called with the engine locked, and call nothing back.
class wire {
 public:
  /// Makes a connection to the next server of the list. Ends in connected or disconnected.
  virtual void connect() = 0;
  /// The first message on a connection.
  virtual void greet(connect_request const& c) = 0;
  /// The messages go out in the order of the calls. Those of one turn go out together.
  virtual void send(request const& r) = 0;
  /// Ends the connection, or the attempt to make one. No event of it comes any more.
  virtual void drop(std::string_view why) = 0;
  /// The server of the connection, or of the attempt, in words.
  virtual std::string shown() const = 0;
  /// A line for the log hook.
  virtual void log(log_line line) = 0;

 protected:
  ~wire() = default;
};

/// The events of the connection, each with the engine locked.
class wire_events {
 public:
  virtual void connected(time_point now) = 0;
  virtual void greeted(connect_response const& c, time_point now) = 0;
  /// The answer to the oldest request that is not answered, `ping` apart: those are answered by answered_ping, in their own order.
  virtual void answered(reply const& r, time_point now) = 0;
  virtual void answered_ping(std::int64_t zxid, time_point now) = 0;
  virtual void noticed(notice const& n, time_point now) = 0;
  virtual void disconnected(fault what, std::string_view why, time_point now) = 0;

 protected:
  ~wire_events() = default;
};

}  // namespace conch::zookeeper
