// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "cli/line_sink.hpp"
#include "cli/locks.hpp"
#include "cli/options.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json/object.hpp>

#include <sys/types.h>

#include <optional>
#include <string>

namespace conch::cli {

/// What `conch run` reports to a program: one JSON object a line, on standard error (--json) or another descriptor
/// (--events-fd). Each has "event" and "unix_ms".
///
/// It never waits for its reader (line_sink). After the reader has gone nothing more is reported.
class run_events {
 public:
  /// Throws failure if --events-fd names no descriptor that was open when conch started.
  run_events(boost::asio::io_context& context, arguments const& given);

  void waiting();
  void granted(run_locks const& held);
  void child_started(pid_t pid);
  /// `status`: of waitpid.
  void child_ended(int status);
  /// `left`: until the loss.
  void endangered(duration left);
  void safe_again();
  void released(bool confirmed);
  void exits(int code);

  /// `event`: what went wrong: not_granted, not_started, lost or not_released. Also for people, as `say`; where both go
  /// to standard error, one line is for both.
  void trouble(char const* event, std::string const& words, int code);
  /// The same without words for people.
  void quiet_trouble(char const* event, std::string const& words, int code);

  /// Not for CMD: its end would not be the end of the stream. -1: none is in use, or a standard one.
  int own_descriptor() const noexcept { return fd_ > 2 ? fd_ : -1; }

 private:
  void write(char const* event, boost::json::object more);
  void flush_later();

  arguments const& given_;
  int fd_;  // -1: not reported
  std::optional<line_sink> own_;
  line_sink* sink_ = nullptr;
  boost::asio::steady_timer flush_timer_;
  time_point began_;
};

}  // namespace conch::cli
