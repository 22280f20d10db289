// The judge of a simulated world. It sees everything, in true time, and says which promise of
// the design (section 1) a schedule has broken.
#pragma once

#include "protocol/wire.hpp"
#include "sim/judges/lock_history.hpp"
#include "sim/model/redis_model.hpp"
#include "sim/worlds/keys_of_lock.hpp"
#include "sim/worlds/plan.hpp"

#include <conch/error.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace conch::sim {

class world;
class sim_client;
struct sim_acquisition;
struct several_locks;
struct link;
struct guarded_write;
struct sim_order;

/// In place of a promise: an assertion in the code that is simulated.
constexpr int of_an_assertion = 99;
/// Likewise: no order of the operations explains what the users were told.
constexpr int of_the_history = 98;

struct violation : std::runtime_error {
  violation(int promise_number, std::string const& words)
      : std::runtime_error{name_of(promise_number) + ": " + words},
        promise{promise_number} {}
  int promise;

 private:
  static std::string name_of(int promise_number) {
    if (promise_number == of_an_assertion) return "assertion";
    return promise_number == of_the_history ? "history" : "P" + std::to_string(promise_number);
  }
};

// What the server has about one lock.
struct lock_state {
  bool readable = true;  // false: the key holds something else
  bool owned = false;
  std::string owner;
  std::int64_t fence = 0;
  char state = 'h';
  std::int64_t expires_ms = 0;
  std::vector<std::pair<std::string, std::int64_t>> line;  // id, ticket
  std::int64_t line_expires_ms = 0;
  std::int64_t kept_fence = 0;
  std::int64_t fence_expires_ms = 0;
};

class observer {
 public:
  observer(world& w, plan const& p);
  virtual ~observer() = default;

  // ---- on the server ----
  // `by`: the connection it comes from; null: not one of our clients.
  virtual void before(std::span<std::string_view const> argv, link const* by);
  virtual void after(std::span<std::string_view const> argv, value const& reply);
  // ... at another server than the master: a replica, or a former master that takes itself for one
  void asked_elsewhere(std::span<std::string_view const> argv, redis_model& at);
  void answered_elsewhere(std::span<std::string_view const> argv, value const& reply);
  virtual void first_fence(int name, std::int64_t fence);
  virtual void data_lost();              // all of it, or an unknown part
  virtual void lock_tampered(int name);  // by an operator
  // ... by the scripts for that; `pushed` in order
  using owner_fences = std::map<std::string, std::int64_t>;  // by owner
  virtual void ordered(int name);
  void told_end(std::string_view push);
  virtual owner_fences owners_of(int name) const;
  virtual void forced(int name, owner_fences const& owners, std::vector<std::string> const& pushed, bool more_to_do);
  void requested(owner_fences const& owners, bool surely);
  // A script that may free a lock, and the watchers (observer_watchers.cpp).
  struct freeing {
    int name = -1;       // less than 0: none
    std::size_t of = 1;  // how many calls the script carries out
    bool owned = false;
    bool alerted = false;  // the key exists that marks watchers
    std::vector<std::string> watchers{};
  };
  freeing about_to_free(std::span<std::string_view const> argv) const;
  void freed(freeing const& by, value const& reply);
  void watched(int name, sim_client const& c, std::vector<std::int64_t> const& answer);
  virtual bool owns(guarded_write const& w) const;
  static void guarded(guarded_write const& w, bool owns, value const& reply);
  virtual std::int64_t limit_set_of(int) const { return 0; }  // 0: nobody has set one
  virtual void limit_set(int, std::int64_t, bool, bool) {}    // or perhaps set, when the script failed
  void told_of_force(sim_acquisition const* a) const;
  void misdescribed(std::string const& id) {
    misdescribed_.insert(id);
  }  // as a permit that it is not; nobody believes that
  // a grant, by a stranger that knows the id
  void forged(std::string const& id);
  void revoked_falsely(std::string const& id) { revoked_falsely_.insert(id); }  // likewise
  virtual void fence_spoilt(int name);                                          // by an operator, or mended
  virtual void clock_shows(std::int64_t ms);                                    // of the server
  void drops_connection(sim_client const& c, std::string_view why) const;
  void roles_changed();
  // Another server is the master, and may not have all that was written.
  void promoted();
  void told_of_switch(int client);
  // A node has not carried out a script: it is not the one, or not now.
  virtual void redirected();
  // On a second connection: locks are renewed, and then a WAIT answers.
  void renewed(link const& by, std::span<std::string_view const> argv);
  void waited(link const& by, std::int64_t replicas);
  // A Sentinel knows of that master.
  void sentinel_knows(std::size_t sentinel, std::size_t server);
  void connected(sim_client& c);
  void second_connected(sim_client const& c);
  void node_connected(sim_client& c, std::shared_ptr<link> const& l);  // of a Cluster
  void clock_forward();
  // A fault has something to do with what happens before that; with a client: to that one's connection.
  void trouble(nanos until, int client = -1);
  // In a Cluster: acquires may have to wait until then, and holds cannot be renewed until then and a round trip.
  void slots_in_trouble(nanos until, nanos unwell_until);
  void former_master_knows(std::size_t shard);
  void denied(nanos until);  // users may not do what they need
  void order_failed(sim_client const& c, std::string const& who, int name, nanos asked_at, error_code const& why) const;
  void refused();  // the server answers with errors

