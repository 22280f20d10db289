// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/address_choice.hpp"
#include "servers/zookeeper/jute.hpp"
#include "servers/zookeeper/url.hpp"
#include "servers/zookeeper/wire.hpp"

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

/// One connection after another, to one of the servers of the list, without their sockets. It knows no session: it turns messages into bytes, and
/// bytes into messages. Which server and which of its addresses comes next, and for how long, an address_choice says; that a time is over, the
/// session. No I/O, no clock.
///
/// Threads: all functions are called with the client locked, but for take() and those behind it, which the interpreter calls after each input.
class connection_fsm {
 public:
  /// `servers`: at least one. The first is `first` of them, so that not all clients are at the same one.
  connection_fsm(std::vector<address> servers, std::size_t first);
  connection_fsm(connection_fsm const&) = delete;
  connection_fsm& operator=(connection_fsm const&) = delete;

  /// The receiver of the connection's events. To be called once, before anything else.
  void report_to(wire_events& e) noexcept { events_ = &e; }

  // ---- from the session, from any thread. go_on() must follow in a later turn, unless that is called from within an input.
  time_point want(address_choice::limits l, time_point now);
  bool has_another() const noexcept { return is_trying_ && choice_.has_more(); }
  time_point silent(time_point now);
  void in_use(time_point now);
  void greet(connect_request const& c);
  void send(request const& r);
  void drop(bool is_silent, time_point now);
  std::string shown() const { return where().shown(); }
  bool looks_up() const noexcept { return state_ == state::resolving && !is_past(); }

  // ---- from the interpreter
  void go_on();
  /// The name stands for these addresses, in words.
  void resolved(std::vector<std::string> addresses, time_point now);
  void connected(time_point now);
  /// This address does not answer; another one may.
  void refused(std::string_view why, time_point now);
  void handshaken(time_point now);
  void received(std::size_t size, time_point now);
  /// A read, a write or a handshake of the stream has failed, or the name look-up.
  void failed(std::string_view why, time_point now, fault what = fault::try_later);
  void written(std::size_t size);
  /// Writes what is still to be written, and closes for good then.
  void shut_down();

  connection_actions take() noexcept { return std::exchange(actions_, {}); }
  std::size_t address_number() const noexcept { return address_; }
  address const& where() const noexcept { return servers_[server_]; }
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
  void clear();
  bool connect_next(time_point now);
  bool is_past() const noexcept { return dropping_ || moving_; }
  void was_refused(std::string_view why, time_point now);
  void hear(std::string_view frame, time_point now);
  void out_of_order(reply_header const& header, time_point now);
  void ended(fault what, std::string_view why, time_point now);
  void malformed(std::string_view why, time_point now);
  void flush();

  std::vector<address> servers_;
  wire_events* events_ = nullptr;
  state state_ = state::idle;
  connection_actions actions_;

  address_choice choice_;                  // of servers
  std::vector<address_choice> addresses_;  // of each of them
  address_choice::limits limits_{};
  std::size_t server_ = 0, address_ = 0;
  bool is_trying_ = false;      // an attempt at the servers is under way
  bool has_addresses_ = false;  // of the present server: its name was resolved
  bool is_in_use_ = false;
  time_point in_use_since_{};
  frame_reader frames_;

  bool wanted_ = false, dropping_ = false;
  bool moving_ = false;  // to another address of the same server
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
