// One client process: the real engine and protocol behind a simulated shell, and the actors that
// use it. The shell does what src/client and src/servers/redis do over Asio.
#pragma once

#include "engine/cohort.hpp"
#include "protocol/server.hpp"
#include "protocol/sharded.hpp"
#include "protocol/synced_server.hpp"
#include "sim/worlds/plan.hpp"
#include "sim/worlds/sim_chains.hpp"
#include "sim/worlds/sim_cluster.hpp"
#include "sim/worlds/sim_connection.hpp"
#include "sim/worlds/world.hpp"

#include <conch/detail/multi_plan.hpp>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace conch::sim {

struct actor;
struct sim_level;
struct sim_hold;
class sim_levels;

// An acquisition, and what the observer wants to know about it.
struct sim_acquisition : engine::acquisition {
  ~sim_acquisition();

  sim_client* client = nullptr;
  actor* who = nullptr;
  int lock_number = 0;
  std::uint64_t order = 0;   // of asking, in this client
  std::uint64_t serial = 0;  // of asking, in all
  acquire_key in_history;
  nanos asked_at = 0;          // true time
  std::string owner;           // of a reentrant lock
  sim_level* level = nullptr;  // that waits for the answer
  sim_hold* shared = nullptr;  // what it has become for all levels of its owner
  bool waiting = false;        // not answered yet
  bool cancelled = false;
  nanos cancelled_at = 0;
  engine::cancel_type cancel_as = engine::cancel_type::total;
  bool cancelled_again = false;
  nanos cancelled_again_at = 0;
  engine::cancel_type cancel_again_as = engine::cancel_type::total;
  nanos silence_when_left = -1;  // how long the server had said nothing by then
  bool active = false;           // granted, and neither released nor dead
  bool told = false;             // of its loss
  nanos release_asked_at = 0;
  bool release_strays = false;  // it was asked for at another node than that of the lock
  bool released_valid = false;  // it was valid when its release was asked for
  engine::grant_id id;          // on the server, when granted
  // where replicas must acknowledge a permit: all that it was asked for with
  std::vector<std::string> ids;
  time_point seen_deadline{};
  time_point first_deadline{};
  nanos granted_at = 0;
  time_point extended_at = time_point::min();  // when it last asked for another lease
  nanos listens_since = -1;                    // for requests; -1: not at all
  bool told_of_request = false;
  // the master has nothing of it, or for less long: since then; less than 0: it has it
  nanos orphaned_at = -1;
  std::size_t told_by = 0;                 // of the servers the one that last said so ...
  std::uint64_t told_in = 0;               // ... and the term in which it was the master
  nanos extension_asked_at = -1;           // in true time; -1: none is under way
  nanos detach_asked_at = -1;              // likewise
  time_point tell_by = time_point::max();  // of its loss, and of what deadline that is the margin
  time_point seat_deadline{};
  time_point prolonged_at{};               // when that was received
  bool warned = false;                     // its renewal was reported as late ...
  time_point warn_from{};                  // ... which it is from then on, or
  time_point warn_by = time_point::max();  // from then on at the latest
  std::string task;                        // that acquires, where others are told of it
  sim_noted* noted_as = nullptr;           // likewise
};

// A multi_lock, as include/conch/multi_lock.hpp carries out its plan.
struct several_locks {
  std::vector<int> names;  // in the order in which they are acquired
  conch::detail::multi_plan plan;
  std::vector<std::unique_ptr<sim_acquisition>> slots;
  std::size_t unanswered = 0;
  bool trying = true, cancelled = false, once = false;
  error_code failure;
  nanos began = 0, cancelled_at = 0;
  std::optional<time_point> until;
};

// A question or an order of an operator.
struct sim_order : engine::admin_request {
  class sim_client* client = nullptr;
  actor* who = nullptr;
  int lock_number = 0;
  nanos asked_at = 0;
  bool answered = false;
};

// One coroutine of the user: works through its operations.
struct actor {
  enum class state : std::uint8_t { thinking, acquiring, inside, releasing, finished };

  actor_plan const* todo = nullptr;
  std::size_t next = 0;
  state at = state::thinking;
  std::uint64_t round = 0;  // what was scheduled in an earlier round is void
  std::unique_ptr<sim_acquisition> outer, inner;
  int releasing = 0;
  int tried = 0;  // the second lock, so often
  std::unique_ptr<engine::admin_request> downgrade;
  std::unique_ptr<several_locks> several;
  std::vector<std::unique_ptr<sim_order>> orders;
  std::vector<std::unique_ptr<sim_level>> levels;

  actor();
  ~actor();
};

