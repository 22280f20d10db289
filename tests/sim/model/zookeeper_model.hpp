// An ensemble of ZooKeeper servers in virtual time: a leader that decides, followers that lag, sessions that the leader
// ends. What a client sees of it is that of Apache ZooKeeper 3.8; how servers elect a leader is not modelled, only what
// an election leaves.
#pragma once

#include "sim/model/zookeeper_tree.hpp"
#include "sim/worlds/event_queue.hpp"
#include "sim/worlds/random.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace conch::sim {

class digest;

class zookeeper_model {
 public:
  using connection_id = std::uint64_t;

  struct settings {
    std::size_t servers = 3;  // 1: standalone
    nanos tick = 2 * second;
    nanos shortest_session = 0, longest_session = 0;  // 0: 2 and 20 ticks
    int sync_limit = 5;                               // ticks: how long a follower and its leader wait for each other
    nanos latency = 0, jitter = 0;                    // one way between two servers
    nanos write_time = 0;                             // until a server has a proposal on its disk
    nanos election = 500 * millisecond;
    nanos check_containers = 60 * second;
    std::int64_t epoch_ms = 1'700'000'000'000;  // what their clocks show when it begins
    std::int32_t first_sequence = 0;            // of every container
    bool lists_in_order = false;                // of names; else in no order
    std::uint64_t seed = 1;
  };

  // The owner of the connections. Called at once, and calls nothing back.
  class outside {
   public:
    virtual void greeted(connection_id c, zookeeper::connect_response const& r) = 0;
    virtual void answered(connection_id c, zookeeper::request const& to, zookeeper::reply const& r) = 0;
    virtual void answered_ping(connection_id c, std::int64_t zxid) = 0;
    virtual void noticed(connection_id c, zookeeper::notice const& n) = 0;
    virtual void closed(connection_id c) = 0;              // by the server
    virtual void decided(zookeeper_transaction const&) {}  // the first server has it
    virtual void happened(std::string) {}

   protected:
    ~outside() = default;
  };

  // `now` is that of `events`.
  zookeeper_model(settings s, event_queue& events, nanos const& now, outside& out);
  ~zookeeper_model();
  zookeeper_model(zookeeper_model const&) = delete;
  zookeeper_model& operator=(zookeeper_model const&) = delete;

  // ---- clients. What they send arrives now.
  bool is_up(std::size_t server) const;  // a process accepts connections, and may end them
  bool serves(std::size_t server) const;
  connection_id connect(std::size_t server);
  void greet(connection_id c, zookeeper::connect_request const& r);
  void ask(connection_id c, zookeeper::request const& r);
  void disconnect(connection_id c);  // the server notices that the client is gone

  // ---- faults
  // Between two servers nothing passes, and nobody notices; what is under way passes when it thaws.
  void freeze(std::size_t a, std::size_t b);
  void thaw(std::size_t a, std::size_t b);
  void crash(std::size_t server);
  void start(std::size_t server);
  // All servers are down. They have lost everything and start as a new ensemble, which counts its epochs and
  // transactions from the beginning. Their clocks show at least as much more time as the leaders so far had to last for
  // tokens to grow: 2^32 us each (docs/design/zookeeper.md). Nobody would simulate these hours.
  void build_anew();
  // By a client that is not ours.
  void write(std::string const& path);
  // The leader loses its followers, and another server is elected if there is one.
  void depose();
  // What the clock of the server shows that is ahead of the others, since 1970.
  std::int64_t latest_clock_ms() const;
  void set_clock(std::size_t of, std::int64_t ppm) { servers_[of].ppm = ppm; }

  // ---- to look at it
  std::size_t size() const { return servers_.size(); }
  // The one whose word counts: of the highest epoch; nobody may be leading.
  std::optional<std::size_t> leader() const;
  bool follows_well(std::size_t server) const;
  zookeeper_tree const& tree(std::size_t of) const { return servers_[of].tree; }
  // What a majority has.
  zookeeper_tree const& truth() const { return servers_[latest_].tree; }
  std::size_t watches(std::size_t server) const;
  /// All that the servers know, if nothing is under way between them, and lists are in order.
  void add_to(digest& d) const;
  nanos min_timeout() const {
    return settings_.shortest_session != 0 ? settings_.shortest_session : 2 * settings_.tick;
  }
  nanos max_timeout() const { return settings_.longest_session != 0 ? settings_.longest_session : 20 * settings_.tick; }

 private:
  enum class role : std::uint8_t { down, looking, following, leading };
  using txn_ptr = std::shared_ptr<zookeeper_transaction const>;

  // A connection between a follower and its leader.
  struct peering {
    std::size_t follower, leader;
    bool follower_open = true, leader_open = true;
    std::deque<std::function<void()>> held_up, held_down;  // while it is frozen
    nanos last_up = 0, last_down = 0;
    nanos heard_by_follower = 0, heard_by_leader = 0;
    std::size_t acknowledged = 0;  // entries of the log

    /// What waits refers to this.
    void forget() {
      held_up.clear();
      held_down.clear();
    }
  };
  using peering_ptr = std::shared_ptr<peering>;

