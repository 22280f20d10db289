// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "net/shell.hpp"
#include "net/stream.hpp"
#include "protocol/transport.hpp"
#include "servers/redis/connection_fsm.hpp"
#include "servers/redis/url.hpp"

#include <conch/config.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace conch::redis {

/// A connection to a Redis server. It carries out the actions of its connection_fsm with Asio, and decides nothing
/// itself.
class connection final : public transport, private net::shell<connection> {
 public:
  /// `on`: a strand, unless config::single_threaded.
  connection(host& h, asio::any_io_executor on, config const& settings, std::string const& client_id,
             address const& where, connection_fsm::roles const& r = {});

  // protocol::wire, with the client locked
  void send(protocol::command const& c) override;
  void want_connection() override { want(); }
  void drop_connection(std::string_view why) override { drop(why); }
  std::string unfinished_attempt() const override { return fsm_.life().unfinished_attempt(); }

  /// As of connection_fsm, with the client locked.
  void say(std::string_view bytes);
  void moved();

  void report_to(protocol::wire_events& e) noexcept override { fsm_.report_to(e); }
  void report(statistics& s) const noexcept override;
  void shut_down() override { close_life(); }
  /// "TLSv1.3, TLS_AES_256_GCM_SHA384"; empty: no TLS. On the strand.
  std::string version_and_cipher() const { return stream_.version_and_cipher(); }

 private:
  friend net::shell<connection>;

  net::lifecycle& life() noexcept { return fsm_.life(); }
  void flush_later();
  void flush();
  void carry_out();
  void close();
  void ask();
  void resolve();
  void connect();
  void handshake();
  void write();
  void read();

  config const& settings_;
  connection_fsm fsm_;
  // counts questions for credentials: an answer to an earlier one is too late
  std::uint64_t question_ = 0;
  std::chrono::sys_seconds peer_expires_{};  // the certificate of the latest connection
  asio::any_io_executor const turns_;        // of the event loop: what on_ runs on
  bool const in_one_thread_;
  net::stream stream_;
};

}  // namespace conch::redis