  // ---- in the clients ----
  virtual void asked(sim_acquisition& a);
  virtual void answered(sim_acquisition& a, bool granted);
  void failed(sim_acquisition const& a, error_code const& why);
  void attempt_failed(sim_acquisition const& a, bool busy, error_code const& why);
  void found_busy(sim_acquisition const& a);
  void several_answered(sim_client const& c, several_locks const& s, bool granted) const;
  virtual void released(sim_acquisition& a);  // asked to be
  virtual void release_answered(sim_acquisition& a, bool was_held, bool failed);
  void extended(sim_acquisition& a, bool is_held, error_code why);
  void told_of_request(sim_acquisition& a);
  void watcher_ended(sim_order const& one, std::string const& who, error_code why) const;
  void watcher_hears(sim_order const& one) const;
  virtual void detaching(sim_acquisition& a);  // asked to be
  virtual void detached(sim_acquisition& a, error_code why);
  virtual void lost(sim_acquisition& a);
  virtual void gone(sim_acquisition& a);  // with its process
  virtual void writes(sim_client& c, protocol::command const& what);
  virtual void checked(sim_client& c);               // after every input
  void script_was_unknown() { ++unknown_scripts_; }  // NOSCRIPT: it is written again
  void told_ticket(sim_client const& c, engine::grant_id id, std::int64_t ticket);
  void shows_ticket(sim_client const& c, protocol::acquire_command const& question) const;

  // ---- at the end ----
  virtual void nothing_owned_by_the_living();
  void nothing_left();
  virtual void cost();
  lock_history const& what_users_saw() const { return history_; }

 protected:
  struct spent {
    std::uint64_t checks = 0, late = 0, doubted = 0, kicks = 0, pushes = 0;
    nanos shortest = 0;
    std::uint64_t extensions = 0;
  };
  spent spent_by_all() const;
  static void not_over(std::string const& what, std::uint64_t spent, std::uint64_t allowed);
  int named(std::string_view key) const;
  std::string owner_id(sim_acquisition const& a) const;
  std::size_t receivers(std::string_view id, int name) const;
  bool is_told(std::string_view next, int name, bool given_back) const;
  bool comes_back(std::string_view id) const;
  nanos last_pause_of(std::string_view id) const;
  bool is_wanted(std::string_view id, int name) const;
  void passed_over(std::string_view id, int name) const;
  void judge_force(int name, owner_fences const& owners, std::vector<std::string> const& pushed) const;
  void not_too_late(sim_acquisition const& a) const;
  bool undisturbed(std::weak_ptr<link> const& connection, nanos since) const;
  bool is_of_the_living(std::string const& key) const;
  static bool looks_after(sim_client const& c, nanos since);
  nanos patience_with(sim_client const& c) const;

