// The owners of a client process, and the levels that they take: the real rules (src/engine/levels.hpp) behind a
// simulated shell, which does what src/client/levels, src/client/reentrant.cpp and level_downgrade in
// src/client/admin.cpp do.
#pragma once

#include "engine/levels.hpp"
#include "sim/judges/levels_judge.hpp"
#include "sim/worlds/sim_client.hpp"

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace conch::sim {

class sim_levels;

struct sim_owner {
  int number;
  std::string id;
  engine::owner_levels levels;
};

// What the levels of an owner share.
struct sim_hold final : engine::leveled_hold {
  sim_hold(engine::level_use first, std::unique_ptr<sim_acquisition> of)
      : leveled_hold{first},
        x{std::move(of)},
        asked_for{x->permit} {}

  time_point deadline() const noexcept override { return given_back ? time_point::min() : x->deadline(); }

  std::unique_ptr<sim_acquisition> const x;
  engine::permit const asked_for;
  bool given_back = false;
  bool order_refused = false;  // to count a reader; until its end
};

// One acquire on behalf of an owner, and the level that it becomes.
struct sim_level final : engine::waiting_level {
  enum class state : std::uint8_t { planned, in_line, asking, inside, becomes_reader, releasing, over };

  sim_level(sim_levels& all, actor& by_whom, sim_owner& for_whom, operation::level const& plan)
      : of{all},
        who{by_whom},
        by{for_whom},
        todo{plan} {}

  void wake() noexcept override;
  bool is_attempt() const {
    return todo.how == operation::way::attempt || (todo.how == operation::way::timed && todo.patience == 0);
  }
  engine::level_use use() const { return todo.writes ? engine::level_use::write : engine::level_use::read; }

  sim_levels& of;
  actor& who;
  sim_owner& by;
  operation::level const& todo;
  int lock_number = 0;
  state at = state::planned;
  time_point until = time_point::max();
  bool cancelled = false;  // while it waited for its owner
  bool ending = false;     // that wait has ended; the coroutine learns of it soon
  std::unique_ptr<sim_acquisition> asked;
  std::shared_ptr<sim_hold> in;
};

class sim_levels {
 public:
  explicit sim_levels(sim_client& c);
  ~sim_levels();

  void begin(actor& a, time_point now);
  void hear(sim_client::notice const& n, time_point now);
  /// True if it was an order of these.
  bool answered(engine::admin_request const& i, error_code why);
  /// All that ask, hold, or are given back.
  void for_each(std::function<void(sim_acquisition&)> const& f);
  void checked(time_point now);
  bool idle() const { return orders_.empty(); }
  /// The process is gone.
  void clear();

 private:
  friend struct sim_level;

  struct reader_order : engine::admin_request {
    std::shared_ptr<sim_hold> of;
    sim_level* whose = nullptr;  // waits for the answer; null: nobody does
    nanos asked_at = 0;
    bool answered = false;
    error_code why;
  };

  using step = void (sim_levels::*)(sim_level&, time_point);
  void later(sim_level& l, nanos delay, step what);
  void say(sim_level const& l, std::string const& what) const;
  engine::level_lock lock_of(sim_level const& l) const;
  std::vector<sim_level const*> all() const;
  void begin_one(sim_level& l, time_point now);
  void enter(sim_level& l, time_point now);
  void ask(sim_level& l, time_point now);
  void too_late(sim_level& l, time_point now);
  void end_wait_soon(sim_level& l);
  void end_wait(sim_level& l, time_point now);
  void cancel(sim_level& l, time_point now);
  void inside(sim_level& l, time_point now);
  void write_guarded(sim_level& l, time_point now);
  void leave(sim_level& l, time_point now);
  void give_back(sim_level& l, time_point now);
  void order(std::shared_ptr<sim_hold> of, sim_level* whose, time_point now);
  void end_order(reader_order& o, time_point now);
  void forget(sim_hold const& h);
  void over(sim_level& l);

  sim_client& client_;
  levels_judge judge_;
  std::map<int, std::unique_ptr<sim_owner>> owners_;
  std::vector<std::shared_ptr<sim_hold>> holds_;  // of which the cohort still knows
  std::list<reader_order> orders_;
};

}  // namespace conch::sim
