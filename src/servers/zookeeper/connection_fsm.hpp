// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/address_choice.hpp"
#include "net/lifecycle.hpp"
#include "net/outbox.hpp"
#include "net/role.hpp"
#include "servers/zookeeper/jute.hpp"
#include "servers/zookeeper/url.hpp"
#include "servers/zookeeper/wire.hpp"

#include <conch/clock.hpp>
#include <conch/config.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::zookeeper {

/// The exchange on a connection to one of the servers of the list: it turns messages into bytes, and bytes into
/// messages, and knows no session. The life of the connection is that of a net::lifecycle: of the greeting until the
/// session is open. Which server comes next, and for how long, an address_choice says; which of its addresses, another
/// one. No I/O, no clock.
///
/// Threads: all functions are called with the client locked, but for life().take() and what answers only, which the
/// interpreter calls after each input.
class connection_fsm final : net::role {
 public:
  /// `settings` outlives this. `servers`: at least one. The first is `first` of them, so that not all clients are at
  /// the same one. `seed`: for the pauses between attempts.
  connection_fsm(config const& settings, std::vector<address> servers, std::size_t first, std::uint64_t seed);
  connection_fsm(connection_fsm const&) = delete;
  connection_fsm& operator=(connection_fsm const&) = delete;

  /// The receiver of the connection's events. To be called once, before anything else.
  void report_to(wire_events& e) noexcept { events_ = &e; }
  net::lifecycle& life() noexcept { return life_; }
  net::lifecycle const& life() const noexcept { return life_; }

  // ---- from the session, from any thread. end_turn() must follow in a later turn, or at the end of the input from
  // within which it was called.
  /// True: life().due() must follow, too.
  [[nodiscard]] bool want(duration lease) noexcept;
  /// The attempt at the servers has one that was not tried yet.
  bool has_another() const noexcept { return is_trying_ && choice_.has_more(); }
  void in_use(duration lease, time_point now);
  void greet(connect_request const& c);
  void send(request const& r);
  void drop(std::string_view why, ending how);
  std::string shown() const override { return where().shown(); }

  // ---- from the interpreter
  void received(std::size_t size, time_point now);
  /// An address does not answer, or a read, a write or a handshake of the stream has failed.
  void failed(std::string_view why, time_point now, fault what = fault::try_later);
  void end_turn(time_point now);
  void written(std::size_t size);

  address const& where() const noexcept { return servers_[server_]; }
  /// The bytes to write. They stay in place until written(), or until the stream is closed.
  std::string_view bytes() const { return out_.bytes(); }
  std::span<char> room() { return frames_.room(); }

 private:
  struct asked {
    std::int32_t xid;
    op what;
  };

  // net::role
  net::location locate(time_point now) override;
  void greet(time_point now) override;
  std::string silence(duration time, bool looks_up) const override;
  void passed_over(fault what, std::string_view words, time_point now) override;
  bool writes_last() override;
  void stream_ended() noexcept override;
  retry ended(end const& e, time_point now) override;

  /// There is something to send and to receive.
  bool is_open() const noexcept {
    return (life_.is_up() || life_.state() == net::connection_state::greeting) && !dropped_as_;
  }
  void flush();
  void take_frame(std::string_view frame, time_point now);
  void out_of_order(reply_header const& header, time_point now);
  void malformed(std::string_view why, time_point now);
  void broken(fault what, std::string_view why, time_point now);

  config const& settings_;
  std::vector<address> servers_;
  wire_events* events_ = nullptr;
  net::lifecycle life_;

  address_choice choice_;                  // of servers
  std::vector<address_choice> addresses_;  // of each of them
  duration lease_{};
  std::size_t server_ = 0;
  bool is_trying_ = false;            // an attempt at the servers is under way
  std::optional<ending> dropped_as_;  // the session knows that the connection ends
  std::string why_dropped_;

  frame_reader frames_;
  bool has_session_ = false;  // this connection
  std::deque<asked> asked_;
  /// It outlives connections. A server that waits for the commit of a write finds it by session and number, also where
  /// the write came by an earlier connection and another server: with a number used twice, it answers with what became
  /// of the earlier one.
  std::int32_t xid_ = 0;
  net::outbox out_{false};
};

}  // namespace conch::zookeeper
