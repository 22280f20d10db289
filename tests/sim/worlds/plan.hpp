// All that is decided about a schedule before it begins. The plan is made from the seed alone, and
// a plan with parts taken out is a plan too: that is how a failing one is made small.
#pragma once

#include "engine/permit.hpp"

#include <conch/config.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace conch::sim {

// Nanoseconds of true time, which only the simulator knows, since the begin of the schedule.
using nanos = std::int64_t;

constexpr nanos microsecond = 1'000;
constexpr nanos millisecond = 1'000'000;
constexpr nanos second = 1'000'000'000;

constexpr std::int64_t greatest_change = 3;  // of a limit, up or down, by one order

// One acquire and what is done under the lock.
struct operation {
  enum class way : std::uint8_t { wait, timed, attempt };
  enum class cancels : std::uint8_t { never, total, partial, terminal };
  enum class orders : std::uint8_t { none, inspect, force, force_one, limit, request, request_one, wait_free, why };

  int name = 0;
  // a second lock taken under the first; but in a world of chains always a later name, so nobody deadlocks
  int inner = -1;
  bool inner_waits = false;  // for that one without end
  int inner_tries = 1;       // so often it is asked for, with a quarter of the hold between
  way how = way::wait;
  nanos think = 0;  // before it
  nanos patience = 0;
  nanos lease = 0;
  bool fixed = false;
  nanos max_hold = 0;  // 0: none
  nanos at_least = 0;  // the minimum interval until the next grant; 0: none
  nanos hold = 0;
  nanos after_loss = 0;  // how long the body goes on when told of the loss
  cancels cancel = cancels::never;
  nanos cancel_after = 0;
  cancels cancel_again = cancels::never;  // the same wait once more, this long after the first time
  nanos cancel_again_after = 0;
  bool abandon = false;
  std::uint32_t weight = 1;  // of a lock with several owners; 0: all that is free
  std::string visited = "-";
  std::vector<int> all;         // several locks at once, in this order; empty: `name` only
  orders order = orders::none;  // instead of an acquire
  nanos downgrade_after = 0;    // a writer becomes a reader, or gives permits back; 0: never
  std::uint32_t downgrade_to = 1;
  nanos extend_after = 0;                    // the hold is given another lease; 0: never
  nanos extend_to = 0;                       // that lease
  nanos guard_after = -1, guard_flight = 0;  // how long its guarded write is under way; less than 0: it sends none
  bool listens = false;                      // for requests of others ...
  bool lets_go = false;                      // ... and releases when it receives one
  bool detach = false;                       // instead of being released the hold leaves its client ...
  // ... and this client takes it over, and this one tries; less than 0: nobody
  int adopt_by = -1, adopt_too = -1;
  nanos adopt_after = 0, adopt_too_after = 0;
  nanos adopted_hold = 0;

  // One coroutine of an owner that acquires a reentrant lock.
  struct level {
    nanos after = 0;  // since the operation began
    bool writes = true;
    way how = way::wait;
    nanos patience = 0;
    cancels cancel = cancels::never;
    nanos cancel_after = 0;
    nanos hold = 0;
    nanos after_loss = 0;
    bool abandon = false;
  };
  // the owner of the levels; the same number in another client is another owner of a shared_mutex
  int owner = 0;
  std::vector<level> levels;  // empty: no owner acquires, but this coroutine
};

struct actor_plan {
  std::vector<operation> work;
};

struct client_plan {
  config settings;
  nanos clock_offset = 0;
  std::int64_t drift_ppm = 0;
  nanos start = 0;
  bool id_jumps = false;        // its ids begin like earlier ones of it
  bool without_nonces = false;  // its ids have none, as those of a client of 0.1.0
  std::vector<actor_plan> actors;
};

