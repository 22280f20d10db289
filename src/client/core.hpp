// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "base/url.hpp"
#include "client/alarm.hpp"
#include "cohort/engine.hpp"
#include "protocol/transport.hpp"
#include "quorum/quorum.hpp"

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
class question;

/// Throws errc::invalid_url, or for those in `config::servers` errc::invalid_config.
std::vector<redis::address> servers_of(config const& c);

/// Is a majority of them to decide? Also of one, if it is written so.
bool is_quorum(config const& c);

/// Somebody who waits to hear of a loss.
struct loss_watcher {
  lost_handler handler;
  asio::any_completion_executor whose;  // keeps the handler's context at work
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
  asio::any_completion_executor whose;  // of the operation under way, work_of its handler; empty: it runs at home
  std::list<std::shared_ptr<loss_watcher>> watchers;  // with the engine locked
  error_code loss;                                      // with the engine locked
  node_ref of_engine;  // the engine's own, from the acquire to its last word about it; with the engine locked
  std::atomic<bool> given_back{false};                  // its hold is released or destroyed
  std::atomic<int> references{0};
  hold_node* next = nullptr;      // all nodes of the core, with its list locked
  hold_node* previous = nullptr;
};

/// The shell around the engine: takes the lock, reads the clock, gives the input, and afterwards, unlocked, hands
/// completions to their executors. All rules are the engine's.
class client_core final : public std::enable_shared_from_this<client_core>,
                          private engine::acquisition_events,
                          private engine::inquirer,
                          private engine::journal {
 public:
  static std::shared_ptr<client_core> make(asio::any_io_executor executor, config settings);
  client_core(asio::any_io_executor executor, config settings);
  ~client_core();

  asio::any_io_executor const& executor() const noexcept { return executor_; }
  config const& settings() const noexcept { return settings_; }
  statistics stats();
  std::string const& id() const noexcept { return id_; }

  /// `at_home`: the handler runs on our own executor (runs_at_home).
  void acquire(settings_ptr const& lock, std::optional<duration> wait, bool once, acquire_handler handler, bool at_home,
               engine::permit part = {});
  /// Tries of mutexes of this client, in this order. All handlers run at home.
  struct wanted {
    settings_ptr lock;
    acquire_handler handler;
  };
  std::vector<node_ref> prepare_tries(std::vector<wanted>& locks);
  void try_all(std::vector<wanted> const& locks, std::vector<node_ref> nodes, std::optional<duration> wait);
  void cancel(hold_node& n, asio::cancellation_type type);
  void release(node_ref n, release_handler handler, bool at_home);
  void abandon(hold_node& n);
  void watch_loss(node_ref n, lost_handler handler);
  void stop_watching(hold_node& n, std::shared_ptr<loss_watcher> const& w);
  void ask(std::shared_ptr<question> q);
  void withdraw(std::shared_ptr<question> const& q);
  void close(duration timeout, close_handler handler);
  void close_in_background();

  /// The io_context goes away: drops everything that could run on it.
  void context_gone();

  std::shared_ptr<void> keep() { return weak_from_this().lock(); }
  void log(log_level level, std::string_view words);

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
    std::shared_ptr<question> asked = nullptr;
  };

  enum class closing { no, draining, giving_back, done };

  /// One server: the way to it, and the protocol with it.
  struct remote final : host {
    explicit remote(client_core& c) : core{c} {}
    std::shared_ptr<void> keep() override { return core.keep(); }
    void log(log_level level, std::string_view words) override { core.log(level, words); }
    void enter_with(input& i) override;
    void begin_turn() override { core.begin_turn(); }
    void end_turn() override { core.end_turn(); }
    void leave_turn() override { core.leave_turn(); }

    client_core& core;
    std::unique_ptr<transport> way;
    engine::server* protocol = nullptr;
  };

  /// Runs f(now) with the engine locked, then carries out what came of it.
  template <class F>
  void enter(F&& f);
  void enter_for(std::function<void(time_point)> const& f);
  bool nothing_owed() const;
  node_ref prepare(settings_ptr const& lock, bool once, acquire_handler handler, bool at_home, engine::permit part);
  void begin(node_ref node, std::optional<duration> wait, time_point now);
  void settle(time_point now, std::vector<ready>& batch);
  void carry_out(std::vector<ready>& batch);
  void complete_operation(ready& r);
  void begin_turn();
  void end_turn();
  void leave_turn();
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

  bool answered_here(question& q);

  // engine::acquisition_events, engine::inquirer, engine::journal
  void on_inquiry_answered(engine::inquiry& i, std::span<std::int64_t const> numbers, error_code why) override;
  void on_acquired(engine::acquisition& a, engine::acquired how, error_code why) override;
  void on_lost(engine::acquisition& a, error_code why) override;
  void on_released(engine::acquisition& a, bool was_held, error_code why) override;
  void note(bool is_error, std::string_view words) override;

  asio::any_io_executor executor_;  // empty once the context is gone, as are:
  asio::any_io_executor home_;      // ... the same, never blocking; completions of handlers at home are its
  asio::any_io_executor strand_;    // ... the alarm's and the connections': a strand, unless there is one thread only
  config const settings_;
  std::string const id_;

  optional_mutex mutex_;           // guards all that follows, down to the alarm
  statistics stats_;
  engine::timer_queue timers_;
  std::unique_ptr<engine::entropy> const nonces_;
  engine::engine engine_;
  std::vector<std::unique_ptr<remote>> remotes_;
  std::unique_ptr<engine::server> server_;  // one server, or ...
  std::unique_ptr<quorum::quorum> quorum_;  // ... several
  std::vector<ready> ready_;
  std::deque<ready> due_here_;           // one thread only: completions at home, for this turn or the next
  bool in_turn_ = false;
  std::size_t operations_at_home_ = 0;   // whose handlers have not been posted yet ...
  asio::any_io_executor work_at_home_;   // ... and what keeps our own context at work for all of them
  std::list<std::shared_ptr<question>> questions_;  // not answered yet
  std::minstd_rand random_;        // where to begin to look for a free segment
  closing closing_ = closing::no;
  bool gone_ = false;
  std::optional<close_handler> on_closed_;
  bool closed_told_ = false;
  asio::any_completion_executor whose_close_;
  engine::timer close_timer_;
  std::uint64_t progress_ = 0;     // of the servers, when closing looked at it last
  bool alarm_started_ = false;
  time_point armed_ = engine::timer_queue::never;
  std::unique_ptr<alarm> alarm_;

  optional_mutex nodes_mutex_;
  hold_node* nodes_ = nullptr;
};

}  // namespace conch::detail
