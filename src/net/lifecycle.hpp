// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/address_choice.hpp"
#include "base/back_off.hpp"
#include "base/connection_log.hpp"
#include "base/own_addresses.hpp"
#include "base/states.hpp"
#include "net/role.hpp"

#include <conch/clock.hpp>
#include <conch/config.hpp>
#include <conch/detail/api.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::net {

/// What the driver of a connection must carry out, in this order. The end of each is an input, unless the stream was
/// closed meanwhile.
struct steps {
  bool log = false;    // log the lines of take_log()
  bool close = false;  // close the stream, and cancel the name look-up and the sleep; report none of their ends
  // until `until`, then call due(). It replaces an earlier sleep; time_point::max(): cancel that one only
  bool sleep = false;
  bool ask = false;        // the provider for credentials
  bool resolve = false;    // the name; then call resolved(). Also while the connection is up, which stays up
  bool connect = false;    // a new stream to address_number(); then call connected() or failed()
  bool handshake = false;  // of the stream (TLS); then call handshaken() or failed()
  // what is to be sent goes out at the end of this turn, after the user's handlers that belong to it
  bool flush = false;
  bool write = false;
  bool read = false;
  bool call_due_later = false;  // call due() in a later turn
  time_point until{};

  bool any() const noexcept {
    return log || close || sleep || ask || resolve || connect || handshake || flush || write || read || call_due_later;
  }
  friend bool operator==(steps const&, steps const&) = default;
};

enum class connection_state : std::uint8_t {
  idle,
  locating,
  asking,
  resolving,
  connecting,
  handshaking,
  greeting,
  up,
  pausing,
  closed
};

/// The life of the connections to one server, one after another: wanted, located, looked up, connected, greeted, up,
/// lost, and made again after a pause. States, limits, pauses, texts of errors and log lines are here, for every
/// protocol; what is sent on a connection is up to its role.
///
/// It connects when it is first wanted, and reconnects whenever the connection is lost. Each of several addresses gets
/// its share of an attempt (address_choice). While the connection is up the name is looked up again and again: if it
/// means another server by now, the connection goes there. No I/O, no clock. All functions are called with the client
/// locked, but for shut_down(), take_log() and what only answers.
class lifecycle {
 public:
  struct traits {
    bool handshakes = false;  // TLS is a separate step
    bool asks = false;        // a provider for credentials, before each attempt
    std::string path{};       // of a unix socket: there is no name to look up
  };
  /// What is known of the server's addresses by now: "10.0.0.1:6379".
  struct found {
    std::vector<std::string> addresses;  // their numbers are the places in this list
    bool is_all = true;                  // no look-up is under way any more
    std::string why_not{};               // the words of one that has failed
  };
  struct counts {
    std::uint64_t handshakes = 0, handshakes_failed = 0;
  };

  /// `settings` and `what` outlive this. `seed`: for the pauses between attempts.
  CONCH_API lifecycle(config const& settings, role& what, std::uint64_t seed, traits t);
  lifecycle(lifecycle const&) = delete;
  lifecycle& operator=(lifecycle const&) = delete;

  // ---- from the protocol, on any thread. True: the caller must call due() in a later turn.
  [[nodiscard]] bool want() noexcept { return !std::exchange(wanted_, true); }
  [[nodiscard]] CONCH_API bool drop(std::string_view why);
  /// The role locates the server elsewhere now.
  [[nodiscard]] bool moved() noexcept { return !std::exchange(moved_, true); }
  /// What the attempt that is under way waits for. Empty: there is none.
  CONCH_API std::string unfinished_attempt() const;
  /// A hold with this lease is to outlive an outage: pauses are shorter than that. Until the next connection.
  void note_lease(duration lease) noexcept { shortest_lease_ = std::min(shortest_lease_, lease); }

