// A simulated world of several independent servers, each with a clock of its own, and clients that keep one lock on a
// majority of them: the real engine, quorum and scripts, a network that delays and breaks, faults, and a judge.
// Everything follows from the seed.
#pragma once

#include "engine/cohort.hpp"
#include "quorum/quorum.hpp"
#include "resp/decoder.hpp"
#include "sim/judges/observer.hpp"
#include "sim/judges/user_history.hpp"
#include "sim/model/redis_model.hpp"
#include "sim/worlds/event_queue.hpp"
#include "sim/worlds/explorable.hpp"
#include "sim/worlds/random.hpp"
#include "sim/worlds/sim_connection.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace conch::sim {

struct quorum_outcome {
  int promise = 0;  // 0: none was broken
  std::string words;
  std::vector<std::string> trace;
  std::uint64_t grants = 0, given_back = 0, fence_rounds = 0;
  std::uint64_t calm_grants = 0, overtakings = 0, calm_given_back = 0;  // with nobody ill
  bool in_history = false;  // if one was broken: does it show in what users were told alone?
};

quorum_outcome run_quorum(std::uint64_t seed, bool traced = false);

class quorum_client;

class quorum_world final : private explorable {
 public:
  // A grant id; nothing is allocated for it.
  class id_text {
   public:
    id_text() = default;
    id_text(std::string_view text) : size_{static_cast<unsigned char>(text.size())} {
      if (text.size() > sizeof text_) throw violation{10, "an id that is too long: " + std::string{text}};
      std::copy(text.begin(), text.end(), text_);
    }
    operator std::string_view() const { return {text_, size_}; }
    bool empty() const { return size_ == 0; }
    friend bool operator==(id_text const& a, id_text const& b) { return std::string_view{a} == std::string_view{b}; }

   private:
    unsigned char size_ = 0;
    char text_[71];
  };

  // The lock as a script left it, and whose vote it is.
  struct seen_lock {
    id_text owner;  // empty: nobody
    char state = 0;
    std::int64_t fence = 0, kept_fence = 0, ends_ms = 0;
    nanos since = 0;            // owned by that id, or free
    bool looked_after = false;  // a script has named the id since, or nobody can know of it
  };

  struct link;

  struct server {
    redis_model model;
    std::vector<seen_lock> locks;   // by name
    std::vector<id_text> forsaken;  // votes that ended by themselves just now
    // their releases were denied for good: their places stay in the queue
    std::vector<id_text> denied;
    // their releases were refused for now: they are repeated after a pause
    std::vector<id_text> put_off;
    // their releases wait for the next in the queue to connect again
    std::vector<id_text> patient;
    std::map<redis_model::connection_id, std::shared_ptr<link>> links;  // of this run
    nanos disturbed = 0;                                                // the last time anything was wrong with it
    std::int64_t offset_us = 0, ppm = 0;
    bool up = true, set_back = false;
    nanos stalled_until = 0;
    nanos slow_by = 0, slow_until = 0;  // answers late, and is there
    std::string_view says;              // instead of carrying out a script ...
    nanos says_until = 0;               // ... until then
    nanos votes_from = 0;               // min_server_uptime: not before then
    std::int64_t started_us = 0;        // as its clock showed it
    nanos emptied_at = -1;              // the last time it lost all it had; less than 0: never
  };

  // One connection. What is under way in it when it breaks is lost.
  struct link {
    int client, server;
    std::uint64_t process;
    std::uint64_t number = 0;  // no other has it
    redis_model::connection_id id = 0;
    bool client_open = true, server_open = false, cut = false;
    bool deaf = false;             // nothing comes back any more
    std::int64_t credentials = 0;  // the last that it was shown: their number
    nanos last_up = 0, last_down = 0;
    nanos up_since = 0, held_up_until = 0;  // until then what was sent stays in some buffer
    std::string arrived;                    // not read by the server yet
    resp::decoder commands;
  };
  using link_ptr = std::shared_ptr<link>;

  quorum_world(std::uint64_t with_seed, bool traced);
  /// A small one, in which every order is tried. The plan outlives it.
  quorum_world(plan const& small, int servers, bool traced, steps& order);
  ~quorum_world();
  void run();
  user_history const& what_users_saw() const { return history_; }

  std::uint64_t const seed;
  nanos now() const { return now_; }
  template <class F>
  void after(nanos delay, F&& what) {
    events_.at(now_ + std::max<nanos>(delay, 0), std::forward<F>(what));
  }
  /// To the trace, if it is going to be read: texts and numbers.
  template <class... T>
  void say(T const&... words) {
    if (!traced_) return;
    lines.push_back(std::to_string(now_ / microsecond) + " us  ");
    (add(lines.back(), words), ...);
  }
  random_source& random() { return random_; }

