// A small Redis in memory, for deterministic simulation: the commands and scripts a lock needs,
// with the replies and error texts of Redis 7.0.15. redis_model_differential_test.cpp compares it
// with a real server.
//
// It has no clock, no socket and no randomness: time is what set_time_us says, a command runs when
// execute is called. One model belongs to one thread at a time.
//
// Known differences from the real server:
//  - A key whose time has passed goes when it is touched or by expire_cycle(), never by itself. After
//    a clock step back an untouched one is alive again, as on a server whose cycle had not run.
//  - Time does not pass in a script at all (7.0 freezes it for expiry only, 7.2 for TIME too).
//  - The members of a set are in order; the fields of a hash are as first set, whatever their
//  number.
//  - What is not modelled is an unknown command, or an error that begins with "ERR model:".
#pragma once

#include "sim/model/redis_value.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace conch::sim {

class digest;

class redis_model {
 public:
  // The CLIENT ID. Grows over one run of the server and starts again after restart(), so an id
  // alone does not name a connection forever: that is what CLIENT KILL has to live with.
  using connection_id = std::uint64_t;

  static constexpr std::int64_t default_time_us = 1'700'000'000'000'000;

  explicit redis_model(std::int64_t unix_us = default_time_us);
  redis_model(redis_model&&) noexcept;
  redis_model& operator=(redis_model&&) noexcept;
  ~redis_model();

  // The server's clock. May go back.
  void set_time_us(std::int64_t unix_us);
  /// Distinguishes this server from others of a world: the ids of its runs differ from theirs.
  void set_number(unsigned number);
  std::int64_t time_us() const;

  // ---- connections and commands ----

  // `address` is what the server sees: "10.0.0.1:4711". A connection begins in RESP2, as a real
  // one.
  connection_id connect(std::string address);
  void disconnect(connection_id who);
  bool connected(connection_id who) const;

  // The reply, of kind `none` where all that comes back are pushes (SUBSCRIBE) or nothing (not
  // connected). Types are those of RESP3 whatever the connection speaks; append_resp() knows
  // how they look in RESP2.
  value execute(connection_id who, std::span<std::string_view const> argv);

  struct pushed {
    connection_id to = 0;
    value message;
    bool after_reply = false;  // see set_own_pushes_after_reply
  };

  // The pushes since last asked, in order. Unless marked, a push to the connection that caused it
  // goes before the reply to the command that caused it.
  std::vector<pushed> take_pushes();

  // Redis 7.0 sends a message that a command publishes to its own connection before the reply to
  // that command; from 7.2 on it comes after it.
  void set_own_pushes_after_reply(bool after);

  // Connections closed by CLIENT KILL since last asked. A connection that kills itself is still
  // sent its reply.
  std::vector<connection_id> take_killed();

  // ---- the life of the server ----

  // Connections, scripts, untaken pushes and kills are gone; faults, settings and counts stay.
  void restart(bool keep_data);

  // Takes over the other's keys: a failover to a replica, or a restored backup.
  void copy_data(redis_model const& other);

  // ---- a master and its replicas ----

  struct impl;
  struct cluster;

  // What a command left behind, as a master tells its replicas: a key as it is now, with the time
  // at which it ends, or a message for the subscribers of a channel.
  using effect = std::function<void(impl&)>;

  // Keeps the effects of what it carries out from now on, for take_effects().
  void replicate();
  std::vector<effect> take_effects();
  void apply(effect const& what);

  // A replica is read-only. Its connections stay what they are, but those that wait (WAIT) are closed with an error.
  void set_replica(bool replica);

  // Grows with every effect. What was written up to it a replica has that acknowledges it; one that is forgotten does
  // not count.
  std::int64_t offset() const;
  void acknowledge(std::size_t replica, std::int64_t offset);
  void forget(std::size_t replica);

  // Redis 7.0 lets WAIT wait for all that was written up to the last command of its connection, of whatever kind, and
  // by whomever; from 7.2 on up to the last command of its connection that wrote something.
  void set_waits_for_own_writes(bool own);

  // The connection is in a WAIT that is not answered: what it sends is not carried out yet.
  bool waits(connection_id who) const;

  // Answers to WAITs of which enough replicas have acknowledged, or whose time has passed; in the order in which they
  // began.
  std::vector<pushed> take_waited();

  // ---- a node of a Cluster ----

  struct node {
    std::string id;
    std::string host;
    int port = 0;
  };

