// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/address_choice.hpp"
#include "base/back_off.hpp"
#include "base/connection_log.hpp"
#include "base/own_addresses.hpp"
#include "net/outbox.hpp"
#include "protocol/wire.hpp"
#include "resp/decoder.hpp"
#include "servers/redis/cluster_node.hpp"
#include "servers/redis/codec.hpp"
#include "servers/redis/dialogue.hpp"
#include "servers/redis/greeting.hpp"
#include "servers/redis/locator.hpp"
#include "servers/redis/reauthentication.hpp"
#include "servers/redis/shared_scripts.hpp"
#include "servers/redis/slot_subscriptions.hpp"
#include "servers/redis/url.hpp"

#include <conch/clock.hpp>
#include <conch/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::redis {

/// The actions that the interpreter of a connection_fsm must carry out, in this order. The end of each is an input to the machine,
/// unless the stream was closed meanwhile.
struct connection_actions {
  bool log = false;        // log the lines of take_log()
  bool close = false;      // close the stream, and cancel the name look-up and the sleep; report none of their ends
  bool sleep = false;      // until `until`, then call due(). It replaces an earlier sleep; time_point::max(): cancel that one only
  bool ask = false;        // the provider for credentials; then call credentials_found() or no_credentials()
  bool resolve = false;    // the name of the host; then call resolved() or not_resolved(). Also while the connection is up, which goes on
  bool connect = false;    // a new stream to address_number(); then call connected() or refused()
  bool handshake = false;  // of the stream (TLS); then call handshaken() or failed()
  bool flush = false;      // call flush() at the end of this turn, after the user's handlers that belong to it
  bool write = false;      // bytes(); then call written() or failed()
  bool read = false;       // into room(); then call received() or failed()
  bool go_on = false;      // call due() in a later turn
  time_point until{};

  bool any() const noexcept { return log || close || sleep || ask || resolve || connect || handshake || flush || write || read || go_on; }
  friend bool operator==(connection_actions const&, connection_actions const&) = default;
};

/// A connection to a Redis server, without its sockets. It connects when it is first wanted, and reconnects whenever it is lost. Of a host with
/// several addresses each gets its share of an attempt (address_choice). While the connection is up the name is looked up again and again: if it
/// means another server by now, the connection goes there, as after a change of roles. It
/// writes the commands of one turn of the event loop together. Only the first is written at once, unless an answer is due or has just
/// come in: the server works on it while the client makes the others, and operations that began together do not stay together
/// for ever. Of the others as many as fit together go out as one script (shared_scripts). After answers that leave the server without work of ours,
/// the first half of what they lead to is written before the other half. It reports answers and pushes in the order in which they come. No I/O, no
/// clock.
///
/// Threads: the interpreter gives one input at a time, and calls take() after each. "Locked": with the client locked.
class connection_fsm {
 public:
  struct stream_kind {
    bool handshakes = false;
  };
  /// Over all connections.
  struct counts {
    std::uint64_t handshakes = 0, handshakes_failed = 0;
    std::uint64_t renewals = 0, renewals_failed = 0;  // of credentials
  };
  /// All outlive this.
  struct roles {
    dialogue* talk = nullptr;   // is spoken instead of the protocol; then there are no events of a wire
    locator* finder = nullptr;  // knows host and port
    cluster_node* node = nullptr;
  };
  /// When flush() is to be called.
  using flush_due = net::flush_due;
  /// `settings` and `client_id` outlive this. `seed`: for the pauses between attempts.
  connection_fsm(config const& settings, std::string const& client_id, address where, std::uint64_t seed, stream_kind stream, roles const& r);
  connection_fsm(config const& settings, std::string const& client_id, address where, std::uint64_t seed, stream_kind stream)
      : connection_fsm(settings, client_id, std::move(where), seed, stream, roles{}) {}
  connection_fsm(config const& settings, std::string const& client_id, address where, std::uint64_t seed)
      : connection_fsm(settings, client_id, std::move(where), seed, stream_kind{}) {}
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
  /// Bytes of a dialogue, on a connection that is up. True: the caller must call flush() in a later turn.
  [[nodiscard]] bool say(std::string_view bytes);
  /// The locator has another answer now. True: the caller must call due() in a later turn.
  [[nodiscard]] bool moved() noexcept { return !std::exchange(moved_, true); }

