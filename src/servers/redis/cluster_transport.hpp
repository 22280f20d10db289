// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "protocol/shards.hpp"
#include "protocol/transport.hpp"
#include "servers/redis/connection.hpp"
#include "servers/redis/due_timer.hpp"
#include "servers/redis/topology/cluster.hpp"
#include "servers/redis/topology/cluster_talk.hpp"
#include "servers/redis/url.hpp"

#include <conch/config.hpp>
#include <conch/stats.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace conch::redis {

/// A connection to each master of a Cluster, and one to the node that is asked for the map. It carries out what
/// `cluster` wants with Asio, and decides nothing itself. As a wire it is that of `unknown_master`.
class cluster_transport final : public transport, public protocol::shards, private cluster_talk::owner {
 public:
  /// `on`: as of a connection.
  cluster_transport(host& h, asio::any_io_executor on, config const& settings, std::string const& client_id,
                    cluster_url url);
  ~cluster_transport() override;

  // protocol::wire, with the client locked: that of `unknown_master`
  void send(protocol::command const&) override {}
  void want_connection() override;
  void drop_connection(std::string_view) override {}
  std::string unfinished_attempt() const override { return to_asked_.unfinished_attempt(); }

  // transport
  void report(statistics& s) const noexcept override;
  void shut_down() override;

  // protocol::shards, with the client locked
  using transport::report_to;
  void report_to(protocol::shard_events& e) noexcept override { sharded_ = &e; }
  unsigned slot_of(std::string_view name) const override { return slot_of_lock(name); }
  std::size_t owner(unsigned slot) const override { return core_.owner(slot); }
  bool is_master(std::size_t number) const override { return core_.map().has_slots(number); }
  protocol::wire& way_to(std::size_t number) override;
  void report_to(std::size_t number, protocol::wire_events& e) override;
  detour detour_of(std::string_view words, std::size_t by) override;
  void wait_for_owner(bool wanted, time_point now) override;

 private:
  class node;

  // With the client locked, on the strand.
  void carry_out() override;
  void look_later();

  host& host_;
  asio::any_io_executor const on_;
  config const& settings_;
  std::string const& client_id_;
  cluster_url const url_;
  cluster core_;
  cluster_talk talk_;
  connection to_asked_;
  std::vector<std::unique_ptr<node>> nodes_;  // by their numbers
  protocol::shard_events* sharded_ = nullptr;
  due_timer timer_;
  bool looks_later_ = false;
  bool carrying_out_ = false;
};

}  // namespace conch::redis