  std::int64_t least_kept_ms() const;
  // observer_requests.cpp
  void not_handed_on_though_asked(sim_acquisition const& a) const;
  void heard_of_requests(sim_acquisition const& a) const;
  bool knows_request(sim_acquisition const& a) const;
  struct request_seen {
    nanos at;
    std::int64_t fence;  // of the grant: the same id may be granted the lock again
  };
  std::map<std::string, request_seen> requests_;  // by the id of the owner: when it was last asked to let go
  std::unordered_set<std::string> heard_;         // the owners that were told
  std::uint64_t requests_told_ = 0;
  // observer_watchers.cpp
  bool alerted(int name) const;
  std::vector<std::string> watchers_of(int name) const;
  std::map<int, nanos> free_at_;                               // when a script last freed that lock
  std::map<std::pair<int, std::string>, nanos> said_free_at_;  // when a client was last told so by an answer
  std::map<std::string, nanos> told_free_at_;                  // when that watcher was sent a push
  // observer_holds.cpp
  static std::string holder_words(sim_acquisition const& a);
  void record_grant(sim_acquisition const& a);
  std::optional<nanos> well_since(sim_client const& c, int name) const;
  std::optional<nanos> well_since(sim_client const& c, int name, std::chrono::milliseconds lease) const;
  time_point to_be_told_by(sim_acquisition const& a) const;
  void look_at_hold(sim_acquisition& a);
  std::int64_t end_of_delay(sim_acquisition const& a) const;
  void note_delay(sim_acquisition const& a);
  void not_within_delay(int name, std::string_view owner) const;
  void note_interval(sim_acquisition const& a);
  void not_within_interval(int name, std::string const& who, std::string_view owner) const;
  void not_after_giving_up(sim_acquisition const& a) const;
  void told_in_time(sim_acquisition const& a) const;
  void warned_in_time(sim_acquisition const& a) const;
  void told_busy(int name, std::string_view id);
  void needless_loss(sim_acquisition const& a, bool disowned, bool server_has_it) const;
  bool let_go(sim_acquisition& a, error_code why, std::string const& who);
  void only_one_adopts(std::string const& origin, std::string const& id, std::string const& who);
  void note_id(sim_acquisition& a) const;  // observer_synced.cpp
  // observer_replicas.cpp
  struct look_elsewhere {
    int name;
    redis_model* where;
    lock_state was;
  };
  std::vector<look_elsewhere> elsewhere_;
  // by owner id: the deadline that another server than the master gave
  std::unordered_map<std::string, time_point> orphans_;
  bool is_well(sim_client const& c, std::shared_ptr<link> const& l, nanos since) const;
  bool spoilt(int name) const;
  bool fence_spoilt_once(int name) const;
  bool denied_since(sim_client const& c, nanos asked_at) const;

  std::uint64_t unknown_scripts_ = 0;  // for the budget
  lock_history history_;
  world& world_;
  plan const& plan_;
  std::vector<std::string> keys_;
  bool forward_ = false;
  bool clock_steps_ = false;  // of the server, a failover included
  bool refuses_ = false;      // commands fail by themselves
  nanos denied_until_ = -1;   // users may not do what they need; before 0: never so far
  nanos trouble_until_ = 0;
  nanos unwell_until_ = 0;                 // of the server
  std::unordered_map<int, nanos> unwell_;  // of a client's connection
  nanos refused_at_ = -1;
  nanos redirected_at_ = -1;  // in a Cluster
  duration shortest_validity_{};
  std::unordered_set<std::string> released_as_owner_;
  std::unordered_set<std::string> released_as_nobody_;    // the first script said so
  std::map<std::pair<int, std::string>, nanos> busy_at_;  // by lock and client: when a script last said so
  std::unordered_set<std::string> forged_, revoked_falsely_, misdescribed_;
  std::unordered_set<std::string> taken_away_;            // "ID FENCE" of what an operator took, or wrote over
  std::unordered_set<std::string> detached_;              // ids that their clients have let go, and "ID FENCE"
  std::unordered_set<std::string> delayed_;               // ids that their clients have lost, with a delay after that
  std::unordered_map<std::string, std::string> adopted_;  // by origin: the adopters

