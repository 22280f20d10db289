// A simulated world of an ensemble of ZooKeeper and clients that keep locks in it: the real engine, session and queue,
// a network that delays and breaks, faults of servers and of what is between them, and a judge. Everything follows from
// the seed.
#pragma once

#include "engine/cohort.hpp"
#include "servers/zookeeper/queue.hpp"
#include "sim/judges/observer.hpp"
#include "sim/judges/user_history.hpp"
#include "sim/judges/zookeeper_line_judge.hpp"
#include "sim/model/zookeeper_model.hpp"
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/event_queue.hpp"
#include "sim/worlds/explorable.hpp"
#include "sim/worlds/random.hpp"
#include "sim/worlds/zookeeper_lock_plan.hpp"
#include "support/zookeeper_life.hpp"

#include <concepts>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace conch::sim {

struct zookeeper_outcome {
  int promise = 0;  // 0: none was broken
  std::string words;
  std::vector<std::string> trace;
  std::uint64_t grants = 0, losses = 0, expired = 0, built_anew = 0, no_place_told = 0;
  std::uint64_t calm_remote_grants = 0, calm_lists = 0, calm_creations = 0;  // with nobody ill
  // For locks that may have several owners.
  std::uint64_t beside_others = 0, in_one_node = 0;             // grants
  std::uint64_t other_kind_told = 0, owner_elsewhere_told = 0;  // refusals
  std::uint64_t behind_intervals = 0;                           // grants that had to wait for the end of one
  bool in_history = false;  // if one was broken: does it show in what users were told alone?
};

enum class zookeeper_locks : std::uint8_t { mutexes, of_all_kinds, with_intervals };

zookeeper_outcome run_zookeeper(std::uint64_t seed, bool traced = false,
                                zookeeper_locks locks = zookeeper_locks::mutexes);
/// As the table of where mutants were seen names it, and the faults that this world shows.
std::string_view name_of(zookeeper_locks locks);
std::span<mutant const> mutants_of(zookeeper_locks locks);

class zookeeper_client;
struct zookeeper_hold;

class zookeeper_world final : private zookeeper_model::outside, private explorable {
 public:
  using message = std::variant<zookeeper::connect_request, zookeeper::request>;
  // A connection of a client to a server. What is under way in it outlives both ends.
  struct line {
    int client = 0;
    std::uint64_t process = 0;
    std::size_t server = 0;
    zookeeper_model::connection_id id = 0;
    bool client_open = true, server_open = false;
    bool cut = false;                 // nothing sent from now on arrives
    std::deque<message> under_way{};  // to the server
    nanos last_up = 0, last_down = 0, held_up_until = 0, slow_by = 0;
    bool deaf = false;         // nothing comes back any more
    std::uint64_t number = 0;  // no other has it
    int trap = -1;             // it breaks when this many more messages have arrived; less than 0: it does not
  };
  using line_ptr = std::shared_ptr<line>;

  zookeeper_world(std::uint64_t with_seed, zookeeper_locks locks, bool traced);
  /// A small one, in which every order is tried. The plan outlives it.
  zookeeper_world(plan const& small, bool traced, steps& order);
  ~zookeeper_world();

  // Until everything has come to its end, or a promise is broken: then throws violation.
  void run();
  user_history const& what_users_saw() const { return history_; }

  nanos now() const { return now_; }
  template <class F>
  void after(nanos delay, F&& what) {
    events_.at(now_ + std::max<nanos>(delay, 0), std::forward<F>(what));
  }
  template <class... Words>
  void say(Words const&... words) {
    if (!traced_) return;
    lines.push_back(std::to_string(now_ / microsecond) + " us  ");
    (add(lines.back(), words), ...);
  }
  random_source& random() { return random_; }
  engine::permit draw_permit(int name, std::string_view client) {
    return sim::draw_permit(locks_[static_cast<std::size_t>(name)].plan, client, shares_);
  }
  /// The minimum interval that the next acquire asks for. (With numbers of its own, so that it changes no other
  /// schedule.)
  std::chrono::milliseconds draw_interval();
  std::uint64_t new_process() { return ++processes_; }
  std::uint64_t new_serial() { return ++serials_; }

  // What clients do to the network.
  line_ptr connect(int client, std::size_t to);  // ends in zookeeper_client::accepted or lost_line
  void send(line_ptr const& l, message m);
  void hang_up(line_ptr const& l, bool silently);

