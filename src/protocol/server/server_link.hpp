// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server/environment.hpp"
#include "protocol/server/server_clock.hpp"
#include "protocol/server/server_runs.hpp"
#include "protocol/server/stale_connections.hpp"
#include "protocol/wire.hpp"

#include <conch/config.hpp>
#include <conch/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace conch::protocol {

using namespace engine;

struct server_place;

/// What is known of the connection to the server, or why there is none: its session, its run and its clock, and what
/// earlier connections may still bring. All parts query it; only `arrivals` reports to it what has happened.
class server_link {
 public:
  server_link(config const& settings, wire& out, log_sink& log)
      : settings_{settings},
        out_{out},
        log_{log},
        runs_{settings} {}

  // What has happened.
  void begin(session const& s, time_point now);
  void end(std::string_view why, time_point now);
  /// An attempt to connect has failed.
  void failed(fault what, std::string_view words);
  /// This user may not do what the protocol needs.
  void deny(error_code why) { denied_ = std::move(why); }
  /// CLIENT KILL was answered.
  void kill_answered(fault what, std::uint64_t client_id, time_point now);

  // What is to happen.
  void want() { out_.want_connection(); }
  /// Asks the wire to end the connection. The wire reports its end in a later turn.
  void drop(std::string_view why);
  /// Ends the connection, if there is one.
  void leave(std::string_view why);
  /// Logs words that may repeat with every request: only the first time in a row.
  void note_once(std::string_view words);

  bool connected() const noexcept { return connected_; }
  /// The wire was told to end the connection, and has not reported the end.
  bool dropping() const noexcept { return dropping_; }
  /// Set: this user may not do what the protocol needs.
  error_code const& denied() const noexcept { return denied_; }
  /// Why there is no connection.
  std::string const& trouble() const noexcept { return trouble_; }
  /// The last line of note_once on this connection.
  std::string const& noted() const noexcept { return noted_; }
  /// That of the present or last connection.
  session const& of_session() const noexcept { return session_; }
  /// Counts the connections; without one it is the number of the next.
  std::uint32_t number() const noexcept { return number_; }
  time_point up_since() const noexcept { return up_since_; }
  /// When the last connection ended.
  time_point lost_at() const noexcept { return lost_at_; }
  /// Why the last connection, or attempt to make one, has ended; before that, how far the first attempt is.
  std::string why_not_connected() const;
  /// The error of what got no answer in time.
  error_code no_answer() const;

  // What may still reach the server.
  /// The not-after of what is written now, by the server's clock; 0: none, because earlier connections can be ended.
  std::int64_t not_after(time_point now) const;
  /// May a request of an earlier connection still reach the server, where a clean-up can do nothing about it yet?
  bool may_arrive_late() const;
  /// Notes that something about the place is written on the present connection.
  void note_sent(server_place& p) const;
  /// Nothing about the place is written on the present connection yet.
  void note_unsent(server_place& p) const noexcept;
  /// The place has a new id, under which nothing was written yet.
  void begin(server_place& p) const noexcept;
  /// What is written with that not-after may reach the server until then.
  void written(server_place& p, std::int64_t not_after_us) const;
  /// After this time the server refuses every request for the place that an earlier connection may still hold.
  time_point old_connection_until(server_place const& p) const;

  server_clock& clock() noexcept { return clock_; }
  server_clock const& clock() const noexcept { return clock_; }
  server_runs& runs() noexcept { return runs_; }
  server_runs const& runs() const noexcept { return runs_; }
  stale_connections const& earlier() const noexcept { return earlier_; }

 private:
  config const& settings_;
  wire& out_;
  log_sink& log_;
  bool connected_ = false;
  bool dropping_ = false;
  bool logged_no_kill_ = false;  // logged once: many users lack that right on purpose
  std::string trouble_;
  std::string noted_;
  error_code denied_;
  session session_;
  std::uint32_t number_ = 1;
  time_point up_since_{};
  time_point lost_at_{};
  server_clock clock_;
  server_runs runs_;
  stale_connections earlier_;
};

}  // namespace conch::protocol