  // What clients do to the network.
  link_ptr connect(int client, int to);  // ends in quorum_client::accepted or lost_link
  bool reachable(int client, int which) const;
  void send(link_ptr const& l, std::string bytes);
  void hang_up(link_ptr const& l, bool silently);

  // The judge.
  void granted(struct quorum_hold& h);
  void ended(struct quorum_hold& h);
  void whole(struct quorum_hold const& h);
  void asks(struct quorum_hold& h);
  void stirs(struct quorum_hold const& h);
  void present(struct quorum_hold const& h);
  void answered(struct quorum_hold& h, bool failed, bool no_attempt, std::string const& words);
  void lost(struct quorum_hold& h);
  void checked(quorum_client const& c);  // after every input
  void writes(quorum_client& c, protocol::acquire_command const& what);
  void extended(struct quorum_hold& h, bool is_held, error_code why);
  void releases(struct quorum_hold& h);
  void release_answered(struct quorum_hold& h, bool at_once, bool was_held, bool failed);

  // The schedule.
  int servers_count = 5, names = 1;
  std::size_t needed = 3;
  bool strict = false, calm = false, fresh_rule = false, bursts = false;
  // Nobody is ill, but the network is slow now and then, to most servers at a time.
  bool slow = false;
  // A server far ahead of the others, from which a client seldom receives anything, and clients that die when they have
  // been granted.
  bool seldom = false;
  // Clocks of servers may be set, within what fences allow; keys of others may be in the way of the lock.
  bool steps_of_clocks = false, foreign = false;
  // Clients may not CLIENT KILL.
  bool no_kill = false;
  // They get their credentials from a provider, and others all the time.
  bool credentials = false;
  // A lease has been ended early, by a step ahead or by hand: P1, P3 and P9 are not judged any more.
  bool forgot = false;
  nanos lease = 0, claim = 0, latency = 0, jitter = 0;
  std::uint64_t new_process() { return ++processes_; }
  std::uint64_t new_serial() { return ++serials_; }
  // now and then something is as much longer on its way, for no reason
  static constexpr nanos spike = 20 * millisecond;
  nanos slowest() const { return slow ? std::min(claim / 4, lease / 12) : 0; }
  std::vector<std::string> lines;
  quorum_outcome result;

 private:
  friend class quorum_client;

  static void add(std::string& line, std::string_view text) { line += text; }
  static void add(std::string& line, std::integral auto n) { line += std::to_string(n); }

  void add_server(std::int64_t offset_us, std::int64_t ppm);
  void add_clients(int count);
  void heal_and_settle();
  nanos delay();
  bool reach(link_ptr const& l);
  bool concerns_its_client(link const& l) const;
  void receive(link_ptr const& l, std::string const& bytes);
  void arrive(link_ptr const& l, std::string const& bytes);
  void read(link_ptr const& l);
  void execute(link_ptr const& l, std::span<std::string_view const> argv);
  std::span<std::string_view const> as_executed(std::span<std::string_view const> argv, bool script);
  void answer(link_ptr const& l, std::string bytes);
  void refuse(link_ptr const& l, std::span<std::string_view const> argv);
  void refuse_call(link_ptr const& l, std::span<std::string_view const> argv);
  void cut(link_ptr const& l, nanos client_notices, nanos server_notices);
  void set_clock(server& s);
  std::int64_t clock_us(server const& s) const;
  void stop_server(int which, bool keep, nanos length);
  void plan_faults();
  void strike();
  void ask_slowly(quorum_client& c, int slowest_server);
  void break_connections(int client, int which, nanos latest);  // the client notices by then
  void forget();                                                // sets `forgot`
  void forget_everything();
  void answer_errors(int which, nanos length);
  void answer_errors_at_several(int first, nanos length);
  void be_slow(int which, nanos length);
  void trouble(nanos until) { trouble_until_ = std::max(trouble_until_, until); }
  nanos youth() const { return lease + 2 * second; }  // of a server, with fresh_rule: it has no vote
  bool may_vote(quorum_client const& c, int which, nanos since) const;
  std::size_t well_servers(quorum_client const& c, nanos since,
                           struct quorum_hold const* with_votes_of = nullptr) const;
  nanos patience(quorum_client const& c) const;
  void answered_in_time(struct quorum_hold const& h) const;
  static bool is_vote_of(struct quorum_hold const& h, std::string_view id);
  void mended(struct quorum_hold const& h);
  void waited_too_long(struct quorum_hold const& h);
  void nothing_left();
  void open_windows();
  std::int64_t farthest_us() const;
  void half_cut(link_ptr const& l, nanos client_notices, nanos arrives);
  void step_clock(int which);
  void ill(server& s, nanos until);
  void revive(quorum_client& c, nanos in);
  void patrols(int which);
  void be_in_the_way(int which, nanos length);
  void delete_by_hand(int name);
  void by_hand(int which, std::initializer_list<std::string_view> words, int name);

