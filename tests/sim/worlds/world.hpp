// A simulated world: true time, one server with a clock of its own and, where roles change, its replicas, the network
// between them and the clients, and the faults of the plan. Everything in it follows from the plan.
#pragma once

#include "engine/admin_request.hpp"
#include "servers/redis/url.hpp"
#include "sim/judges/chains_judge.hpp"
#include "sim/judges/observer.hpp"
#include "sim/model/redis_model.hpp"
#include "sim/worlds/event_queue.hpp"
#include "sim/worlds/explorable.hpp"
#include "sim/worlds/keys_of_lock.hpp"
#include "sim/worlds/plan.hpp"
#include "sim/worlds/random.hpp"
#include "sim/worlds/sim_sentinels.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace conch::sim {

class sim_client;
class world;

// What hold::async_detach tells, and what becomes of it.
struct detached_hold {
  int name = 0;
  std::string origin;
  int first_index = 0;
  nanos lease = 0;
  nanos hold = 0;           // how long the adopter has it
  std::uint32_t share = 0;  // of a lock with several owners
};

// A write of a user that the server carries out only for the owner (conch::write_guard).
struct guarded_write {
  int name = 0;
  std::string id;
  std::int64_t fence = 0;        // the server's part
  std::int64_t least_share = 0;  // 0: of a mutex
};

// One TCP connection. What is under way in it outlives both ends.
struct link {
  struct piece {
    nanos at = 0;
    std::string bytes;
    bool end = false;  // FIN, or RST
  };
  struct direction {
    std::deque<piece> under_way;
    nanos last = 0;  // nothing overtakes
    nanos stalled_until = 0;
  };

  link(int of, std::uint64_t of_process, std::uint64_t seed)
      : number{seed},
        client{of},
        process{of_process},
        random{seed} {}

  std::uint64_t const number;  // no other has it
  int client;
  std::uint64_t process;  // which life of that client
  std::size_t node = 0;   // of the servers
  bool greeted_by_replica = false;
  redis_model::connection_id id = 0;
  bool accepted = false;
  bool client_open = true;
  bool server_open = false;
  bool cut = false;  // nothing sent from now on arrives
  direction up, down;
  std::string received;  // by the server, not yet a whole command
  enum class trap : std::uint8_t { none, before, after, late } trap = trap::none;
  nanos trap_notice = 0;
  nanos trap_latest = 0;
  std::int64_t credentials = 0;  // the last that it was shown: their number
  random_source random;
};

using link_ptr = std::shared_ptr<link>;

// The stream of what is under way in that link.
std::uint64_t stream_of(link const& l, bool up);

// Takes one command off the front; false: it is not all there yet. What comes here our own encoder has written.
bool next_command(std::string_view& bytes, std::vector<std::string_view>& argv);

// Writes down what happens, in words, if it is going to be read.
class trace {
 public:
  bool on = false;
  std::vector<std::string> lines;
};

class world final : private explorable {
 public:
  world(plan const& p, bool traced, steps* order = nullptr);
  ~world();

  // Until everything has come to its end, or a promise is broken: then throws violation.
  void run();

  nanos now() const { return now_; }
  template <class F>
  void after(nanos delay, F&& what) {
    at(now_ + delay, std::forward<F>(what));
  }
  template <class F>
  void at(nanos when, F&& what) {
    events_.at(std::max(when, now_), std::forward<F>(what));
  }
  // The steps to choose from while this world is explored; else null.
  steps* order() const { return order_; }
  bool tracing() const { return trace_.on; }
  void say(std::string line);
  std::vector<std::string> const& lines() const { return trace_.lines; }

