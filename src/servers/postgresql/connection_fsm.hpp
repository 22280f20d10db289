// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "net/lifecycle.hpp"
#include "net/outbox.hpp"
#include "net/role.hpp"
#include "protocol/wire.hpp"
#include "servers/postgresql/codec.hpp"

#include <conch/clock.hpp>
#include <conch/config.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace conch::postgresql {

/// The exchange on a connection to a PostgreSQL server: the greeting, statements, answers and notifications. Its life
/// is that of a net::lifecycle, over all addresses of all hosts, until one is the primary. On a new connection it makes
/// its settings, checks whether the server is one to use, and makes the schema `conch` where there is none. No I/O, no
/// clock.
///
/// The actions of net::steps: `write`: query(), which may be several statements; then call queried() with what the last
/// one returns. `flush`: take_statements(), each in a transaction of its own. `read`: from now on statements go out
/// without waiting for the answers of those before, which are reported.
///
/// Threads: the interpreter gives one input at a time, to this or to life(), and calls life().take() after each.
/// "Locked": with the client locked.
class connection_fsm final : net::role {
 public:
  /// When take_statements() is to be called.
  using flush_due = net::flush_due;
  struct server {
    int version = 0;  // 150018
    std::int64_t process = 0;
    bool over_tcp = false;
    bool by_name = false;  // its address was looked up
  };

  /// `settings` and `client_id` outlive this. `shown`: the server's name in messages. `seed`: for the pauses between
  /// attempts. `warning`: is logged once, before the first attempt; empty: there is none.
  connection_fsm(config const& settings, std::string const& client_id, std::string shown, std::uint64_t seed,
                 std::string warning = {});
  connection_fsm(connection_fsm const&) = delete;
  connection_fsm& operator=(connection_fsm const&) = delete;

  /// The receiver of the connection's events. To be called once, before anything else.
  void report_to(protocol::wire_events& e) noexcept { events_ = &e; }
  net::lifecycle& life() noexcept { return life_; }
  net::lifecycle const& life() const noexcept { return life_; }

  // ---- from the protocol: locked, from any thread
  flush_due send(protocol::command const& c);

  // ---- from the interpreter: locked
  void connected(server const& s, time_point now);
  /// The attempt to connect, or the connection, has failed: libpq's text, with SQLSTATEs (PQERRORS_VERBOSE).
  void failed(std::string_view words, time_point now);
  void queried(reply const& r, time_point now);
  void answered(reply const& r, time_point now);
  void notified(std::string_view payload, time_point now);

  // ---- from the interpreter: need not be locked
  std::vector<statement> take_statements();

  std::string const& query() const noexcept { return query_; }
  /// Answers and notifications are to be reported. False: the connection is about to be dropped.
  bool is_up() const noexcept { return life_.is_up() && !life_.is_dropping(); }

 private:
  enum class question : std::uint8_t { settings, greeting, schema };

  // net::role
  net::location locate(time_point now) override;
  std::string shown() const override { return shown_; }
  void greet(time_point now) override;
  std::string_view step() const override;
  retry ended(end const& e, time_point now) override;

  void ask(question what, std::string query);
  void settled(reply const& r, time_point now);
  void greeted(reply const& r, time_point now);
  void say_hello(time_point now);
  void install();
  void refuse(reply const& r, time_point now);
  std::string settings_query() const;

  config const& settings_;
  sender const who_;
  std::string const shown_;
  std::string warning_;
  protocol::wire_events* events_ = nullptr;
  net::lifecycle life_;

  server server_;
  question asked_ = question::settings;
  std::string query_;
  bool installed_ = false;  // on this connection
  time_point asked_at_{};
  std::vector<std::int64_t> numbers_;
  std::string name_;
  bool logged_foreign_pushes_ = false;  // the log has a line about them for this connection

  // Locked.
  std::int64_t unanswered_ = 0;  // commands of this connection

  // The commands that are sent and not yet written.
  net::flush_gate gate_;
  std::vector<statement> outgoing_;
};

}  // namespace conch::postgresql