  struct question {
    zookeeper::request what;
    std::uint64_t number = 0;  // of a write or a sync; 0: a read
    std::optional<zookeeper::reply> answer;
  };
  struct connection {
    std::size_t server = 0;
    std::int64_t session = 0;
    int timeout_ms = 0;
    bool greeted = false;
    std::deque<question> questions;
    std::set<std::string> watches;
    std::set<std::string> users;  // the users as which it has authenticated
    std::uint64_t opening = 0;    // the question of its session
  };
  struct tracked {
    int timeout_ms = 0;
    nanos expires = 0;  // by the leader's clock
    bool closing = false;
    std::optional<std::size_t> owner;  // the server of its connection
  };

  struct server {
    role is = role::looking;
    std::uint64_t service = 0;  // what was begun in an earlier service is void
    bool serving = false;
    std::int64_t ppm = 0;
    int epoch = 0;
    std::vector<txn_ptr> log;
    std::size_t committed = 0;
    zookeeper_tree tree;
    std::set<connection_id> connections;
    std::map<std::string, std::set<connection_id>, std::less<>> watches;
    std::map<std::uint64_t, connection_id> questions;  // that the leader decides
    // A follower
    peering_ptr to_leader;
    std::set<std::int64_t> touched;
    // The leader
    zookeeper_tree ahead;  // with all that is proposed
    std::vector<peering_ptr> learners;
    std::size_t written = 0;  // of its log
    nanos last_write = 0;
    std::int32_t counter = 0;  // of transactions in this epoch
    std::map<std::int64_t, tracked> sessions;
    // by what is to be committed first: server and question
    std::multimap<std::size_t, std::pair<std::size_t, std::uint64_t>> syncs;
  };

  std::size_t majority() const { return servers_.size() / 2 + 1; }
  nanos local(server const& s) const { return now_ + now_ / 1'000'000 * s.ppm; }
  nanos after_local(server const& s, nanos length) const { return length - length / 1'000'000 * s.ppm; }
  template <class F>
  void after(nanos delay, F&& what) {
    events_.at(now_ + delay, std::forward<F>(what));
  }
  template <class F>
  void in_service(std::size_t at, nanos delay, F what);
  bool frozen(std::size_t a, std::size_t b) const { return frozen_[a][b] != 0; }
  void say(std::string words) { out_.happened(std::move(words)); }

  // Between servers
  void post(peering_ptr const& p, bool up, std::function<void()> what);
  void deliver(peering_ptr const& p, bool up, std::function<void()> const& what);
  void follower_leaves(std::size_t at);
  void leader_drops(peering_ptr const& p);
  void step_down(std::size_t at);
  void stop_serving(std::size_t at);
  void look_for_leader();
  void elect();
  void lead(std::size_t at, std::vector<std::size_t> const& with);
  void join(std::size_t at, std::size_t leader);
  void half_tick(std::size_t at);
  void expire(std::size_t at);
  void collect(std::size_t at);
  void watch_leader(std::size_t at);

  // The leader
  void decide(std::size_t leader, std::size_t asked_at, std::uint64_t number, std::int64_t session,
              std::set<std::string> const& who, zookeeper::request const& r);
  void open_session(std::size_t leader, std::size_t asked_at, std::uint64_t number, std::int64_t session,
                    int timeout_ms);
  void revalidate(std::size_t leader, std::size_t asked_at, connection_id c, std::int64_t session);
  bool touch(std::size_t leader, std::int64_t session);
  void propose(std::size_t leader, zookeeper_transaction t);
  void advance(std::size_t leader);
  void sync(std::size_t leader, std::size_t asked_at, std::uint64_t number, std::int64_t session);
  void tell_synced(std::size_t leader, std::size_t asked_at, std::uint64_t number);

  // Any server
  void commit(std::size_t at, std::size_t up_to);
  void decided(std::size_t at, zookeeper_transaction const& t);
  void answer(std::size_t at, std::uint64_t number, zookeeper::reply r);
  void finish_greeting(connection_id c, bool valid);
  void go_on(connection_id c);
  void close(connection_id c);
  void forget(connection_id c);
  void authenticate(connection_id c, zookeeper::add_auth const& a);
  zookeeper::reply read(connection_id c, zookeeper::request const& r);
  static std::string password_of(std::int64_t session);

  settings const settings_;
  std::int64_t epoch_ms_;
  event_queue& events_;
  nanos const& now_;
  outside& out_;
  random_source random_;
  std::vector<server> servers_;
  std::vector<std::vector<int>> frozen_;
  std::map<connection_id, connection> connections_;
  connection_id last_connection_ = 0;
  std::uint64_t last_question_ = 0;
  std::int64_t last_session_ = 0;
  int epoch_ = 0;
  bool electing_ = false;
  std::size_t shunned_ = SIZE_MAX;  // not to be elected again if there is another
  std::vector<peering_ptr> peerings_;
  std::size_t latest_ = 0;  // the server with the most that is committed
};

}  // namespace conch::sim
