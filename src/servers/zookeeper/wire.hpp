// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/connection_log.hpp"
#include "base/fault.hpp"
#include "servers/zookeeper/messages.hpp"

#include <conch/clock.hpp>

#include <string>
#include <string_view>

// The port between the session, which knows the protocol, and whoever has the connections.
namespace conch::zookeeper {

/// One connection at a time, to one server of an ensemble. All functions are called with the engine locked, and call nothing back.
class wire {
 public:
  /// Makes a connection to one of the servers: to the next one of the attempt that is under way, or else another attempt begins. Ends in connected or
  /// disconnected. `lease`: a hold is to outlive an attempt at all of them. Returns when this server counts as silent, unless `trying` says
  /// otherwise.
  virtual time_point connect(duration lease, time_point now) = 0;
  /// The attempt that is under way has a server that was not tried yet.
  virtual bool has_another() const = 0;
  /// What is tried has not answered in time. Another address of the same server is tried, until the time that is returned; or min(): there is none.
  virtual time_point silent(time_point now) = 0;
  /// The server is of use: it comes first next time.
  virtual void in_use(time_point now) = 0;
  /// The first message on a connection.
  virtual void greet(connect_request const& c) = 0;
  /// The messages go out in the order of the calls. Those of one turn go out together.
  virtual void send(request const& r) = 0;
  /// Ends the connection, or the attempt to make one. No event of it comes any more. `is_silent`: because the server does not answer.
  virtual void drop(std::string_view why, bool is_silent, time_point now) = 0;
  /// The server of the connection, or of the attempt, in words.
  virtual std::string shown() const = 0;
  /// The name of that server is being looked up: no server has been asked yet.
  virtual bool looks_up() const { return false; }
  /// A line for the log hook.
  virtual void log(log_line line) = 0;

 protected:
  ~wire() = default;
};

/// The events of the connection, each with the engine locked.
class wire_events {
 public:
  /// Another address of the server is tried. It counts as silent then.
  virtual void trying(time_point until) = 0;
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