class sim_client final : public protocol::wire,
                         public protocol::wire_events,
                         public engine::acquisition_events,
                         public engine::admin_events,
                         public log_sink,
                         public sim_connection::shell,
                         public sim_sentinels::outside,
                         public sim_cluster::outside {
 public:
  sim_client(world& w, int number);
  ~sim_client();

  // ---- from the world ----
  void start();
  void accepted(link_ptr const& l);
  void connection_lost(link_ptr const& l);
  void receive(link_ptr const& l, std::string bytes);
  void pause(nanos length);
  void die(bool silently, nanos server_notices);
  void close();
  void adopt(detached_hold const& d);
  void told_of_switch();  // another server is the master

  bool alive() const { return alive_; }
  bool paused() const { return paused_; }
  bool is_closed() const { return closed_; }
  bool finished() const;  // no actor has anything left to do
  bool settled() const;   // and nothing is owed to the server
  bool up() const { return up_; }
  nanos up_since() const { return up_since_; }
  nanos heard_at() const { return heard_at_; }  // the last answer of any server
  nanos started_at() const { return started_at_; }
  nanos longest_absence() const { return longest_absence_; }  // between two connections
  link_ptr const& connection() const { return link_; }
  // To the server that decides about that lock.
  link_ptr connection(int name) const;
  bool up(int name) const;
  nanos up_since(int name) const;
  bool has(link const& l) const { return shared(l) != nullptr; }  // it is a present connection of this process
  link_ptr shared(link const& l) const;
  bool is_up(link const& l) const;
  link_ptr const& sync_connection() const { return sync_link_; }
  // In a Cluster: the connection that asks for the map, and those to nodes.
  sim_cluster const* cluster() const { return cluster_.get(); }
  // To the server that has the place of this hold, by what the client knows.
  link_ptr keeper_of(sim_acquisition const& a) const;
  // Since when the second connection is up; less than 0: it is not.
  nanos synced_since() const { return sync_ ? sync_->since : -1; }
  int number() const { return number_; }
  std::uint64_t process() const { return process_; }
  std::string const& id() const { return id_; }
  client_plan const& settings() const { return plan_; }
  statistics const& stats() const { return stats_; }
  nanos last_pause_end() const { return last_pause_end_; }
  // When the last one that asked for that owner (reentrant locks have one) was refused, or gave back what it had: the
  // next one's turn.
  nanos last_turn_over(int lock, std::string const& owner) const;
  nanos paused_in_all() const { return paused_in_all_; }
  std::string describe() const;
  std::size_t owed() const { return sharded_ ? sharded_->pending() : server_->pending(); }
  protocol::server_place const* place(int name) const {
    return place_of(engine_->find(names_[static_cast<std::size_t>(name)]));
  }
  // What the protocol with the server knows of it.
  static protocol::server_place const* place_of(engine::place const* of_engine) {
    auto const* const place = dynamic_cast<protocol::server_place const*>(of_engine);
    return place != nullptr || of_engine == nullptr ? place : &protocol::synced_server::at_server(*of_engine);
  }

  // The server that has the place of an acquisition.
  static protocol::server const* keeper_of_place(sim_acquisition const& x) {
    return static_cast<protocol::server const*>(place_of(x.lock->place.get())->of);
  }

  // ---- from sim_chains ----
  nanos true_now() const { return world_.now(); }
  chains_judge& chains_watcher() { return *world_.chains_watcher(); }
  void ask_server(engine::admin_request& question, time_point now) { engine_->administer(question, *this, now); }
  void knows_why(actor& a, std::uint64_t round);
  void end_if_victim(std::uint64_t order, engine::wait_walk const& walk, nanos since, time_point now);

  time_point local(nanos true_time) const;
  time_point local_now() const override { return local(world_.now()); }
  nanos true_time(time_point local_time) const;  // the last moment at which the clock does not show more

 private:
  struct notice {
    enum class kind : std::uint8_t { acquired, lost, released, detached } what;
    sim_acquisition* about;
    engine::acquired how;
    error_code why;
    bool was_held;
    time_point when;
  };

  // The second connection, to what replicas must acknowledge.
  struct sync_side final : protocol::wire, protocol::wire_events {
    explicit sync_side(sim_client& client) : of{client} {}
    void send(protocol::command const& c) override { connection->send(c); }
    void want_connection() override { connection->want(); }
    void drop_connection(std::string_view why) override { connection->drop(why); }
    void connected_as(protocol::session const& s, time_point now) override {
      since = of.world_.now();
      of.synced_->second().connected_as(s, now);
      of.world_.watcher().second_connected(of);
    }
    void connect_failed(protocol::fault what, std::string_view words, time_point now) override {
      of.synced_->second().connect_failed(what, words, now);
    }
    void disconnected(std::string_view why, time_point now) override {
      since = -1;
      of.synced_->second().disconnected(why, now);
    }
    void answered(protocol::answer const& a, time_point now) override { of.synced_->second().answered(a, now); }
    void pushed(protocol::push const&, time_point) override {
      throw violation{10, "a push to a connection that has subscribed to nothing"};
    }

    sim_client& of;
    std::unique_ptr<sim_connection> connection;
    nanos since = -1;
  };

  bool is_of_sync(sim_connection const& c) const { return sync_ && &c == sync_->connection.get(); }
  sim_connection* connection_of(link_ptr const& l) const {
    if (l == nullptr) return nullptr;
    if (cluster_) return cluster_->connection_of(*l);
    return l == link_ ? connection_.get() : l == sync_link_ ? sync_->connection.get() : nullptr;
  }
  engine::backend& backend() const {
    if (sharded_) return *sharded_;
    return synced_ ? static_cast<engine::backend&>(*synced_) : *server_;
  }
  std::vector<link_ptr> links() const;

  // protocol::wire
  void send(protocol::command const& c) override;
  void want_connection() override;
  void drop_connection(std::string_view why) override;
  // protocol::wire_events: on their way to the protocol
  void connected_as(protocol::session const& s, time_point now) override;
  void connect_failed(protocol::fault what, std::string_view words, time_point now) override;
  void disconnected(std::string_view why, time_point now) override;
  void answered(protocol::answer const& a, time_point now) override;
  void pushed(protocol::push const& p, time_point now) override;
  // sim_connection::shell
  void later(nanos delay, std::function<void(time_point)> what) override;
  nanos until(time_point t) override;
  void open(sim_connection& c) override;
  void write(sim_connection& c, std::string bytes) override;
  void hang_up(sim_connection& c) override;
  void note(sim_connection& c, log_level level, std::string_view words) override;
  // sim_sentinels::outside
  nanos sentinel_delay(sentinel_line& l, bool up) override { return world_.sentinel_delay(l, up); }
  void to_sentinel(sentinel_line_ptr const& l, std::string bytes) override { world_.to_sentinel(l, std::move(bytes)); }
  void named(std::size_t server) override;
  // sim_cluster::outside
  link_ptr dial(std::size_t node) override;
  void transmit(link_ptr const& l, std::string bytes) override { world_.send(l, std::move(bytes)); }
  void hang_up(link_ptr const& l) override { world_.hang_up(l); }
  void sends(protocol::command const& c) override;
  void drops(std::string_view why) override;
  void node_connected(std::size_t number) override;
  void node_failed(protocol::fault what, std::string_view words) override;
  void node_disconnected(std::size_t number, std::string_view why) override;
  void slots_move(std::function<void()> const& move, time_point now) override;
  void answered_by(protocol::wire_events& s, protocol::answer const& a, time_point now) override;
  void pushed_by(protocol::wire_events& s, protocol::push const& p, time_point now) override;
  // engine::acquisition_events
  void on_acquired(engine::acquisition& a, engine::acquired how, error_code why) override;
  void on_lost(engine::acquisition& a, error_code why) override;
  void on_released(engine::acquisition& a, bool was_held, error_code why) override;
  void on_extended(engine::acquisition& a, bool is_held, error_code why) override;
  void on_requested(engine::acquisition& a) override;
  void on_endangered(engine::acquisition& a, engine::danger const& d) override;
  void on_safe_again(engine::acquisition& a) override;
  void on_detached(engine::acquisition& a, error_code why) override;
  void on_admin_answered(engine::admin_request& i, engine::admin_result const& result, error_code why) override;
  // log_sink
  void note(bool is_error, std::string_view words) override;

  // Everything that happens in this process goes through here: now, or when it wakes up.
  void input(std::function<void(time_point)> what);
  void finish_input();
  void rearm();
  void wake(std::uint64_t version);
  void resume();
  void boot();
  void take_apart();

  // actors
  void later(actor& a, nanos delay, void (sim_client::*what)(actor&, time_point));
  std::uint64_t stream_of_user();
  void think(actor& a);
  void begin(actor& a, time_point now);
  void ask(actor& a, std::unique_ptr<sim_acquisition>& slot, int name, bool is_inner, time_point now);
  void cancel(sim_acquisition& x, engine::cancel_type type, time_point now);
  void cancel_now(actor& a, time_point now);
  void cancel_again(actor& a, time_point now);
  void for_each_hold(time_point now, std::function<void(sim_acquisition const&)> const& what) const;
  void for_each_connected(std::function<void(protocol::server const&, sim_cluster::view const&)> const& what) const;
  void renewed_at_once(std::vector<engine::grant_id> const& written, engine::backend const* by, time_point now) const;
  void cleanups_repeated();
  void downgrade(actor& a, time_point now);
  void write_guarded(actor& a, time_point now);
  void extend(actor& a, time_point now);
  void let_go(actor& a, time_point now);
  void take_over(detached_hold const& d, time_point now);
  bool settle_chains();
  std::vector<sim_acquisition*> acquires_of_tasks() const;
  void chains_changed(sim_acquisition& x) {
    if (chains_ != nullptr) chains_->changed(x);
  }
  // sim_orders.cpp: an operator's
  void give_orders(actor& a, time_point now);
  void no_order_may_repeat(engine::backend const& at) const;
  void orders_end() const;
  void order_answered(sim_order& one, engine::admin_result const& result, error_code why);
  void orders_done(actor& a, time_point now);
  void nobody_waits_for_a_refusal() const;
  void granted_by(protocol::wire_events& s, protocol::pushed_grant const& g, time_point now);
  void told_of_force(engine::grant_id id);
  // sim_multi.cpp: several locks at once
  void begin_several(actor& a, time_point now);
  sim_acquisition& one_of_several(actor& a, std::size_t which, bool once, time_point now);
  void continue_several(actor& a, time_point now);
  void cancel_several(actor& a, time_point now);
  void leave_several(actor& a, time_point now);
  void give_one(actor& a, std::size_t which, bool drop, time_point now);
  void hear_several(notice const& n, time_point now);
  void end_several(actor& a);
  void go_deeper(actor& a, time_point now);
  void leave(actor& a, time_point now);
  void give(actor& a, std::unique_ptr<sim_acquisition>& slot, time_point now);
  void hear(notice const& n);
  void heard_acquired(notice const& n, time_point now);
  void next_round(actor& a);
  operation const& current(actor const& a) const { return a.todo->work[a.next]; }

  world& world_;
  int const number_;
  client_plan const& plan_;
  config settings_;
  random_source random_;
  sim_entropy nonces_;
  bool alive_ = false;
  bool paused_ = false;
  bool closed_ = false;
  std::uint64_t process_ = 0;
  std::string id_;
  nanos last_pause_end_ = 0;
  nanos paused_in_all_ = 0;
  std::map<std::pair<int, std::string>, nanos> turns_over_;
  std::deque<std::function<void(time_point)>> inbox_;

  timer_queue timers_;
  statistics stats_;
  std::unique_ptr<protocol::server> alone_;
  std::unique_ptr<protocol::synced_server> synced_;  // instead
  std::unique_ptr<protocol::sharded> sharded_;       // likewise
  protocol::server* server_ = nullptr;               // of these; null in a Cluster
  std::unique_ptr<engine::cohort> engine_;
  std::unique_ptr<sim_chains> chains_;        // where tasks are told of
  std::unique_ptr<sim_sentinels> sentinels_;  // where there are any
  std::optional<std::size_t> named_;          // by them
  std::unique_ptr<sim_cluster> cluster_;
  std::unique_ptr<sim_connection> connection_;  // in a Cluster none
  link_ptr link_;
  std::unique_ptr<sync_side> sync_;
  link_ptr sync_link_;
  bool up_ = false;
  nanos up_since_ = 0;
  nanos heard_at_ = 0;
  nanos started_at_ = 0;
  nanos down_since_ = 0, longest_absence_ = 0;
  std::string drop_why_;
  std::set<std::string, std::less<>> dropped_for_;  // in a Cluster: all reasons so far
  std::deque<notice> notices_;
  std::vector<std::string> names_;
  std::uint64_t wake_version_ = 0;
  nanos wake_at_ = 0;
  std::uint64_t asked_ = 0;
  std::uint64_t steps_of_user_ = 0;
  std::size_t releases_written_ = 0;                // since a moment of interest
  std::vector<engine::grant_id> renewals_written_;  // likewise
  bool cleanups_are_due_ = false;                   // the present connection has not written all that is owed
  std::unique_ptr<sim_levels> levels_;
  std::vector<std::unique_ptr<actor>> actors_;
  std::deque<actor_plan> adoptions_;  // what the actors do that are there for detached holds only
  bool in_input_ = false;

  void turn_is_over(sim_acquisition const& a);

  friend class observer;
  friend class sim_levels;
  struct request {
    int name;
    nanos written;
  };
  std::unordered_map<engine::grant_id, request> open_ids_;  // may own, or be queued, on the server
  std::unordered_set<engine::grant_id> dead_ids_;           // a release or leave was written for them
  std::unordered_map<std::uint64_t, int> locks_of_ids_;     // by the count of the id
};

}  // namespace conch::sim