  plan const& schedule() const { return plan_; }
  observer& watcher() { return *observer_; }
  chains_judge* chains_watcher() { return chains_.get(); }  // null: no world of chains
  redis_model& server() { return nodes_[master()].model; }  // the one that decides, where there is only one
  keys_of_lock keys_of(int name);
  bool is_at_master(link const& l) const { return l.node == master(nodes_[l.node].shard); }
  // It has been replaced, and takes itself for the master still.
  bool is_superseded(link const& l) const { return nodes_[l.node].takes_writes && !is_at_master(l); }
  // The server that decides about that lock: the master whose slot it is in, or the only one.
  std::size_t decides(int name) const { return master(shard_of(name)); }
  std::size_t shard_of(int name) const;
  std::size_t shard_of_node(std::size_t number) const { return nodes_[number].shard; }
  // How often something has happened to slots or masters.
  std::uint64_t changes() const { return changes_; }
  // How many connections of that client are subscribed where the lock is decided.
  std::size_t listeners(int name, std::string_view client) const;
  bool stood_still(link const& l, nanos since) const { return nodes_[l.node].frozen_until >= since; }
  // Which of the servers is the master, and since when. Another one may not know yet that it is no longer the master.
  std::size_t master(std::size_t of_shard = 0) const { return shards_[of_shard].master; }
  nanos time_to_reroute() const;  // of a client that is well: it learns of it, connects, and asks
  nanos promoted_at(std::size_t of_shard = 0) const { return shards_[of_shard].promoted_at; }
  // All replicas are connected to the master; and since when.
  bool all_follow(std::size_t of_shard = 0) const;
  nanos all_follow_since(std::size_t of_shard = 0) const { return shards_[of_shard].all_follow_since; }
  bool follows(std::size_t server) const { return nodes_[server].follows; }
  std::uint64_t term_of(std::size_t server) const { return nodes_[server].term; }
  std::size_t address_of(int client) const { return addresses_[static_cast<std::size_t>(client)]; }
  // How many masters there were before it; 0: it has not been one.
  int order_of(std::size_t server) const { return nodes_[server].order; }
  std::int64_t server_us(nanos true_time) const;
  nanos true_time_of_server_ms(std::int64_t unix_ms) const;
  bool memory_is_full() const { return memory_is_full_; }
  /// May a command of a script fail for another reason?
  bool commands_fail() const { return commands_fail_; }
  std::vector<std::unique_ptr<sim_client>> const& clients() const { return clients_; }
  /// The client is told of it after that time; less than 0: nobody is.
  void send_detached(int to, nanos delay, detached_hold const& d);
  /// Arrives at the server after that time, over no connection of a client's.
  void send_guarded(guarded_write const& w, nanos delay);
  std::uint64_t executed() const { return executed_; }
  bool healing() const { return healing_; }

  // ---- what clients do to the network ----

  void connect(link_ptr const& l);  // ends in sim_client::accepted or connection_lost
  void send(link_ptr const& l, std::string bytes);
  void hang_up(link_ptr const& l);
  // The client's machine is gone: its end says nothing any more.
  void go_silent(link_ptr const& l, nanos server_notices);

  // ---- a Cluster: world_cluster.cpp
  static constexpr int port_of_nodes = 6379;
  static std::string host_of_node(std::size_t number);
  static int slot_of(int name);
  // The nodes that the URL of a client names.
  redis::cluster_url seeds_for(int client) const;
  // By a client that is not ours.
  value ask_node(std::size_t at, std::span<std::string_view const> argv, bool asking = false);
  redis_model& model_of(std::size_t number) { return nodes_[number].model; }
  std::size_t nodes() const { return nodes_.size(); }
  bool is_master(std::size_t number) const { return master(nodes_[number].shard) == number; }

  // ---- and to Sentinels: world_sentinels.cpp
  nanos sentinel_delay(sentinel_line& l, bool up);
  void to_sentinel(sentinel_line_ptr const& l, std::string bytes);
  // The client knows of no later master than that.
  void named(int client, std::size_t server);

  std::uint64_t new_process() { return ++processes_; }
  // To an order of this client, lately.
  bool was_said(std::string_view client, std::string_view script, int name, engine::admin_result const& result) const;

