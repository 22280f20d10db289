// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "backends/deployment.hpp"
#include "base/asio_compat.hpp"
#include "base/log_sink.hpp"
#include "base/optional_mutex.hpp"
#include "client/alarm.hpp"
#include "cohort/admin_request.hpp"
#include "cohort/cohort.hpp"
#include "protocol/transport.hpp"

#include <conch/mutex.hpp>

#include <boost/asio/any_completion_executor.hpp>

#include <atomic>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace conch::detail {

class client_core;
class client_request;

/// Somebody who waits to hear of a loss.
struct loss_watcher {
  lost_handler handler;
  asio::any_completion_executor whose;                                             // keeps the handler's context at work
  std::optional<std::list<std::shared_ptr<loss_watcher>>::iterator> at_hold = {};  // among the watchers of its hold; with the engine locked
};

/// One acquire and the hold it becomes: the engine's record of it, and who is to be told. Counted, because the engine, a
/// hold, operations under way and their cancellation slots refer to it.
class hold_node final : public engine::acquisition {
 public:
  hold_node(core_ptr c, acquire_handler handler);

  core_ptr core;  // until the last reference goes
  acquire_handler on_acquired;
  release_handler on_released;
  asio::any_completion_executor whose;                // of the operation under way, work_of its handler; empty: it runs at home
  std::list<std::shared_ptr<loss_watcher>> watchers;  // with the engine locked
  error_code loss;                                    // with the engine locked
  node_ref of_engine;                                 // the engine's own, from the acquire to its last word about it; with the engine locked
  std::atomic<bool> given_back{false};                // its hold is released or destroyed
  std::atomic<int> references{0};
  hold_node* next = nullptr;  // all nodes of the core, with its list locked
  hold_node* previous = nullptr;
};

/// The shell around the engine: takes the lock, reads the clock, gives the input, and afterwards, unlocked, hands
/// completions to their executors. All rules are the engine's.
class client_core final : public std::enable_shared_from_this<client_core>,
                          private host,
                          private engine::acquisition_events,
                          private engine::admin_events,
                          private engine::log_sink {
 public:
  static std::shared_ptr<client_core> make(asio::any_io_executor executor, config settings);
  client_core(asio::any_io_executor executor, config settings);
  ~client_core();

  asio::any_io_executor const& executor() const noexcept { return executor_; }
  config const& settings() const noexcept { return settings_; }
  statistics stats();
  std::string const& id() const noexcept { return id_; }

  /// `on_own_executor`: the handler runs on our own executor (runs_on_client_executor).
  void acquire(settings_ptr const& lock, std::optional<duration> wait, bool once, acquire_handler handler, bool on_own_executor,
               engine::permit permit = {});
  /// Tries of mutexes of this client, in this order. All handlers run at home.
  struct wanted {
    settings_ptr lock;
    acquire_handler handler;
  };
  std::vector<node_ref> prepare_tries(std::vector<wanted>& locks);
  void try_all(std::vector<wanted> const& locks, std::vector<node_ref> nodes, std::optional<duration> wait);
  void cancel(hold_node& n, asio::cancellation_type type);
  void release(node_ref n, release_handler handler, bool on_own_executor);
  void abandon(hold_node& n);
  void watch_loss(node_ref n, lost_handler handler);
  void stop_watching(hold_node& n, std::shared_ptr<loss_watcher> const& w);
  void ask(std::shared_ptr<client_request> q);
  void withdraw(std::shared_ptr<client_request> const& q);
  void close(duration timeout, close_handler handler);
  void close_in_background();

  /// The io_context goes away: drops everything that could run on it.
  void context_gone();

  std::shared_ptr<void> keep() override { return weak_from_this().lock(); }
  void log(log_level level, std::string_view words) override;

 private:
  friend class hold_node;
  friend void let_go(hold_node* n) noexcept;

  /// A completion that waits for the lock to be released.
  struct ready {
    enum class kind { granted, not_granted, watcher, released, answered, closed } what;
    node_ref node;
    error_code why;
    bool was_held = false;
    std::shared_ptr<loss_watcher> watcher;
    std::shared_ptr<client_request> asked = nullptr;
  };

  enum class closing { no, draining, giving_back, done };

  /// Runs f(now) with the engine locked, then carries out what came of it.
  template <class F>
  void enter(F&& f);
  void enter_for(std::function<void(time_point)> const& f);
  node_ref prepare(settings_ptr const& lock, bool once, acquire_handler handler, bool on_own_executor, engine::permit permit);
  void begin(node_ref node, std::optional<duration> wait, time_point now);
  void settle(time_point now, std::vector<ready>& batch);
  void carry_out(std::vector<ready>& batch);
  void complete_operation(ready& r);
  void want_turn();
  void begin_close(time_point now, duration timeout, bool drain);
  void close_due(time_point now);
  void tell_closed(error_code why);
  void end_close(error_code why);
  void stop_watchers(hold_node& n, error_code why);
  template <class Call>
  void end_of_operation(ready& r, Call const& call);
  void begin_operation(hold_node const& n);
  void end_operation(hold_node const& n);
  void strike_off(hold_node& n) noexcept;
  void start_alarm();

  bool answered_here(client_request& q);

  // host
  void enter_with(input& i) override;
  void begin_turn() override;
  void end_turn() override;
  void leave_turn() override;

  // engine::acquisition_events, engine::admin_events, engine::log_sink
  void on_admin_answered(engine::admin_request& i, engine::admin_result const& result, error_code why) override;
  void on_acquired(engine::acquisition& a, engine::acquired how, error_code why) override;
  void on_lost(engine::acquisition& a, error_code why) override;
  void on_released(engine::acquisition& a, bool was_held, error_code why) override;
  void note(bool is_error, std::string_view words) override;

  asio::any_io_executor executor_;      // empty once the context is gone, as are:
  asio::any_io_executor own_executor_;  // ... the same, never blocking; completions of handlers at home are its
  asio::any_io_executor strand_;        // ... the alarm's and the connections': a strand, unless there is one thread only
  config const settings_;
  std::string const id_;

  optional_mutex mutex_;  // guards all that follows, down to the alarm
  statistics stats_;
  engine::timer_queue timers_;
  engine::cohort cohort_;
  backends::deployment deployment_;
  std::vector<ready> ready_;
  std::deque<ready> due_here_;  // one thread only: completions at home, for this turn or the next
  bool in_turn_ = false;
  std::size_t operations_on_own_executor_ = 0;                  // whose handlers have not been posted yet ...
  asio::any_io_executor own_work_;                              // ... and what keeps our own context at work for all of them
  std::list<std::shared_ptr<client_request>> client_requests_;  // not answered yet
  std::minstd_rand random_;                                     // where to begin to look for a free segment
  closing closing_ = closing::no;
  bool gone_ = false;
  std::optional<close_handler> on_closed_;
  bool closed_told_ = false;
  asio::any_completion_executor whose_close_;
  engine::timer close_timer_;
  std::uint64_t progress_ = 0;  // of the servers, when closing looked at it last
  bool alarm_started_ = false;
  time_point armed_ = engine::timer_queue::never;
  std::unique_ptr<alarm> alarm_;

  optional_mutex nodes_mutex_;
  hold_node* nodes_ = nullptr;
};

}  // namespace conch::detail