 private:
  // What was handed to a client that may be dead, while more were waiting.
  struct hand_over {
    std::string next_owner;
    std::string releaser;  // client; or who asked, and passed on what it found free
    nanos at = 0;
    std::int64_t claim_over_ms = 0;
    std::weak_ptr<link> by;  // the connection it came from
    bool watched = false;
  };

 protected:
  // The clients that were told that a script has left something for the next.
  void needs_no_memory(value const& answer, bool not_renewed, std::string_view id) const;
  void not_there(std::string_view id);
  void not_handed_on_by_an_old_word(sim_acquisition const& a) const;
  void nobody_asked_in_time(int name, std::int64_t ended_ms, std::vector<std::string> const& line) const;
  struct left_over {
    std::string client;
    nanos at = 0;
    std::weak_ptr<link> by;
  };
  static bool told_of_more(bool acquires, bool releases, value const& reply);
  void judge_left_over(int name, left_over const& l) const;
  std::optional<left_over> left_by(std::string_view id, link const* by) const;
  std::uint64_t told_of_more_ = 0;

 private:
  struct lock_watch {
    std::optional<left_over> left;
    std::vector<sim_acquisition*> active;  // granted, neither released nor dead
    std::vector<sim_acquisition*> waiting;
    std::int64_t highest_granted = 0;  // fencing token, delivered
    std::int64_t highest_written = 0;  // server part, on the server
    // the last by a former master: the master may give the same in the same microsecond
    std::int64_t written_elsewhere = 0;
    // the end of the last owner's lease, by the server's clock; 0: it has given it back
    std::int64_t owner_until_ms = 0;
    std::int64_t delayed_until_ms = 0;      // by the server's clock: the end of the delay after a loss
    std::int64_t granted_us = 0;            // by the server's clock: the last grant by a server ...
    std::string granted_to;                 // ... and its id
    std::int64_t interval_until_us = 0;     // by the server's clock: the end of the minimum interval ...
    std::string interval_of;                // ... since the grant of that id
    std::int64_t kept_until_ms = 0;         // until then, by the server's clock, that is not forgotten
    std::int64_t disowned = 0;              // grants up to this one were taken away by force
    nanos disowned_at = 0;                  // the last time
    nanos last_end = 0;                     // of a valid hold
    std::map<int, time_point> slice_began;  // by client
    hand_over passed;

    // When each of those that ask or hold last did anything, and when any other did.
    static constexpr nanos never = -1'000'000 * second;
    std::uint64_t last_to_stir = 0;
    nanos last_stir = never, stir_of_others = never;
    void stirred(std::uint64_t who, nanos now) {
      if (who != last_to_stir) stir_of_others = last_stir;
      last_to_stir = who;
      last_stir = now;
    }
    nanos stirred_by_others(std::uint64_t than) const { return than == last_to_stir ? stir_of_others : last_stir; }
  };

  // One script on one lock: what it was told, and what was there.
  struct step {
    int name;
    bool acquires, releases;  // neither: renews, or adopts
    bool adopts = false;
    std::string_view origin = {};  // "ID FENCE"
    std::string_view id, new_id;
    std::int64_t fence = 0;  // of the grant that a renewal means; 0: any
    bool keep = false, waits = false;
    bool patient = false;
    bool deaf = false;      // the client to be queued is not subscribed
    bool late = false;      // by a connection that its client has left
    bool together = false;  // a try, in one script with others
    bool gathered = false;  // one of several commands in one script
    std::size_t index = 0;  // of a renewal, such a try or such a command, in its script
    std::int64_t lease = 0, claim = 0, retention = 0, ticket = 0;
    std::int64_t ends_in = 0;  // a release within the minimum interval
    lock_state was;
  };