 private:
  struct node;
  nanos delay(link& l);
  void push(link_ptr const& l, bool up, std::string bytes, bool end);
  void pump(link_ptr const& l, bool up);
  void reach(link_ptr const& l);
  void lose(link& l, bool up);
  // world_explored.cpp
  void explore();
  // explorable
  nanos time() const override { return now_; }
  nanos next_timer() const override;
  void pass_until(nanos until) override;
  bool is_over(bool waiting) const override;
  std::vector<steps::fault> possible_faults() override;
  footprint paused() const override;
  std::uint64_t digest_of_servers() const override;
  void say_explored(std::string_view words) override { say(std::string{words}); }
  void soon(std::function<void()> what) override {
    after(0, [what = std::move(what)] { what(); });
  }
  bool is_possible(fault_plan const& f) const;
  void strike(fault_plan f);
  void deliver_later(link_ptr const& l, bool up, std::string bytes, bool end);
  void by(nanos latest, link const& l, bool up, footprint touched, std::function<void()> what);
  void serve(link_ptr const& l, std::string const& bytes);
  void execute(link_ptr const& l, std::span<std::string_view const> argv);
  void distribute(std::size_t node, std::vector<redis_model::pushed> const& pushes);
  // world_replicas.cpp
  void make_nodes();
  void replicate(std::size_t from);
  void catch_up(std::size_t at, std::uint64_t until);
  void quicken_replicas();
  void change_roles(fault_plan const& f);
  // world_cluster.cpp
  bool apply_to_servers(fault_plan const& f);
  bool troubles_slots(fault_plan const& f);
  void form_cluster();
  std::size_t shard_of_key(std::string_view key) const {
    return slot_owners_[static_cast<std::size_t>(redis_model::slot_of(key))];
  }
  bool may_decide(std::size_t at, std::string_view key) const;
  bool is_changing(std::size_t of_shard) const;
  void hears_news(std::size_t at);
  void spread_news(nanos within);
  void move_slot(fault_plan const& f);
  bool move_key_of(int slot);
  void end_move(fault_plan const& f, int slot);
  void fail_over(fault_plan const& f);
  void becomes_master(std::size_t next);
  void becomes_replica(std::size_t old);
  void misdirect(fault_plan const& f);
  void take_cluster_down(fault_plan const& f);
  void spread(std::size_t from);
  bool is_redirected(value const& reply) const;
  void lose_master(fault_plan const& f);
  void promote(fault_plan const& f, std::size_t old);
  void demote(fault_plan const& f, std::size_t old);
  void tell_of_switch(fault_plan const& f);
  void move_address(int client);
  void follow_master(std::size_t at);
  void take_over(std::size_t next);
  std::size_t replica_for(fault_plan const& f, std::size_t old) const;
  void acknowledge(std::size_t replica, std::int64_t offset);
  void answer_waits(std::size_t at);
  void drop_killed(node& n);
  void read_on(link_ptr const& l);
  void stop_node(std::size_t at, bool silent);
  // world_sentinels.cpp
  void make_sentinels();
  void tell_sentinels(fault_plan const& f);
  void all_sentinels_know();
  void sentinel_hears(std::size_t number, std::size_t server, std::int64_t epoch);
  bool is_liar(std::size_t sentinel) const { return plan_.last_sentinel_lies && sentinel + 1 == sentinels_.size(); }
  std::string answer_of_sentinel(sentinel_line_ptr const& l, std::vector<std::string_view> const& argv);
  void close_server_end(link_ptr const& l, bool tell);
  void break_link(link_ptr const& l, nanos client_notices, nanos server_notices);
  void refuse_until(int client, nanos until);
  link_ptr link_of(int client);
  link_ptr link_for(fault_plan const& f);
  void apply(fault_plan const& f);
  void stop_server(fault_plan const& f, bool keep);
  void inject(fault_plan const& f);
  void intrude(int name);
  void force(int name, int variant);
  void forge(int name, int variant);
  void set_limit(int name, int limit);
  value order(std::string_view script, int name, std::string_view number, std::vector<std::string>& pushed);
  void heal();
  // world_orders.cpp
  void clobber(fault_plan const& f);
  bool another_kind_takes(fault_plan const& f, std::string const& key);
  struct order_in_hand {
    std::string script;
    int name;
    std::int64_t number;  // a fence, a limit
    std::int64_t by = 0;  // how a limit is to change
    bool if_unset = false;
    std::int64_t set_before = 0;  // the limit that had been set; 0: none
    observer::owner_fences owners;
    bool at_master;
    std::vector<std::int64_t> goes_on_from = {};  // what the script before it answered
  };
  static void watch_channels(redis_model& model);
  static bool is_order(std::string_view script);
  order_in_hand take_order(std::string_view script, std::span<std::string_view const> argv, bool at_master);
  void order_carried_out(order_in_hand const& o, link const& by, value const& reply,
                         std::vector<redis_model::pushed> const& pushes);
  void deny(fault_plan const& f, link_ptr const& l);
  void refuse_greetings(fault_plan const& f, link_ptr const& l);
  void slow_down(fault_plan const& f);
  void set_clock();
  bool all_done() const;
  void nobody_waits_for_ever() const;
  void settle_and_judge();
  void admin(std::initializer_list<std::string_view> argv);

