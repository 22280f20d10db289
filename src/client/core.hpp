// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/asio_compat.hpp"
#include "base/log_sink.hpp"
#include "base/optional_mutex.hpp"
#include "base/process.hpp"
#include "client/alarm.hpp"
#include "client/client_close.hpp"
#include "client/client_requests.hpp"
#include "client/completions.hpp"
#include "client/danger_log.hpp"
#include "client/hold_node.hpp"
#include "client/hold_watchers.hpp"
#include "client/holder_names.hpp"
#include "client/observing.hpp"
#include "client/own_executor.hpp"
#include "engine/cohort.hpp"
#include "engine/introducing.hpp"
#include "protocol/transport.hpp"
#include "servers/scheme.hpp"

#include <conch/mutex.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace conch::detail {

/// The shell around the cohort and its backend. Each input takes the core's mutex, reads the clock and calls the cohort
/// or a transport's events, which queue completions. Then the mutex is unlocked, and the completions go to their
/// executors. No rule of a lock is here. "With the client locked" means: with that mutex.
class client_core final : public std::enable_shared_from_this<client_core>,
                          private host,
                          private engine::acquisition_events,
                          private engine::introducing::deadlock_finder,
                          private log_sink {
 public:
  static std::shared_ptr<client_core> make(asio::any_io_executor executor, config settings,
                                           std::unique_ptr<servers::target const> target);
  client_core(asio::any_io_executor executor, config settings, std::unique_ptr<servers::target const> target);
  ~client_core();

  asio::any_io_executor const& executor() const noexcept { return own_executor_.get(); }
  config const& settings() const noexcept { return settings_; }
  servers::target const& target() const noexcept { return *target_; }
  statistics stats();
  std::string const& id() const noexcept { return id_; }
  /// False in a child of a fork that has inherited this client. There it does nothing: no function takes a mutex, which
  /// a thread of the parent may have held, and nothing is freed.
  bool is_here() const noexcept { return made_.is_here(); }
  /// The error of every operation there; else none.
  error_code elsewhere() const;
  engine::capabilities offers() const { return deployment_.backend->offers(); }
  /// Why these options are not available here.
  error_code refusal_of(acquire_options const& options) const;
  /// Its executor has its own thread, which a forked child lacks.
  void has_own_thread() noexcept { has_own_thread_ = true; }
  /// Unlike a pointer it is never another client's, and costs nothing to copy.
  client_number number() const noexcept { return number_; }
  /// Where an operation completes that fails at once.
  asio::any_io_executor failures_run_on() const;

  /// `on_own_executor`: the handler runs on the client's executor (runs_on_client_executor).
  void acquire(settings_ptr const& lock, acquire_options const& options, bool once, acquire_handler handler,
               bool on_own_executor, engine::permit permit = {});
  /// Tries of mutexes of this client, in this order. All handlers run on the client's executor. The options are checked
  /// already.
  struct wanted {
    settings_ptr lock;
    acquire_handler handler;
  };
  std::vector<node_ref> prepare_tries(std::vector<wanted>& locks, acquire_options const& options);
  void try_all(std::vector<wanted> const& locks, std::vector<node_ref> nodes, std::optional<duration> wait);
  void cancel(hold_node& n, asio::cancellation_type type);
  void release(node_ref n, release_handler handler, bool on_own_executor);
  void extend(node_ref n, duration lease, release_handler handler);
  void detach(node_ref n, detach_handler handler);
  /// `permit`: as of an acquire, but for its weight.
  void adopt(settings_ptr const& lock, std::string_view detached, acquire_handler handler, bool on_own_executor,
             engine::permit permit);
  void abandon(hold_node& n);
  /// hold::guard().
  write_guard guard_of(hold_node const& n);
  std::uint32_t permits_of(hold_node const& n);
  /// hold::async_lost, hold::async_requested, hold::async_renewed and hold::async_endangered.
  std::shared_ptr<hold_watcher> watch(node_ref n, hold_event event, lost_handler handler);
  void stop_watching(hold_node& n, std::shared_ptr<hold_watcher> const& w);
  void ask(std::shared_ptr<client_request> q);
  void withdraw(std::shared_ptr<client_request> const& q);
  void close(duration timeout, close_handler handler);
  void close_in_background();

  /// The io_context is being destroyed: drops everything that could run on it.
  void context_gone();

  std::shared_ptr<void> keep() override { return weak_from_this().lock(); }
  void log(log_level level, std::string_view words) override;

 private:
  friend void let_go(hold_node* n) noexcept;

  class locked_input;

  /// Runs f(now) with the client locked, then carries out what came of it.
  template <class F>
  void enter(F&& f);
  node_ref prepare(settings_ptr const& lock, acquire_options const& options, bool once, acquire_handler handler,
                   bool on_own_executor, engine::permit permit);
  void begin(node_ref node, std::optional<duration> wait, time_point now);
  void settle(time_point now, std::vector<ended>& batch);
  void start_alarm();
  void stop_alarm();

  // host
  void run(input&& i) override;
  void enter_with(input& i) override;

  /// `handler` comes on any thread, before this client ends.
  void ask_who_has(std::string const& lock, std::function<void(std::string holder)> handler);
  void learn_holder(std::string const& lock);
  void log_new_holder(std::string const& lock, time_point now);
  void look_for_deadlock(engine::noted_acquire& n) override;
  void changed(hold_node& n) noexcept {
    if (n.note) introducing_.changed(*n.note);
  }
  /// Ends its wait with errc::would_deadlock.
  void refuse(hold_node& n, std::string const& why);

  // engine::acquisition_events, log_sink
  void on_acquired(engine::acquisition& a, engine::acquired how, error_code why) override;
  void on_lost(engine::acquisition& a, error_code why) override;
  void on_released(engine::acquisition& a, bool was_held, error_code why) override;
  void on_extended(engine::acquisition& a, bool is_held, error_code why) override;
  void on_requested(engine::acquisition& a) override;
  void on_renewed(engine::acquisition& a) override;
  void on_endangered(engine::acquisition& a, engine::danger const& d) override;
  void on_safe_again(engine::acquisition& a) override;
  void on_detached(engine::acquisition& a, error_code why) override;
  void on_observed(engine::acquisition& a, engine::observation const& o) override;
  void note(bool is_error, std::string_view words) override;
  void inform(std::string_view words) override;

  own_executor own_executor_;     // empty once the context is gone, as is:
  asio::any_io_executor strand_;  // ... of the alarm and the connections: a strand, unless there is one thread only
  config const settings_;
  std::unique_ptr<servers::target const> const target_;
  std::string const id_;
  made_here const made_;
  client_number const number_;
  bool has_own_thread_ = false;

  optional_mutex mutex_;  // guards what follows, down to armed_, unless a class says otherwise
  statistics stats_;
  timer_queue timers_;
  servers::deployment deployment_;  // outlives the cohort, whose places its backend has made
  engine::cohort cohort_;
  node_list nodes_;
  completions completions_;
  hold_watchers watchers_;
  danger_log danger_log_;
  observing observing_;
  client_requests requests_;
  engine::introducing introducing_;
  holder_names holder_names_;
  time_point next_new_holder_ = time_point::min();
  std::minstd_rand random_;  // where to begin to look for a free segment
  bool gone_ = false;        // the io_context is being destroyed
  client_close close_;
  bool alarm_started_ = false;
  time_point armed_ = timer_queue::never;
  std::unique_ptr<alarm> alarm_;
};

}  // namespace conch::detail
