// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/url.hpp"
#include "zookeeper/jute.hpp"
#include "zookeeper/wire.hpp"

#include <conch/clock.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::zookeeper {

/// The actions that the interpreter of a connection_fsm must carry out, in this order. The end of each is an input to the machine, unless the
/// stream was closed meanwhile.
struct connection_actions {
  bool close = false;      // close the stream, and cancel the name look-up; report none of their ends
  bool resolve = false;    // the name of where(); then call resolved() or failed()
  bool connect = false;    // a new stream to address_number(); then call connected() or refused()
  bool handshake = false;  // of the stream (TLS); then call handshaken() or failed()
  bool write = false;      // bytes(); then call written() or failed()
  bool read = false;       // into room(); then call received() or failed()

  bool any() const noexcept { return close || resolve || connect || handshake || write || read; }
  friend bool operator==(connection_actions const&, connection_actions const&) = default;
};

/// One connection after another, each to the next server of the list, without their sockets. It knows no session: it turns messages into bytes, and
/// bytes into messages. How long anything may take is for the session to say. No I/O, no clock.
///
/// Threads: all functions are called with the client locked, but for take() and those behind it, which the interpreter calls after each input.
class connection_fsm {
 public:
  /// `servers`: at least one. The first is `first` of them.
  connection_fsm(std::vector<redis::address> servers, std::size_t first);
  connection_fsm(connection_fsm const&) = delete;
  connection_fsm& operator=(connection_fsm const&) = delete;

  /// The receiver of the connection's events. To be called once, before anything else.
  void report_to(wire_events& e) noexcept { events_ = &e; }

  // ---- from the session, from any thread. go_on() must follow in a later turn, unless that is called from within an input.
  void want();
  void greet(connect_request const& c);
  void send(request const& r);
  void drop();
  std::string shown() const { return where().shown(); }

  // ---- from the interpreter
  void go_on();
  void resolved(std::size_t addresses, time_point now);
  void connected(time_point now);
  /// This address does not answer; another one may.
  void refused(std::string_view why, time_point now);
  void handshaken(time_point now);
  void received(std::size_t size, time_point now);
  /// A read, a write or a handshake of the stream has failed, or the name look-up.
  void failed(std::string_view why, time_point now, fault what = fault::later);
  void written(std::size_t size);
  /// Writes what is still to be written, and closes for good then.
  void shut_down();

  connection_actions take() noexcept { return std::exchange(actions_, {}); }
  std::size_t address_number() const noexcept { return next_address_; }
  redis::address const& where() const noexcept { return servers_[server_]; }
  /// The bytes to write. They stay in place until written(), or until the stream is closed.
  std::string_view bytes() const { return std::string_view{writing_}.substr(written_); }
  std::span<char> room() { return frames_.room(); }

 private:
  enum class state : std::uint8_t { idle, resolving, connecting, handshaking, greeting, up, closed };
  struct asked {
    std::int32_t xid;
    op what;
  };

  void begin();
  void connect_next();
  void hear(std::string_view frame, time_point now);
  void ended(fault what, std::string_view why, time_point now);
  void malformed(std::string_view why, time_point now);
  void flush();

  std::vector<redis::address> const servers_;
  wire_events* events_ = nullptr;
  state state_ = state::idle;
  connection_actions actions_;
  std::size_t server_;
  std::size_t addresses_ = 0, next_address_ = 0;
  frame_reader frames_;

  bool wanted_ = false, dropping_ = false;
  std::deque<asked> asked_;
  /// It goes on over connections. A server that waits for the commit of a write finds it by session and number, also where the write came by an
  /// earlier connection and another server: with a number used twice, it answers with what became of the earlier one.
  std::int32_t xid_ = 0;
  std::string outgoing_;  // sent, and not yet given to the stream
  std::string writing_;
  std::size_t written_ = 0;
  bool write_under_way_ = false;
};

}  // namespace conch::zookeeper
