// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/connection_log.hpp"
#include "base/fault.hpp"
#include "servers/zookeeper/messages.hpp"

#include <conch/clock.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// The port between the session, which knows the protocol, and the owner of the connections.
namespace conch::zookeeper {

/// Why the session ends a connection.
enum class ending : std::uint8_t {
  of_no_use,  // another server may do better
  silent,     // it does not answer
  refused,    // no server will do better
  over,       // the session has ended: another one begins, without a pause
};

/// One connection at a time, to one server of an ensemble after another: the life of each is that of a net::lifecycle.
/// All functions are called with the engine locked, and call nothing back.
class wire {
 public:
  /// Makes a connection, and keeps one from then on. Each attempt ends in connected or disconnected, and another one
  /// follows: at once if there is a server that was not tried yet. `lease`: a hold is to outlive an attempt at all of
  /// them.
  virtual void want(duration lease, time_point now) = 0;
  /// The session is open: the server is usable, and comes first next time.
  virtual void in_use(duration lease, time_point now) = 0;
  /// The first message on a connection.
  virtual void greet(connect_request const& c) = 0;
  /// The messages go out in the order of the calls. Those of one turn go out together.
  virtual void send(request const& r) = 0;
  /// Ends the connection. No event of it comes any more.
  virtual void drop(std::string_view why, ending how, time_point now) = 0;
  /// What the attempt that is under way waits for. Empty: there is none.
  virtual std::string unfinished_attempt() const = 0;
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
  /// The answer to the oldest request that is not answered, `ping` apart: those are answered by answered_ping, in their
  /// own order.
  virtual void answered(reply const& r, time_point now) = 0;
  virtual void answered_ping(std::int64_t zxid, time_point now) = 0;
  virtual void noticed(notice const& n, time_point now) = 0;
  /// Or none could be made.
  virtual void disconnected(fault what, std::string_view why, time_point now) = 0;

 protected:
  ~wire_events() = default;
};

}  // namespace conch::zookeeper