  // The judge: judges/zookeeper_judge.cpp
  void asks(zookeeper_hold& h);
  void granted(zookeeper_hold& h);
  void answered(zookeeper_hold& h, bool failed, error_code why);
  void lost(zookeeper_hold& h);
  void releases(zookeeper_hold& h);
  void release_answered(zookeeper_hold& h, bool was_held, error_code why);
  void ended(zookeeper_hold& h);
  void checked(zookeeper_client& c);  // after every input
  void writes(zookeeper_client& c, zookeeper::request const& r);

  // The schedule.
  std::uint64_t const seed;
  bool const of_all_kinds, with_intervals = false;
  int names = 1;
  bool calm = false;
  nanos tick = 0, lease = 0, margin = 0, latency = 0, jitter = 0;
  int sync_limit = 0;
  bool slow_answers = false;
  bool late_pings = false;  // traffic between servers may stall for any time, and clients have to expect that
  std::vector<std::string> lines;
  zookeeper_outcome result;

 private:
  friend class zookeeper_client;

  static void add(std::string& line, std::string_view text) { line += text; }
  static void add(std::string& line, std::integral auto n) { line += std::to_string(n); }

  // zookeeper_model::outside
  void greeted(zookeeper_model::connection_id c, zookeeper::connect_response const& r) override;
  void answered(zookeeper_model::connection_id c, zookeeper::request const& to, zookeeper::reply const& r) override;
  void answered_ping(zookeeper_model::connection_id c, std::int64_t zxid) override;
  void noticed(zookeeper_model::connection_id c, zookeeper::notice const& n) override;
  void closed(zookeeper_model::connection_id c) override;
  void decided(zookeeper_transaction const& t) override;
  void happened(std::string words) override { say(words); }

  using delivery = std::function<void(zookeeper::wire_events&, time_point)>;
  nanos delay();
  bool reach(line_ptr const& l);
  static std::string as_bytes(message const& m);
  static std::uint64_t content_of(zookeeper::connect_response const& r);
  static std::uint64_t content_of(zookeeper::reply const& r);
  void arrive(line_ptr const& l);
  /// `content`: of it, as a number.
  void tell(zookeeper_model::connection_id c, std::uint64_t content, delivery what);
  void close_at_server(line& l);
  // zookeeper_explored.cpp
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
  void connect_later(line_ptr const& l);
  void deliver_later(line_ptr const& l, bool up, std::uint64_t content, std::function<void()> what);
  void by(nanos within, line_ptr const& l, bool up, std::function<void()> what);
  void cut(line_ptr const& l, nanos client_notices, nanos server_notices);
  void plan_faults();
  void strike();
  void break_line(zookeeper_client& c);
  void plan_new_ensemble();
  void start(std::size_t which);
  void isolate(std::size_t which);
  void isolate_with(zookeeper_client& c);
  void write_by_hand();
  void revive(zookeeper_client& c, nanos in);
  void nothing_left(bool only_of_the_living);
  nanos short_freeze() const { return margin - tick / 2 - tick / 8; }
  template <class F>
  bool pass_until(nanos until, F const& done);

  // judges/zookeeper_judge.cpp
  int lock_of(std::string_view path) const;  // -1: it is not a node of a lock
  bool is_wanted(zookeeper_line_node const& n) const;
  std::vector<zookeeper_line_hold> asked_before(zookeeper_hold const& h) const;
  nanos since() const;
  nanos patience() const;
  zookeeper_line_hold in_line(zookeeper_hold const& h) const;

  plan const* const small_ = nullptr;  // where every order is tried
  steps* const explores_ = nullptr;    // from plan::explored_from on
  steps* order_ = nullptr;             // now
  bool traced_;
  nanos now_ = 0;
  event_queue events_;
  random_source random_, shares_, intervals_;
  std::unique_ptr<zookeeper_model> model_;
  std::map<zookeeper_model::connection_id, line_ptr> by_id_;
  std::vector<std::unique_ptr<zookeeper_client>> clients_;
  std::uint64_t processes_ = 0, serials_ = 0;
  bool healing_ = false;
  bool all_are_down_ = false;
  int revivals_ = 0;
  nanos frozen_until_ = 0;
  nanos healed_at_ = 0;
  struct watch {
    zookeeper_lock_plan plan;
    zookeeper_line_judge line;
    std::vector<zookeeper_hold*> active{}, waiting{};
    nanos free_since = 0;
  };
  std::vector<watch> locks_;
  user_history history_{0, {}};  // where all locks are mutexes
};

// One acquire of one coroutine, and the hold it becomes.
struct zookeeper_hold : engine::acquisition {
  zookeeper_client* client = nullptr;
  int coroutine = 0, name = 0;
  std::uint64_t serial = 0;
  acquire_key in_history;
  nanos asked_at = 0, granted_at = 0;
  bool waiting = false, active = false, told = false, cancelled = false;
  bool released_valid = false;
  time_point seen_deadline = time_point::min();  // when it was last looked at
  std::string node;
};

