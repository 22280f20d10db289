// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "net/shell.hpp"
#include "net/stream.hpp"
#include "servers/zookeeper/connection_fsm.hpp"

#include <conch/config.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace conch::zookeeper {

/// The connections to an ensemble, one after another. It carries out the actions of its connection_fsm with Asio, and
/// decides nothing itself.
class connection final : public wire, public server_connection, private net::shell<connection> {
 public:
  /// `on`: a strand, unless config::single_threaded.
  connection(host& h, asio::any_io_executor on, config const& settings, std::vector<address> servers);

  /// The receiver of the events. To be called once, before anything else.
  void report_to(wire_events& e) noexcept { fsm_.report_to(e); }
  /// Behind what is sent already.
  void shut_down() override { close_life(); }

  // wire, with the client locked
  void want(duration lease, time_point now) override;
  void in_use(duration lease, time_point now) override;
  void greet(connect_request const& c) override;
  void send(request const& r) override;
  void drop(std::string_view why, ending how, time_point now) override;
  std::string unfinished_attempt() const override { return fsm_.life().unfinished_attempt(); }
  std::string shown() const override { return fsm_.shown(); }
  void log(log_line line) override { host_.log(line.level, line.words); }

  /// As of connection_fsm.
  bool has_another() const { return fsm_.has_another(); }

 private:
  friend net::shell<connection>;

  template <class F>
  void turn(F f);
  net::lifecycle& life() noexcept { return fsm_.life(); }
  void flush_later();
  void carry_out();
  void close();
  void resolve();
  void open();
  void handshake();
  void write();
  void read();

  config const& settings_;
  connection_fsm fsm_;
  bool in_turn_ = false;  // locked: what the session asks for is carried out at the end of the turn
  bool posted_ = false;   // locked: a turn for it is under way
  std::unique_ptr<net::stream> stream_;
};

}  // namespace conch::zookeeper