  // quorum_explored.cpp
  void explore();
  nanos time() const override { return now_; }
  nanos next_timer() const override;
  void pass_until(nanos until) override;
  bool is_over(bool waiting) const override;
  std::vector<steps::fault> possible_faults() override;
  footprint paused() const override;
  std::uint64_t digest_of_servers() const override;
  void say_explored(std::string_view words) override { say(words); }
  void soon(std::function<void()> what) override {
    after(0, [what = std::move(what)] { what(); });
  }
  bool is_possible(fault_plan const& f) const;
  void strike(fault_plan const& f);
  link_ptr link_for(fault_plan const& f) const;
  std::uint64_t number_of_dial(int client, int to);
  void connect_later(link_ptr const& l);
  void deliver_later(link_ptr const& l, bool up, std::string_view content, std::function<void()> what);
  void by(nanos within, link_ptr const& l, bool up, std::function<void()> what);
  void close_at_server(link& l);
  void deafen(link_ptr const& l);

  // quorum_judge.cpp: what each script has done to each lock
  struct step {
    int name = 0;
    std::size_t index = 0;  // in a confirmation
    bool gathered = false;  // with others in one script, at this place
    std::size_t place = 0;
    id_text id;
    std::int64_t lease = 0, floor = 0;
    bool confirms = false, acquires = false, tries = false, releases = false, stays = false;
    bool of_now = true;  // the client has not given up the connection
    seen_lock was;
  };
  seen_lock look(server& s, int name) const;
  void patrol(int which);
  void forsaken(int which, id_text const& id, nanos since);
  std::vector<step> steps_of(int which, std::span<std::string_view const> argv);
  std::vector<step> steps_of_call(int which, std::span<std::string_view const> argv);
  void judge(int which, step const& one, value const& reply, bool too_late);
  void judge_holds();
  void judge_fence(struct quorum_hold const& h);
  void given_up(struct quorum_hold const& h);
  static bool goes_on(quorum_client& c, int name, id_text const& votes);
  void nothing_left_of(quorum_client& c, int name, id_text const& votes, nanos since);
  std::size_t servers_where(int name, nanos since, std::function<bool(server&, seen_lock const&)> const& holds);
  void given_back(int which, step const& one);
  void refused_at(int which, step const& one);
  void confirmed_at(int which, step const& one, nanos heard);
  void asked_for(int which, step const& one, seen_lock const& is);
  bool linked(int client, int which, nanos since) const;
  bool well(quorum_client const& c, int which, nanos since) const;
  void has_vote(struct quorum_hold& h, int which);
  void told_in_time(struct quorum_hold& h);
  int named(std::string_view lock_name) const;
  template <class F>
  bool pass_until(nanos until, F const& done);

