// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/address_choice.hpp"
#include "base/back_off.hpp"
#include "base/connection_log.hpp"
#include "base/own_addresses.hpp"
#include "net/outbox.hpp"
#include "protocol/wire.hpp"
#include "servers/postgresql/codec.hpp"

#include <conch/clock.hpp>
#include <conch/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::postgresql {

/// The actions that the interpreter of a connection_fsm must carry out, in this order. The end of each is an input to the machine, unless the
/// connection was closed meanwhile.
struct connection_actions {
  bool log = false;       // log the lines of take_log()
  bool close = false;     // close the connection, and cancel the look-up and the sleep; report none of their ends
  bool sleep = false;     // until `until`, then call due(). It replaces an earlier sleep; time_point::max(): cancel that one only
  bool resolve = false;   // the names of all hosts at once; then call resolved() behind each answer. Also while the connection is up, which goes on
  bool connect = false;   // to address_number(); then call connected() or failed()
  bool query = false;     // query(), which may be several statements; then call queried() with what the last one says
  bool pipeline = false;  // from now on statements go out without waiting for the answers of those before
  bool flush = false;     // call take_statements() at the end of this turn, and send them, each in a transaction of its own
  bool go_on = false;     // call due() in a later turn
  time_point until{};

  bool any() const noexcept { return log || close || sleep || resolve || connect || query || pipeline || flush || go_on; }
  friend bool operator==(connection_actions const&, connection_actions const&) = default;
};

/// A connection to a PostgreSQL server, without libpq. It connects when it is first wanted, and reconnects whenever it is lost. Of several hosts, and
/// of several addresses of a host, each gets its share of an attempt (address_choice), until one is the primary. While the connection is up the names
/// are looked up again and again: if they mean other servers by now, the connection goes there. On a new
/// connection it makes its settings, looks whether the server is one to use, and makes the schema `conch` where there is none. No I/O, no clock.
///
/// Threads: the interpreter gives one input at a time, and calls take() after each. "Locked": with the client locked.
class connection_fsm {
 public:
  /// When take_statements() is to be called.
  using flush_due = net::flush_due;
  struct server {
    int version = 0;  // 150018
    std::int64_t process = 0;
    bool over_tcp = false;
    bool by_name = false;  // its address was looked up
  };
  /// What is known of the hosts' addresses by now.
  struct found {
    std::vector<std::string> addresses;  // of all hosts, in the order of the URL
    bool is_all = true;                  // no look-up is under way any more
    std::string why_not{};               // the words of one that has failed
  };

  /// `settings` and `client_id` outlive this. `shown`: the server's name in messages. `seed`: for the pauses between attempts. `warning`: is logged
  /// once, before the first attempt; empty: there is none.
  connection_fsm(config const& settings, std::string const& client_id, std::string shown, std::uint64_t seed, std::string warning = {});
  connection_fsm(connection_fsm const&) = delete;
  connection_fsm& operator=(connection_fsm const&) = delete;

  /// The receiver of the connection's events. To be called once, before anything else.
  void report_to(protocol::wire_events& e) noexcept { events_ = &e; }

  // ---- from the protocol: locked, from any thread
  flush_due send(protocol::command const& c);
  /// True: the caller must call due() in a later turn.
  [[nodiscard]] bool want_connection() noexcept;
  [[nodiscard]] bool drop_connection(std::string_view why);
  std::string unfinished_attempt() const;

  // ---- from the interpreter: locked
  void resolved(found f, time_point now);
  void connected(server const& s, time_point now);
  /// The attempt to connect, or the connection has failed: what libpq says, with SQLSTATEs (PQERRORS_VERBOSE).
  void failed(std::string_view words, time_point now);
  void queried(reply const& r, time_point now);
  void answered(reply const& r, time_point now);
  void notified(std::string_view payload, time_point now);
  void due(time_point now);

  // ---- from the interpreter: need not be locked
  std::vector<statement> take_statements();
  /// Closes the connection for good.
  void shut_down() noexcept;

  connection_actions take() noexcept { return std::exchange(actions_, {}); }
  std::vector<log_line> take_log() noexcept { return std::exchange(log_, {}); }
  std::string const& query() const noexcept { return query_; }
  /// resolved() takes new addresses, and address_number() will be a place among them.
  bool takes_addresses() const noexcept { return state_ == state::resolving; }
  std::size_t address_number() const noexcept { return choice_.number(); }
  /// Answers and notifications are to be reported. False: the connection is about to be dropped.
  bool is_up() const noexcept { return state_ == state::up && !dropping_; }

 private:
  enum class state : std::uint8_t { idle, resolving, connecting, settling, greeting, installing, up, pausing, closed };

  void connect(time_point now);
  void begin(time_point now);
  void connect_next();
  void move_on(protocol::fault what, std::string_view why, time_point now);
  void too_late(time_point now);
  void ask(state next, std::string query);
  void settled(reply const& r, time_point now);
  void greeted(reply const& r, time_point now);
  void install();
  void refuse(reply const& r, time_point now);
  void sleep(time_point until) noexcept;
  void lost(protocol::fault what, std::string_view why, time_point now);
  void log(log_line line);
  void log(log_level level, std::string words);
  std::string settings_query() const;

  config const& settings_;
  sender const who_;
  std::string const shown_;
  std::string warning_;
  protocol::wire_events* events_ = nullptr;

  state state_ = state::idle;
  connection_actions actions_;
  std::vector<log_line> log_;
  std::string query_;
  found found_;
  address_choice choice_;
  own_addresses own_;
  time_point attempt_until_{};                 // no later
  time_point until_{};                         // of the present step of the attempt, or of the pause
  time_point look_up_at_ = time_point::max();  // the names, while the connection is up
  back_off back_off_;

  server server_;
  bool installed_ = false;  // on this connection
  time_point asked_at_{}, up_since_{};
  std::vector<std::int64_t> numbers_;
  std::string name_;
  bool told_of_foreign_pushes_ = false;  // the log has a line about them for this connection

  // Locked.
  bool wanted_ = false;
  bool dropping_ = false;
  std::string why_dropped_;
  std::int64_t unanswered_ = 0;                // commands of this connection
  duration shortest_lease_ = duration::max();  // of what they ask for

  // The commands that are sent and not yet written.
  net::flush_gate gate_;
  std::vector<statement> outgoing_;
};

}  // namespace conch::postgresql