  void add_steps(std::span<std::string_view const> argv);
  lock_state look(int name) const;
  lock_state look(int name, keys_of_lock const& keys) const;
  // observer_replicas.cpp
  bool has_it(sim_acquisition const& a) const;
  bool may_be_orphan(sim_acquisition const& a) const;
  void look_for_orphan(sim_acquisition& a, bool heard);
  bool same_server_granted(sim_acquisition const& a, sim_acquisition const& other) const;
  void asked_the_master(sim_client const& c, char const* since) const;
  bool only_roles_change() const;
  // observer_cluster.cpp
  void asked_the_node(sim_client const& c, std::size_t node, char const* since) const;
  bool only_slots_and_masters() const;
  // observer_synced.cpp
  nanos time_of_a_wait() const;
  nanos quick_since() const;
  bool may_be_acknowledged(sim_client const& c, nanos since) const;
  void look_for_claims(sim_client& c);
  void not_replicated(sim_acquisition const& a, error_code const& why) const;
  std::set<std::pair<int, int>> unacknowledged_;  // client and lock: a claim, when it was last looked at
  // locks, and ids of permits, that were renewed then, and of which a WAIT will tell
  std::map<link const*, std::map<std::pair<int, std::string>, nanos>> batches_;
  struct count_of_wait {
    nanos renewed_at = 0, told_at = 0;
  };
  // by client, lock, id of a permit and number of replicas: the last WAIT that told that
  std::map<std::tuple<int, int, std::string, std::int64_t>, count_of_wait> counts_;
  lock_watch& watch(int name) { return locks_[static_cast<std::size_t>(name)]; }
  bool is_believed(sim_acquisition const& a) const;
  bool is_disowned(sim_acquisition const& a) const;
  bool is_forged(sim_acquisition const& a) const;
  void judge_forged(sim_acquisition const& a) const;
  void judge(step const& s, lock_state const& is, value const& reply);
  void judge_adoption(step const& s, lock_state const& is, value const& reply);
  void judge_try(step const& s, lock_state const& is, value const& reply) const;
  void judge_owner(step const& s, lock_state const& is);
  void judge_new_owner(step const& s, lock_state const& is);
  void judge_line(step const& s, lock_state const& is, value const& reply);
  void judge_hand_over(step const& s);
  void judge_free_line(step const& s);
  bool is_current(link const& l) const;
  bool may_not_know_yet(link const& l) const;
  void judge_renewal(step const& s, lock_state const& is, value const& reply) const;
  void judge_confirmed(step const& s, std::string_view id, lock_state const& is) const;
  void judge_echo(step const& s, lock_state const& is) const;
  void nothing_forgotten(sim_client& c);
  void backed_by_server(sim_acquisition const& a);
  void waited_too_long(sim_acquisition const& a);

  std::vector<lock_watch> locks_;
  std::vector<step> steps_;
  link const* by_ = nullptr;
  bool clobbers_ = false;
  std::unordered_map<std::string, std::int64_t> tickets_;  // as the clients were told
  // ids that a server did not find when they were to be renewed
  std::set<std::string> lost_in_between_;
  std::unordered_map<std::string, nanos> not_before_;  // when a waiter may ask again, if nothing is wrong

  // for the budget
  std::uint64_t asked_ = 0, owners_ = 0, claims_ = 0, gave_up_ = 0;
  std::uint64_t acquire_scripts_ = 0, release_scripts_ = 0, renew_scripts_ = 0;
  nanos waited_ = 0, held_ = 0;
  std::uint64_t extensions_ = 0;
};

}  // namespace conch::sim