  plan const* const small_ = nullptr;  // where every order is tried
  steps* const explores_ = nullptr;    // from plan::explored_from on
  steps* order_ = nullptr;             // now
  std::vector<std::uint64_t> dials_;   // of each client to each server
  bool traced_;
  nanos now_ = 0;
  std::int64_t epoch_us_ = 1'700'000'000'000'000;
  event_queue events_;
  random_source random_;
  std::vector<std::unique_ptr<server>> servers_;
  std::vector<std::unique_ptr<quorum_client>> clients_;
  std::vector<link_ptr> links_;
  std::uint64_t processes_ = 0, serials_ = 0;
  int ports_ = 40000;
  bool healing_ = false;
  int revivals_ = 0;         // to come
  nanos trouble_until_ = 0;  // all faults so far have ended by then
  bool errors_ = false;      // servers have answered scripts with errors
  nanos spiked_ = -second;   // the last time that something was long on its way for no reason
  // A release that a caller waits for: at which servers it has ended the hold.
  struct release_watch {
    quorum_client* client;
    std::uint64_t process, serial;
    id_text votes;       // what the ids of the hold's votes begin with
    std::int64_t fence;  // what gives up an earlier attempt does not tell of it
    nanos since;
    std::uint32_t mine = 0, known = 0;  // the servers that had it until that release; those of which the client knew
  };
  struct watch {
    std::vector<struct quorum_hold*> active, waiting;
    std::vector<release_watch> releases;
    int tries = 0;             // not answered
    std::int64_t highest = 0;  // fence
    nanos highest_at = 0;
    nanos free_since = 0;
    // When each of those that ask or hold last did anything, and when any other did.
    std::uint64_t last_to_stir = 0;
    nanos last_stir = -1000 * second, stir_of_others = -1000 * second;
    std::set<std::uint64_t> present;                        // ask or hold, also tries
    std::map<std::pair<int, std::string>, int> given_back;  // since the last grant: by server, client and ticket
    std::set<std::string, std::less<>> granted;             // what the ids of votes begin with that have become holds
  };
  std::vector<watch> locks_;
  user_history history_{0, {}};
  std::vector<std::string> keys_, fence_keys_, lock_names_;  // of the locks
  std::vector<std::string_view> argv_, changed_argv_;
  std::vector<bool> window_;  // of each client, to the server that seldom reaches it
  random_source troubles_;    // of its own: what is drawn of it moves nothing else
};

// One acquire of one coroutine, and the hold it becomes.
struct quorum_hold : engine::acquisition {
  quorum_client* client = nullptr;
  int coroutine = 0, name = 0;
  std::uint64_t serial = 0;
  acquire_key in_history;
  nanos asked_at = 0, granted_at = 0;
  nanos wait_began = 0;  // of the first of its client that has waited without a gap until now
  bool active = false, told = false, cancelled = false;
  bool superseded = false;  // another has been granted
  bool waiting = false;     // not answered
  bool alone = false;       // the lock is free, and nobody else has asked for it since
  bool tries = false;
  std::uint64_t fence_rounds = 0;  // of its client, when it was asked for
  nanos cancelled_at = 0, released_at = 0;
  nanos patience = 0;  // that an answer to the release may need, as measured then
  engine::cancel_type cancelled_as{};
  std::int64_t ticket = 0;  // active: of its votes
  // Active: what the client believed last, for its whole lease or for a claim, and by when it is to be told of the end.
  time_point seen_deadline{}, tell_by{};
  bool full = false;
  bool brief = false;  // granted for so short a time that it may end before it can be confirmed
  bool released_valid = false;
  // Another lease was asked for; less than 0: no answer is due. The least of its leases, which the margin may be that
  // of.
  nanos extension_asked_at = -1;
  time_point extended_at{};
  duration least_lease{};
  // Active: since when nothing can have come between it and its vote; 0: there is none.
  std::array<nanos, quorum::most_servers> votes_since{};
  std::set<int> refusing{};  // servers that have said since that it is not ours
  // Active, by server: when it has confirmed its vote, and by when the client learns so; and since when it has reported
  // that it has none (0: it has not).
  struct word {
    nanos said, heard;
  };
  std::array<std::vector<word>, quorum::most_servers> confirmations{};
  std::array<nanos, quorum::most_servers> gone_since{};
  std::array<quorum_world::id_text, quorum::most_servers> votes{};
};

class quorum_client final : public engine::acquisition_events, public log_sink {
 public:
  friend class quorum_world;

  quorum_client(quorum_world& w, int number);
  ~quorum_client();

  void start();
  void die(bool silently);
  /// A new process on the same machine.
  void revive();
  void pause(nanos length);
  bool finished() const;
  std::string describe() const;
  bool settled() const;

  time_point local() const { return local_at(world.now()); }
  time_point local_at(nanos t) const { return time_point{duration{offset + t + t * ppm / 1'000'000}}; }
  // No earlier than when the clock shows t.
  nanos true_time(time_point t) const {
    nanos found = t.time_since_epoch().count() - offset;
    for (int i = 0; i < 4; ++i) found += (t - local_at(found)).count();
    return found + 1000;
  }
  /// At once, or when the process goes on.
  template <class F>
  void input(F&& what) {
    if (!alive) return;
    if (paused) {
      inbox_.emplace_back(std::forward<F>(what));
      return;
    }
    what(local());
    finish_input();
  }
  void accepted(quorum_world::link_ptr const& l);
  void lost_link(quorum_world::link_ptr const& l, std::string_view why);
  void receive(quorum_world::link_ptr const& l, std::string const& bytes);

  quorum_world& world;
  int const number;
  bool owns(std::string_view grant_id) const {
    return grant_id.size() > id.size() && grant_id[id.size()] == '.' && grant_id.starts_with(id);
  }