  plan plan_;
  nanos now_ = 0;
  event_queue events_;
  steps* order_ = nullptr;  // now
  steps* const explores_;   // from plan::explored_from on
  nanos limit_ = 0;         // by then every actor has had its turn
  trace trace_;
  random_source random_;
  struct batch {
    std::uint64_t number;
    std::vector<redis_model::effect> effects;
    std::int64_t offset;  // of the master behind them
  };
  struct node {
    redis_model model;
    std::size_t shard = 0;
    std::map<redis_model::connection_id, link_ptr> by_id = {};
    bool takes_writes = true;              // it takes itself for the master
    std::uint64_t term = 1;                // how often it has
    int order = 0;                         // among those that were the master
    bool follows = false;                  // what the master writes is sent to it ...
    std::deque<batch> stream = {};         // ... and is on its way
    nanos delay = 0;                       // how long that takes
    std::int64_t ahead_us = 0;             // of the clock of the first
    bool down = false, silent = false;     // silent: and nobody says so
    nanos frozen_until = 0;                // what arrives waits until then
    std::map<int, std::size_t> lies = {};  // by slot: the node that it is told has it
  };
  std::int64_t server_us(nanos true_time, node const& of) const;
  std::vector<node> nodes_;  // a server, and its replicas
  // A master and its replicas. There is one, but in a Cluster.
  struct shard {
    std::size_t master = 0;  // of the nodes
    int masters = 0;         // that there were after the first
    nanos promoted_at = -1;  // when it was made the master and something may have been lost; less than 0: never
    nanos all_follow_since = 0;
    bool switching = false;  // the master before it does not know yet
    std::uint64_t batches = 0;
  };
  std::vector<shard> shards_;
  std::vector<std::uint8_t> slot_owners_;  // in a Cluster: the shard of each slot
  struct move {
    std::size_t from, to;  // shards
    bool decided = false;  // the new owner has it
  };
  std::map<int, move> moves_;  // by slot
  std::uint64_t changes_ = 0;
  struct sentinel_state {
    std::size_t server = 0;   // the master, as far as it knows ...
    std::size_t address = 0;  // ... which a leader names before that
    std::int64_t epoch = 1;
    std::vector<std::weak_ptr<sentinel_line>> lines = {};  // that are subscribed
  };
  std::vector<sentinel_state> sentinels_;
  std::int64_t epoch_ = 1;                              // of the last failover
  std::vector<std::vector<nanos>> cut_from_sentinels_;  // by client and Sentinel: nothing passes before
  std::vector<std::size_t> addresses_;                  // by client: where its new connections go
  std::int64_t stepped_us_ = 0;
  bool memory_is_full_ = false;       // inside scripts
  bool commands_fail_ = false;        // the same, for another reason
  std::vector<nanos> refused_until_;  // by client: it gets no connection before
  bool healing_ = false;
  int letters_ = 0;  // detached holds that will be passed to an adopter
  redis_model replica_;
  std::vector<std::weak_ptr<link>> links_;
  std::vector<std::unique_ptr<sim_client>> clients_;
  std::unique_ptr<observer> observer_;
  std::unique_ptr<chains_judge> chains_;
  struct saying {
    std::string client, script;
    int name;
    std::vector<std::int64_t> numbers;
  };
  std::deque<saying> said_;
  nanos slow_until_ = 0, slow_by_ = 0;
  std::uint64_t processes_ = 0;
  std::uint64_t executed_ = 0;
  std::uint64_t ports_ = 40000;
};

}  // namespace conch::sim