struct fault_plan {
  enum class kind : std::uint8_t {
    cut,             // the connection breaks; each side notices in its own time
    cut_before,      // ... when the next bytes arrive, before the server has acted on them
    cut_after,       // ... when the next bytes arrive, after the server has acted on them
    stall_up,        // nothing reaches the server for a while
    stall_down,      // nothing reaches the client for a while
    pause,           // the process is paused; its clock keeps running
    die,             // the process is gone; the system closes its connection
    vanish,          // the machine is gone; the server notices late
    close,           // the client is closed in good order
    server_restart,  // data kept
    server_wiped,    // data lost
    failover,        // to a replica that misses the last writes
    role_change,     // a server and its replica change roles, and nothing is lost
    promotion,       // a replica takes over at its offset, and the former master learns of it later
    cut_sentinel,    // nothing passes between a client and a Sentinel for a while
    // In a Cluster, all of the slot of a lock or of the master that has it:
    move_slot,     // key by key; its former master learns that it has ended `length2` later than the new one
    move_at_once,  // its master carries out nothing until then
    fail_over,     // a replica takes over, and has all that the master had
    cluster_down,  // CLUSTERDOWN, of that master or of all
    misdirect,     // a node names the wrong master of the slot; or two name each other
    step_back,
    step_forward,
    flush_scripts,
    delete_lock,
    clobber_lock,   // something else is written to its key
    refuse,         // scripts answer with an error for a while
    refuse_inside,  // a command inside a script fails
    intrude,        // a stranger tries to release and to renew
    force,          // an operator takes the lock away, by the script
    set_limit,      // an operator changes the limit of a semaphore
    // a stranger publishes grants or revocations of a lock: with ids that it guesses, or (variant & 1) has read
    forge,
    spoil_fence,      // an operator writes something into the key of the fence: a number near the limit, or none at all
    deny,             // the users may not do what they need, for a while
    refuse_greeting,  // the server refuses new connections with an error
    slow,             // the server answers late
  };

  kind what = kind::cut;
  nanos at = 0;
  nanos length = 0;   // of the fault, or until the client notices
  nanos length2 = 0;  // until the server notices, or until the restart
  int client = 0;
  int name = 0;
  int variant = 0;
  // The former master of a promotion. `length`: until then; `length2`: from then on until the former master is a
  // replica.
  enum class master_state : std::uint8_t {
    well,     // and sends its replicas all it writes, until one of them takes over
    cut_off,  // from its replicas
    killed,   // and comes back as a master
    frozen,   // and goes on as a master, with what has arrived meanwhile
  };
  master_state master_is = master_state::well;
  // how long after it the clients leave the former master, or the nodes of a Cluster know; less than 0: nobody tells
  // them
  nanos told = 0;

  // It is a trouble of one client, and the servers are well.
  bool concerns_one_client() const;
};

std::string to_words(fault_plan const& fault);
std::string to_words(operation const& work);