  bool alive = false, paused = false;
  int slow_at_next = -1;  // a server: at the next acquire the client is slow to ask, and that server is the slowest
  nanos disturbed = 0;    // the last time it was still
  std::uint64_t process = 0;
  nanos offset = 0;
  std::int64_t ppm = 0;
  config settings;
  std::string id;
  statistics stats;
  sim_entropy nonces;
  random_source leases;  // of its own: what is drawn of them moves nothing else
  timer_queue timers;
  std::unique_ptr<quorum::quorum> owner;
  std::unique_ptr<engine::cohort> cohort;

 private:
  // The way to one server.
  struct way final : protocol::wire, protocol::wire_events, sim_connection::shell {
    quorum_client* client = nullptr;
    int server = 0;
    protocol::server* protocol = nullptr;
    quorum_world::link_ptr link;
    std::unique_ptr<sim_connection> connection;
    std::string why_dropped;

    void send(protocol::command const& c) override;
    void want_connection() override { connection->want(); }
    void drop_connection(std::string_view why) override;

    void connected_as(protocol::session const& s, time_point now) override;
    void connect_failed(protocol::fault what, std::string_view words, time_point now) override {
      protocol->receiver().connect_failed(what, words, now);
    }
    void disconnected(std::string_view why, time_point now) override;
    void answered(protocol::answer const& a, time_point now) override { protocol->receiver().answered(a, now); }
    void pushed(protocol::push const& p, time_point now) override { protocol->receiver().pushed(p, now); }

    void later(nanos delay, std::function<void(time_point)> what) override;
    nanos until(time_point t) override { return std::max<nanos>(client->true_time(t) - client->world.now(), 0); }
    void open(sim_connection& c) override;
    void write(sim_connection& c, std::string bytes) override;
    void hang_up(sim_connection& c) override;
    void note(sim_connection& c, log_level level, std::string_view words) override;
  };
  struct notice {
    enum class kind : std::uint8_t { acquired, lost, released } what;
    quorum_hold* about;
    bool granted = false;
  };
  struct coroutine {
    actor_plan const* todo = nullptr;  // where every order is tried; else all is drawn
    int left = 0;                      // operations
    bool busy = false;
    std::uint64_t round = 0;
    std::unique_ptr<quorum_hold> hold;
  };

  void on_acquired(engine::acquisition& a, engine::acquired how, error_code why) override;
  void on_lost(engine::acquisition& a, error_code why) override;
  void on_released(engine::acquisition& a, bool was_held, error_code why) override;
  void on_extended(engine::acquisition& a, bool is_held, error_code why) override;
  void note(bool, std::string_view words) override { world.say("client ", number, " notes: ", words); }

  void finish_input();
  void rearm();
  void hear(notice const& n);
  void think(int which);
  void cancel_after(nanos delay, int which, engine::cancel_type type);
  engine::cancel_type draw_cancel_type();
  void ask(int which, time_point now);
  void draw(quorum_hold& h, time_point now);
  void draw_cancellations(int which);
  // quorum_explored.cpp
  void follow(client_plan const& p);
  operation const* planned(int which) const;
  void take_over(operation const& o, quorum_hold& h, time_point now) const;
  std::uint64_t stream_of_user();
  void look_at_timers();
  void extend(int which, time_point now);
  void leave(int which, time_point now);
  void next(int which);
  std::chrono::milliseconds some_lease();
  void later(int which, nanos delay, void (quorum_client::*what)(int, time_point));

  std::vector<std::unique_ptr<way>> ways_;
  std::deque<notice> notices_;
  std::deque<std::function<void(time_point)>> inbox_;
  std::vector<coroutine> coroutines_;
  // By name: the ticket that was shown last, and by which client.
  struct shown_ticket {
    std::int64_t ticket = 0;
    std::uint64_t serial = 0;
  };
  std::vector<shown_ticket> shown_;
  // For each lock the last time an acquire failed, and when the first that failed then had been asked for.
  std::vector<std::pair<nanos, nanos>> failed_;
  // Questions that were answered with an error: how many, and since when; by server, client and ticket.
  std::map<std::pair<int, std::string>, std::pair<int, nanos>> refused_;
  std::uint64_t steps_of_user_ = 0;
  bool in_release_ = false;
  std::uint64_t wake_version_ = 0;
  nanos wakes_at_ = never_;  // of this version
  static constexpr nanos never_ = -1;
  bool in_input_ = false;
};

}  // namespace conch::sim
