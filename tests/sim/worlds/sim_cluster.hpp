// What a simulated process has of a Cluster: the real rules of the map over simulated connections, one to each master
// and one to the node that is asked for the map. What src/servers/redis/cluster_transport does with Asio, this does
// with the simulated network.
#pragma once

#include "protocol/shards.hpp"
#include "servers/redis/topology/cluster.hpp"
#include "servers/redis/topology/cluster_talk.hpp"
#include "servers/redis/topology/slots.hpp"
#include "sim/worlds/sim_connection.hpp"
#include "sim/worlds/world.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace conch::sim {

class sim_cluster final : public protocol::wire, public protocol::shards, private redis::cluster_talk::owner {
 public:
  // The simulated network, and the observer of its traffic.
  class outside {
   public:
    virtual link_ptr dial(std::size_t node) = 0;
    virtual time_point local_now() const = 0;
    virtual void transmit(link_ptr const& l, std::string bytes) = 0;
    virtual void hang_up(link_ptr const& l) = 0;
    virtual void sends(protocol::command const& c) = 0;
    virtual void drops(std::string_view why) = 0;
    virtual void node_connected(std::size_t number) = 0;
    virtual void node_failed(protocol::fault what, std::string_view words) = 0;
    virtual void node_disconnected(std::size_t number, std::string_view why) = 0;
    // `move` takes what is asked for and held to the masters that have the slots now.
    virtual void slots_move(std::function<void()> const& move, time_point now) = 0;
    // To the server of that node, and back.
    virtual void answered_by(protocol::wire_events& s, protocol::answer const& a, time_point now) = 0;
    virtual void pushed_by(protocol::wire_events& s, protocol::push const& p, time_point now) = 0;

   protected:
    ~outside() = default;
  };

  // What is known of a connection to a node.
  struct view {
    link_ptr to;
    bool up = false;
    nanos since = 0;                                 // that it is up, or is not
    std::size_t releases_written = 0;                // since then
    std::vector<engine::grant_id> renewals_written;  // likewise
    bool cleanups_are_due = false;                   // it has not written all that is owed
  };

  sim_cluster(world& w, outside& o, sim_connection::shell& of, config const& settings, std::string const& client_id,
              redis::cluster_url url, sim_connection::habits h, std::uint64_t seed);
  ~sim_cluster();

  bool end_of_turn();
  // Null: none of this process' connections is that.
  sim_connection* connection_of(link const& l);
  view const* view_of(link const& l) const;
  // The connection to that node of the world; null: there is none.
  view const* view_of_node(std::size_t node) const;
  view& view_of_master(std::size_t number);
  link_ptr const& map_link() const { return map_link_; }
  std::vector<link_ptr> links() const;

  // protocol::wire: that of `unknown_master`
  void send(protocol::command const&) override {}
  void want_connection() override { to_asked_.want(); }
  void drop_connection(std::string_view) override {}

  // protocol::shards
  void report_to(protocol::shard_events& e) noexcept override { sharded_ = &e; }
  unsigned slot_of(std::string_view name) const override { return redis::slot_of_lock(name); }
  std::size_t owner(unsigned slot) const override { return core_.owner(slot); }
  bool is_master(std::size_t number) const override { return core_.map().has_slots(number); }
  protocol::wire& way_to(std::size_t number) override;
  void report_to(std::size_t number, protocol::wire_events& e) override;
  detour detour_of(std::string_view words, std::size_t by) override;
  void wait_for_owner(bool wanted, time_point now) override;

  std::uint64_t requests() const { return core_.requests(); }
  std::size_t masters() const { return nodes_.size(); }

 private:
  class node;
  // The connection for the map.
  struct asked final : sim_connection::shell {
    explicit asked(sim_cluster& owner) : of{owner} {}
    void later(nanos delay, std::function<void(time_point)> what) override { of.shell_.later(delay, std::move(what)); }
    nanos until(time_point t) override { return of.shell_.until(t); }
    void open(sim_connection& c) override;
    void write(sim_connection& c, std::string bytes) override;
    void hang_up(sim_connection& c) override;
    void note(sim_connection& c, log_level level, std::string_view words) override { of.shell_.note(c, level, words); }
    sim_cluster& of;
  };

  void carry_out() override;
  void sleep();

  world& world_;
  outside& outside_;
  sim_connection::shell& shell_;
  config const& settings_;
  std::string const& client_id_;
  redis::cluster_url const url_;
  sim_connection::habits const habits_;
  random_source random_;
  redis::cluster core_;
  redis::cluster_talk talk_;
  asked for_map_;
  sim_connection to_asked_;
  link_ptr map_link_;
  std::vector<std::unique_ptr<node>> nodes_;  // by their numbers
  protocol::shard_events* sharded_ = nullptr;
  protocol::wire_events* unrouted_ = nullptr;
  time_point slept_until_ = time_point::max();
  std::uint64_t sleep_ = 0;
  bool looks_later_ = false;
  bool carrying_out_ = false;
};

}  // namespace conch::sim