struct plan {
  std::uint64_t seed = 0;
  int names = 1;
  engine::permit_kind permits = engine::permit_kind::none;  // of all its locks
  std::uint32_t limit = 1;
  nanos latency = 0;  // one way, at least
  nanos jitter = 0;
  int spikes = 0;  // in a thousand messages
  nanos spike = 0;
  int splits = 0;  // writes that arrive in pieces, in a hundred
  nanos timer_lateness = 0;
  std::int64_t server_drift_ppm = 0;
  nanos connect_time = 0;
  nanos replication_delay = 0;  // to the first replica; to the second it is twice as much
  nanos slow_until = 0;         // until then it is slow_delay, for which a WAIT may be too short
  nanos slow_delay = 0;
  int replicas = 0;                   // from which one is promoted; 0: none, but where roles change there is one
  int shards = 0;                     // of a Cluster, each with a master and `replicas`; 0: there is none
  std::vector<int> first_shards;      // of the slots of the locks at the beginning, in turn
  bool synced = false;                // the clients take a hold only when all replicas have it (config::sync_replicas)
  bool waits_for_own_writes = false;  // WAIT, as since 7.2
  nanos replica_ahead = 0;            // of the clock of the server before it
  int sentinels = 0;                  // that name the master to the clients; 0: the world itself does
  int listed_sentinels = 0;           // how many of them the clients know from the beginning
  bool last_sentinel_lies = false;    // or lags: it never learns of a promotion
  bool may_kill = true;               // CLIENT KILL
  // a tool listens to all channels (PSUBSCRIBE): for a PUBLISH the dead seem to be there
  bool watched = false;
  bool own_pushes_after_reply = false;
  // the server removes what has expired at once; otherwise when it is touched
  bool expires_actively = false;
  // the server only comes and goes, and keeps its data: no waiter may be passed over
  bool in_order = false;
  // the scripts do so little at once that what is left for the next matters
  bool small_steps = false;
  bool timers_first = false;                      // on waking: timers before what the network brought
  std::int64_t epoch_us = 1'700'000'000'000'000;  // the server's clock when it begins
  std::vector<std::int64_t> first_fences;         // what the fence of each name is above; 0: there is none
  bool detaches = false;                          // holds change their clients, or end between two
  bool chains = false;                            // each coroutine is a task that others are told of
  bool declared_keys = false;                     // scripts may touch only the keys that they are given
  // a dead owner's lease is shorter than those before it, and nothing else happens
  bool leases_differ = false;
  bool credentials = false;               // the clients get theirs from a provider, and others all the time
  bool orders = false;                    // an operator takes locks away, or changes limits, through an engine
  std::size_t steps_in_one_turn = 1'000;  // in_one_turn
  // from then on every order is tried (steps.hpp); less than 0: the world is not explored ...
  nanos explored_from = -1;
  std::vector<fault_plan> possible = {};  // ... and these faults at every moment
  std::vector<client_plan> clients;
  std::vector<fault_plan> faults;

  bool is_explored() const { return explored_from >= 0; }
  bool may_change_roles() const;  // in a world that is explored
  // A fault of one of these kinds happens; one of this kind, to that lock.
  bool has(std::initializer_list<fault_plan::kind> kinds) const;
  bool has(fault_plan::kind what, int name) const;
  // The server refuses scripts for longer than that.
  bool refuses_for(nanos longer) const;
  // Nothing happens that could make a client wait longer than the network takes.
  bool calm() const { return faults.empty() && !orders && !detaches && spikes == 0 && may_kill && slow_until == 0; }
  // Whatever happens, it is to one lock alone, or to none.
  bool harms_no_other(int name, bool roles_may_change = false) const;
  nanos longest_lease() const;
  bool has_delays() const;     // the servers keep a lock for longer than its lease
  bool has_intervals() const;  // ... by acquire_options::at_least
  nanos longest_claim() const;
  // What a lock may outlive its lease by, because the server's clock goes back.
  nanos set_back() const;
};

plan make_plan(std::uint64_t seed);
// What is drawn for a plan besides (plan_wide.cpp).
void widen(plan& p);
void keep_holds(plan& p);  // no hold leaves its client
void make_standstill(plan& p);

// The same schedule, but all its locks have several owners.
plan make_permits_plan(std::uint64_t seed, engine::permit_kind kind);

// The same schedule, but each acquire wants several locks at once.
plan make_multi_plan(std::uint64_t seed);

// The same clients and their troubles, at a master with replicas that lag and take over.
plan make_replicas_plan(std::uint64_t seed);
// The same, and a hold is delivered when all replicas have it.
plan make_synced_plan(std::uint64_t seed);
// The same of locks with several owners, at a master that stays, with replicas that are sometimes too slow.
plan make_synced_permits_plan(std::uint64_t seed, engine::permit_kind kind);
// The same clients and their troubles, at a Cluster whose slots move and whose replicas take over.
plan make_cluster_plan(std::uint64_t seed);

// The same clients and their troubles where the servers keep what was lost (config::lock_delay), or was granted just
// now (acquire_options::at_least), and nobody takes locks away.
plan make_delays_plan(std::uint64_t seed);

// Tasks that wait for each other, some with deadlocks, and what ends them.
plan make_chains_plan(std::uint64_t seed);

std::string name_of(int name);
std::string key_of(int name);  // of the lock with that name

}  // namespace conch::sim