class zookeeper_client final : public engine::acquisition_events,
                               public zookeeper::wire,
                               public zookeeper::life_in_test::outside {
 public:
  friend class zookeeper_world;

  zookeeper_client(zookeeper_world& w, int number);
  ~zookeeper_client();

  void start();
  void die(bool silently);
  void close();
  void revive();
  void pause(nanos length);
  bool finished() const;
  bool settled() const;
  std::string describe() const;

  time_point local() const { return local_at(world.now()); }
  time_point local_at(nanos t) const { return time_point{duration{offset + t + t * ppm / 1'000'000}}; }
  // No earlier than when the clock shows t.
  nanos true_time(time_point t) const;
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
  void accepted(zookeeper_world::line_ptr const& l);
  void lost_line(zookeeper_world::line_ptr const& l);
  void receive(zookeeper_world::line_ptr const& l,
               std::function<void(zookeeper::wire_events&, time_point)> const& what);

  zookeeper_world& world;
  int const number;
  bool alive = false, paused = false;
  nanos disturbed = 0;          // the last time it was still
  std::size_t only_server = 0;  // it reaches no other ...
  nanos only_until = 0;         // ... before then
  std::uint64_t process = 0;
  std::int64_t session = 0;  // that a server gave last
  nanos offset = 0;
  std::int64_t ppm = 0;
  config settings;
  std::string id;
  statistics stats;
  timer_queue timers;
  std::unique_ptr<zookeeper::queue> backend;
  std::unique_ptr<engine::cohort> cohort;
  zookeeper_world::line_ptr line;

 private:
  struct notice {
    enum class kind : std::uint8_t { acquired, lost, released } what;
    zookeeper_hold* about;
    bool granted = false;
  };
  struct coroutine {
    actor_plan const* todo = nullptr;  // where every order is tried; else all is drawn
    int left = 0;                      // operations
    bool busy = false;
    std::uint64_t round = 0;
    std::unique_ptr<zookeeper_hold> hold;
  };

  // engine::acquisition_events
  void on_acquired(engine::acquisition& a, engine::acquired how, error_code why) override;
  void on_lost(engine::acquisition& a, error_code why) override;
  void on_released(engine::acquisition& a, bool was_held, error_code why) override;
  void on_extended(engine::acquisition&, bool, error_code) override {}
  // zookeeper::wire
  void want(duration, time_point now) override { life_->want(now); }
  void in_use(duration, time_point now) override { life_->in_use(now); }
  void greet(zookeeper::connect_request const& c) override;
  void send(zookeeper::request const& r) override;
  void drop(std::string_view why, zookeeper::ending how, time_point now) override { life_->drop(why, how, now); }
  std::string unfinished_attempt() const override { return life_->unfinished_attempt(); }
  std::string shown() const override { return name(); }
  void log(log_line l) override { world.say("client ", number, " notes: ", l.words); }

  // zookeeper::life_in_test::outside
  void dial() override;
  void hang_up(std::string_view why) override;
  std::string name() const override { return "server " + std::to_string(next_server_); }
  void note(log_line l) override { log(std::move(l)); }
  zookeeper::wire_events& receiver() override { return backend->receiver(); }

  void finish_input();
  void rearm();
  void tick();
  void hear(notice const& n);
  void think(int which);
  void cancel_after(nanos delay, int which, engine::cancel_type type);
  engine::cancel_type draw_cancel_type();
  void ask(int which, time_point now);
  void draw(zookeeper_hold& h, time_point now);
  void draw_cancellations(int which);
  // zookeeper_explored.cpp
  void follow(client_plan const& p);
  operation const* planned(int which) const;
  void take_over(operation const& o, zookeeper_hold& h, time_point now) const;
  std::uint64_t stream_of_user();
  void look_at_timers();
  void leave(int which, time_point now);
  void next(int which);
  void take_apart();
  void later(int which, nanos delay, void (zookeeper_client::*what)(int, time_point));

  std::unique_ptr<zookeeper::life_in_test> life_;
  std::vector<zookeeper_world::message> to_send_;
  std::size_t next_server_ = 0;
  std::deque<notice> notices_;
  std::deque<std::function<void(time_point)>> inbox_;
  std::vector<coroutine> coroutines_;
  bool in_tick_ = false, in_input_ = false;
  std::uint64_t steps_of_user_ = 0, dials_ = 0;
  std::uint64_t wake_version_ = 0;
  nanos wakes_at_ = -1;
  std::uint64_t lists_ = 0, creations_ = 0, heartbeats_ = 0;
};

}  // namespace conch::sim