  // ---- from the interpreter: locked
  void credentials_found(credentials found, time_point now);
  void no_credentials(std::string_view why, time_point now);
  /// The addresses of the name: "10.0.0.1:6379". Their numbers are the places in this list.
  void resolved(std::vector<std::string> addresses, time_point now);
  void not_resolved(std::string_view why, time_point now);
  void connected(time_point now);
  /// This address does not answer; another one may.
  void refused(std::string_view why, time_point now);
  void handshaken(time_point now);
  void received(std::size_t size, time_point now);
  /// A read, a write or a handshake of the stream has failed.
  void failed(std::string_view why, time_point now, protocol::fault what = protocol::fault::try_later);
  /// The same for a write. With TLS a server that refuses our certificate says so only in what is read behind the handshake, and may have
  /// closed before the greeting is written: then the read tells why.
  void write_failed(std::string_view why, time_point now);
  void due(time_point now);

  // ---- from the interpreter: need not be locked, so that a write never waits for the client's mutex
  void flush();
  void written(std::size_t size);
  /// Closes the connection for good.
  void shut_down() noexcept;

  connection_actions take() noexcept { return std::exchange(actions_, {}); }
  std::vector<log_line> take_log() noexcept { return std::exchange(log_, {}); }
  std::size_t address_number() const noexcept { return choice_.number(); }
  address const& where() const noexcept { return where_; }
  /// The bytes to write. They stay in place until written(), or until the stream is closed.
  std::string_view bytes() const { return out_.bytes(); }
  std::span<char> room();
  bool is_up() const noexcept { return state_ == state::up; }
  counts const& counted() const noexcept { return counted_; }

 private:
  enum class state : std::uint8_t { idle, locating, asking, resolving, connecting, handshaking, greeting, up, pausing, closed };

  void connect(time_point now);
  void locate(time_point now);
  bool follow(time_point now);
  void ask_or_look_up(time_point now);
  void look_up(time_point now);
  void begin_at(std::vector<std::string> addresses, time_point now);
  void connect_next();
  void move_on(protocol::fault what, time_point now);
  void count_failed_handshake(protocol::fault what) noexcept;
  void forget_stream() noexcept;
  void still_there(std::vector<std::string> const& addresses, time_point now);
  void sleep_while_up() noexcept;
  void refresh(time_point now);
  void refresh_failed(std::string_view why, time_point now);
  void authenticated(time_point now);
  void too_late(time_point now);
  void greet(time_point now);
  void greeted(time_point now);
  void hear_greeting(time_point now);
  void unwelcome(protocol::fault what, std::string_view why, time_point now);
  void hand_over(time_point now);
  void noticed(notice what, time_point now);
  void sleep(time_point until) noexcept;
  void lost(protocol::fault what, std::string_view why, time_point now);
  void hear(protocol::command const& c, std::string& out);
  void deal_out(shared_scripts::script const& script, time_point now);
  void keep_busy(std::int64_t answers);
  protocol::answer understood(protocol::answer a) const;
  void report(protocol::answer const& a, time_point now);
  void log(log_line line);
  void log(log_level level, std::string words);

  config const& settings_;
  sender who_;
  address where_;  // with the user and password of now, and with host and port if there is a locator
  stream_kind const stream_;
  roles const roles_;
  protocol::wire_events* events_ = nullptr;

  state state_ = state::idle;
  connection_actions actions_;
  std::vector<log_line> log_;
  counts counted_;
  address_choice choice_;
  time_point attempt_until_{};  // no later
  time_point until_{};          // of the present step of the attempt, of the pause, or of what is due while the connection is up
  back_off back_off_;

  // The name, while the connection is up.
  time_point look_up_at_ = time_point::max();
  own_addresses own_;

  reauthentication renewal_;
  greeting greeting_;
  time_point greeted_at_{}, up_since_{};
  resp::decoder decoder_;
  std::vector<std::int64_t> numbers_;
  std::string name_;
  bool heard_ = false;                   // the peer of this connection has said something
  bool was_up_ = false;                  // some connection before this one was
  bool was_replica_ = false;             // the server of the last attempt
  std::string not_located_;              // why it has to wait for the locator
  bool told_of_foreign_pushes_ = false;  // the log has a line about them for this connection
  bool unfinished_ = false;              // the last turn has left messages

  // Locked.
  bool wanted_ = false;
  bool dropping_ = false;
  std::string why_dropped_;
  bool moved_ = false;
  std::int64_t unanswered_ = 0;                // commands of this connection
  duration shortest_lease_ = duration::max();  // of what they ask for

  std::int64_t answered_ = 0;      // of them
  slot_subscriptions subscribed_;  // at a node of a Cluster
  shared_scripts shared_;
  net::outbox out_;
};

}  // namespace conch::redis