  // ---- from the driver and the role
  CONCH_API void due(time_point now);
  /// The provider has given the credentials for this attempt.
  void logged_in(time_point now);
  CONCH_API void resolved(found f, time_point now);
  CONCH_API void connected(time_point now);
  void handshaken(time_point now);
  /// Something has come in on the stream.
  void received() noexcept {
    if (!std::exchange(has_heard_, true) && traits_.handshakes) ++counted_.handshakes;
  }
  /// The greeting is answered: it is the right server. `run`: names its run; empty: it is not known. `by_name`: its
  /// address was looked up.
  CONCH_API void up(std::string_view run, bool by_name, time_point now);
  /// The step that is under way has failed, or the connection has. `why`: our own text; that of others goes through
  /// readable() first. Another address may be tried.
  CONCH_API void failed(fault what, std::string_view why, time_point now);
  /// Ends the connection, or the attempt, whatever other addresses there are.
  void end(fault what, std::string_view why, time_point now, bool is_silent = false);
  /// The next attempt is made without a pause.
  void begin_anew() noexcept { back_off_.begin_anew(); }
  /// The greeting makes progress, and may take all the time of the attempt.
  CONCH_API void take_time();
  /// Until the role or the name is due, while the connection is up.
  void sleep_while_up() noexcept;
  /// Closes the connection for good, once the role has written its last.
  CONCH_API void shut_down();

  CONCH_API void log(log_level level, std::string words);
  std::vector<log_line> take_log() noexcept { return std::exchange(log_, {}); }
  steps take() noexcept { return std::exchange(todo, {}); }

  connection_state state() const noexcept { return state_; }
  bool is_up() const noexcept { return state_ == connection_state::up; }
  /// It is about to be dropped: nothing is reported any more.
  bool is_dropping() const noexcept { return dropping_; }
  bool has_heard() const noexcept { return has_heard_; }
  std::size_t address_number() const noexcept { return choice_->number(); }
  std::string const& address() const noexcept { return choice_->address(); }
  counts const& counted() const noexcept { return counted_; }

  /// What is to be done. The role adds to it.
  steps todo;

 private:
  void enter(connection_state to) noexcept;
  void connect(time_point now);
  void locate(time_point now);
  void look_up(time_point now);
  void begin(std::vector<std::string> addresses, time_point now);
  void connect_next();
  void greet(time_point now);
  void too_late(time_point now);
  void move_on(fault what, time_point now, bool is_silent = false);
  bool follow(time_point now);
  void go_elsewhere(std::string_view why, time_point now);
  bool has_address() const noexcept {
    return state_ == connection_state::connecting || state_ == connection_state::handshaking ||
           state_ == connection_state::greeting;
  }
  void lost(fault what, std::string_view why, time_point now, bool is_silent = false);
  void close() noexcept;
  void count_failed_handshake(fault what) noexcept;
  void sleep(time_point until) noexcept;

  config const& settings_;
  role& role_;
  traits const traits_;
  connection_state state_ = connection_state::idle;  // see enter()
  std::vector<log_line> log_;
  counts counted_;
  back_off back_off_;

  // An attempt.
  address_choice own_choice_;
  address_choice* choice_ = &own_choice_;  // of addresses of the present server
  duration lease_{};
  found found_;
  std::string not_located_;  // why it has to wait for the location
  time_point attempt_from_{}, attempt_until_{};
  time_point until_{};      // of its present step, or of the pause
  bool has_heard_ = false;  // the peer of this stream has sent something
  bool was_up_ = false;     // some connection before this one was

  // A connection that is up.
  own_addresses own_;
  time_point look_up_at_ = time_point::max();
  time_point up_since_{};
  duration shortest_lease_ = duration::max();

  // From any thread.
  bool wanted_ = false, dropping_ = false, moved_ = false;
  std::string why_dropped_;
};

/// docs/design/states.md lists what each waits for. Every state may also end in `closed`.
constexpr state_table<connection_state, 10> connection_states{{
    {connection_state::idle, any_of(connection_state::locating)},
    {connection_state::locating,
     any_of(connection_state::locating, connection_state::asking, connection_state::resolving, connection_state::idle,
            connection_state::pausing)},
    {connection_state::asking, any_of(connection_state::resolving, connection_state::pausing)},
    {connection_state::resolving, any_of(connection_state::connecting, connection_state::pausing)},
    {connection_state::connecting, any_of(connection_state::connecting, connection_state::handshaking,
                                          connection_state::greeting, connection_state::pausing)},
    {connection_state::handshaking,
     any_of(connection_state::connecting, connection_state::greeting, connection_state::pausing)},
    {connection_state::greeting, any_of(connection_state::connecting, connection_state::up, connection_state::pausing)},
    {connection_state::up, any_of(connection_state::pausing)},
    {connection_state::pausing, any_of(connection_state::locating)},
    {connection_state::closed, 0},
}};

}  // namespace conch::net