  static constexpr int slot_count = 16384;
  static int slot_of(std::string_view key);  // of what stands between its first { and the next }, if that is not empty

  // From now on it is this node of a Cluster. It knows of no slot whose master is there: "Hash slot not served".
  void join_cluster(node self);

  // The node that serves the slots from first to last, as far as this node knows. Subscribers here to channels of slots
  // that leave are told (sunsubscribe).
  void assign_slots(int first, int last, node const& master);

  // The master of this replica, whose slots it knows and whose channels may be listened to here. Beside set_replica().
  void set_master(node const& master);

  // A slot that is on its way, key by key. An empty node: it is not.
  void set_migrating(int slot, node const& to);
  void set_importing(int slot, node const& from);

  // MIGRATE: the key goes, as it is. False: it is not here.
  bool move_key(std::string_view key, redis_model& to);

  // In Redis from 7.2 on, not in Valkey, the channels of SUNSUBSCRIBE are looked for among the keys: while their slot
  // leaves, the answer is ASK.
  void set_unsubscribed_channels_are_keys(bool keys);

  // It has lost the other masters: CLUSTERDOWN to all commands that name a key.
  void set_cluster_down(bool down);

  // What PUBLISH has for all other nodes and SPUBLISH for the replicas of its master, since last asked.
  struct bus_message {
    bool sharded = false;
    std::string channel;
    std::string message;
  };
  std::vector<bus_message> take_bus_messages();
  void deliver(bus_message const& what);

  // What Redis does ten times a second: removes the expired keys.
  void expire_cycle();

  void require_password(std::string password);             // of the user "default"; empty: none needed
  void set_config(std::string name, std::string setting);  // for CONFIG GET

  // ---- looking in from outside; these see no expired key, and remove none ----

  struct key_info {
    std::string name;
    std::string type;
    std::optional<std::int64_t> expires_at_ms;  // unix time
    int database = 0;
  };

  std::size_t key_count() const;
  std::vector<key_info> keys() const;  // by database and name
  bool erase(std::string_view key, int database = 0);

  // A string as bulk, a hash as map, a set as set, a sorted set as array of [member, score];
  // nil if there is no such key.
  value peek(std::string_view key, int database = 0) const;

  // A string as it lies there; null if there is none. Until the next command.
  std::string const* text_at(std::string_view key, int database = 0) const;

  // The expiry of a key that exists and has one.
  std::optional<std::int64_t> expires_at_ms(std::string_view key, int database = 0) const;

  // All that its answers from now on depend on, but not its faults.
  void add_to(digest& d) const;

  // Receivers a PUBLISH to this channel would have, or an SPUBLISH.
  std::size_t subscriber_count(std::string_view channel) const;
  std::size_t shard_subscriber_count(std::string_view channel) const;

  // ---- faults; a name the model does not know throws std::invalid_argument ----

  enum class where : std::uint8_t {
    anywhere,
    client,  // sent by a client
    script   // called by a script
  };

  struct fault {
    std::string command;    // "publish", "client|kill"; empty: any command
    std::string error;      // the whole text: "OOM command not allowed ..."
    std::size_t skip = 0;   // let this many matching calls pass first
    std::size_t times = 1;  // then make this many fail
    where applies = where::anywhere;
  };

  static constexpr std::size_t always = std::numeric_limits<std::size_t>::max();

  // A call that fails this way has no effect. The first fault that matches counts.
  void inject(fault what);
  void fail_next(std::string_view command, std::string_view error, std::size_t times = 1);
  void clear_faults();

  // The user may not run this command ("publish", "client|kill"): NOPERM to a client, and what
  // Redis makes of that inside a script.
  void deny(std::string_view command);
  void allow(std::string_view command);

  // At maxmemory with noeviction. As in Redis a script that has written once may go on writing.
  void set_out_of_memory(bool out);

  // A script may touch only the keys that it was given, as on Dragonfly and in ElastiCache Serverless.
  void demand_declared_keys();

  // ---- statistics ----

  // Executions of a command ("get", "client|kill"), including those from scripts, and failing
  // ones; not those refused before they ran (unknown, denied, injected).
  std::uint64_t calls(std::string_view command) const;
  std::map<std::string, std::uint64_t> calls() const;  // those that are not zero
  void reset_calls();

 private:
  std::unique_ptr<impl> impl_;
};

}  // namespace conch::sim
