// What a client tells the servers about its tasks, and how it looks for deadlocks: the shell around engine/introducing
// and engine/wait_walk that src/client is in the library.
#pragma once

#include "engine/introducing.hpp"
#include "engine/wait_walk.hpp"
#include "sim/worlds/plan.hpp"

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace conch::sim {

struct actor;
struct sim_acquisition;
class sim_client;

class sim_chains;

/// What `introducing` knows of an acquire, which may end before.
class sim_noted final : public engine::noted_acquire {
 public:
  sim_noted(sim_chains& in, sim_acquisition& x, std::string_view lock, std::string_view task);
  ~sim_noted() override;
  engine::acquisition_phase phase() const noexcept override;
  std::int64_t fence() const noexcept override;
  std::string_view lock() const noexcept override { return lock_; }
  std::string_view note() const noexcept override { return {}; }
  bool has_task() const noexcept override { return true; }
  std::string task() const override { return std::string{task_}; }
  void left() noexcept override;

  sim_acquisition* of;  // null: it is gone

 private:
  sim_chains& in_;
  std::string_view const lock_, task_;
};

class sim_chains final : engine::introducing::deadlock_finder {
 public:
  sim_chains(sim_client& of, config const& settings, std::string const& id, timer_queue& timers)
      : client_{of},
        told_{settings, id, timers, *this} {}

  void begin(engine::backend& servers, time_point now) { told_.begin(servers, now); }
  /// It is about to be asked for.
  void add(sim_acquisition& x, std::string_view lock, std::size_t actor_number, time_point now);
  void changed(sim_acquisition& x);
  /// It is not told of any more.
  void forget(sim_noted const& one) noexcept;
  /// async_why of that lock, by a coroutine that then goes on.
  void ask_why(actor& a, std::string_view lock);
  /// The answer to one of the questions here.
  bool answered(engine::admin_request const& i, engine::admin_result const& result, error_code why);
  /// In each input. True: something was sent or ended.
  bool settle(time_point now);

 private:
  struct walk {
    explicit walk(std::string_view lock) : steps{std::string{lock}} {}

    engine::wait_walk steps;
    std::uint64_t of_acquire = 0;  // the number of the acquire for which it looks; 0: async_why ...
    actor* who = nullptr;          // ... of that coroutine
    std::uint64_t round = 0;
    nanos circle_since = 0;  // then the last circle was complete; before one is, the walk began
    std::unique_ptr<engine::admin_request> question = {};
    std::unique_ptr<engine::admin_result> answer = {};
    bool failed = false;  // its question
    bool is_over = false;
  };

  // engine::introducing::deadlock_finder
  void look_for_deadlock(engine::noted_acquire& n) override;
  void ask(walk& w, time_point now);
  bool go_on(walk& w, time_point now);
  void take_answer(walk& w);
  void end(walk& w, time_point now);

  sim_client& client_;
  std::deque<std::string> tasks_;  // the ids, by the numbers of the actors
  std::vector<std::unique_ptr<sim_noted>> noted_;
  engine::introducing told_;
  std::vector<std::unique_ptr<walk>> walks_;
};

}  // namespace conch::sim
