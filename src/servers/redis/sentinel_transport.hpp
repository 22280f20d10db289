// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "protocol/transport.hpp"
#include "servers/redis/connection.hpp"
#include "servers/redis/due_timer.hpp"
#include "servers/redis/topology/sentinel.hpp"
#include "servers/redis/topology/sentinel_talk.hpp"
#include "servers/redis/url.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace conch::redis {

/// A connection to the master that Sentinels name, and one to each of them. It carries out what `sentinels` wants with
/// Asio, and decides nothing itself.
class sentinel_transport final : public transport,
                                 private locator,
                                 private sentinel_talk::owner,
                                 private protocol::wire_events {
 public:
  /// `on`: as of a connection.
  sentinel_transport(host& h, asio::any_io_executor on, config const& settings, std::string const& client_id,
                     sentinel_url url);
  ~sentinel_transport() override;

  /// Another connection to the same master, to be made once. It must not outlive this.
  std::unique_ptr<transport> beside();

  // protocol::wire, with the client locked
  void send(protocol::command const& c) override { to_master_.send(c); }
  void want_connection() override { to_master_.want_connection(); }
  void drop_connection(std::string_view why) override { to_master_.drop_connection(why); }
  std::string unfinished_attempt() const override { return to_master_.unfinished_attempt(); }

  void report(statistics& s) const noexcept override;
  void report_to(protocol::wire_events& e) noexcept override;
  void shut_down() override;

 private:
  class link;
  class second_connection;

  // With the client locked, on the strand.
  location locate(address& to, time_point now) override;
  void carry_out() override;

  // Events of the connection to the master. All are passed on to the protocol; some are timed.
  void connected_as(protocol::session const& s, time_point now) override;
  void connect_failed(protocol::fault what, std::string_view words, time_point now) override;
  void disconnected(std::string_view why, time_point now) override;
  void answered(protocol::answer const& a, time_point now) override;
  void pushed(protocol::push const& p, time_point now) override { events().pushed(p, now); }

  host& host_;
  asio::any_io_executor const on_;
  config const& settings_;
  config const of_sentinels_;  // the settings of the connections to them
  std::string const& client_id_;
  sentinel_url const url_;
  sentinels core_;
  std::vector<std::unique_ptr<link>> links_;
  connection to_master_;
  second_connection* second_ = nullptr;
  due_timer timer_;
  bool begun_ = false;
  std::string run_;                         // of the last connection to a master
  time_point lost_at_ = time_point::max();  // it; max(): it is not lost
  bool fails_over_ = false;                 // at another server, whose first answer is due
  histogram failover_;
};

}  // namespace conch::redis
