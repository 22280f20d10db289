// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/commands.hpp"
#include "cli/duration.hpp"
#include "cli/exit_code.hpp"
#include "cli/locks.hpp"
#include "cli/process.hpp"
#include "cli/run_events.hpp"
#include "cli/run_plan.hpp"
#include "cli/show.hpp"

#include <conch/client.hpp>
#include <conch/log.hpp>

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace conch::cli {

namespace {

using namespace std::chrono_literals;
using order_kind = run_plan::order::kind;

config settings_of(arguments const& given, connection const& servers) {
  config c = servers.settings;
  if (given.lease) c.lease = *given.lease;
  if (given.grace) c.stop_margin = *given.grace;
  if (given.verbose) c.log = log_to_stderr(log_level::debug);
  return c;
}

bool means_an_end(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT; }

/// Reads the clock, does what the plan orders, and tells it what happens.
class runner {
 public:
  runner(arguments const& given, connection const& servers)
      : given_{given}, client_{context_.get_executor(), settings_of(given, servers)}, locks_{client_, given}, grace_{grace_of(client_.settings())},
        plan_{grace_, {SIGTERM, SIGKILL, SIGCONT, exit_code::lost, exit_code::of_signal}} {}

  int run() {
    adopt_orphans();
    listen();
    events_.waiting();
    locks_.acquire([this](error_code why, held_locks h) { acquired(why, std::move(h)); }, stop_waiting_.slot());
    context_.run();
    events_.exits(plan_.exit_code());
    end_as_child();
    return plan_.exit_code();
  }

 private:
  /// The client lowers its margin in the same way, to a quarter of what is granted.
  static duration grace_of(config const& c) { return std::min(c.stop_margin, c.lease / 4); }

  void carry_out(run_plan::orders const& orders) {
    for (run_plan::order const& one : orders) {
      switch (one.what) {
        case order_kind::stop_waiting: stop_waiting_.emit(asio::cancellation_type::terminal); break;
        case order_kind::start: start(); break;
        case order_kind::signal_group: signal_group(one.signal); break;
        case order_kind::kill_at: kill_at(one.when); break;
        case order_kind::suspend: suspend(); break;
        case order_kind::check: locks_.check(held_, [this](bool held) { carry_out(plan_.checked(held)); }); break;
        case order_kind::release: release(); break;
        case order_kind::leave: leave(); break;
      }
    }
  }

  // -------------------------------------------------------------------------------------------- signals

  void listen() {
    for (int const number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGTSTP, SIGCONT}) {
      struct sigaction now {};
      if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;  // as by nohup: it stays ignored
      signals_.add(number);
    }
    signals_.add(SIGCHLD);
    next_signal();
  }

  void next_signal() {
    signals_.async_wait([this](error_code why, int number) {
      if (why) return;
      next_signal();
      if (number == SIGCHLD) {
        reap();
      } else if (number == SIGCONT) {
        continued();
      } else if (number == SIGTSTP && plan_.at() == run_plan::state::waiting) {
        stop_here(false, false);
      } else {
        carry_out(plan_.signalled(number, means_an_end(number), clock::now()));
      }
    });
  }

  void continued() {
    if (plan_.at() == run_plan::state::running && tty_.is_mine()) give_terminal();
    carry_out(plan_.resumed());
  }

  void reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
      if (pid != child_) continue;  // an orphan of the child, or the guardian
      if (WIFSTOPPED(status)) {
        child_stopped(WSTOPSIG(status));
      } else {
        child_ended(status);
      }
    }
    look_for_group();
  }

  void child_ended(int status) {
    if (tty_.is_of(child_)) {
      tty_.give_to(::getpgrp());
      // The terminal would have told all of conch's group, as the script around it, had it not been the child's.
      if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT)) told_by_terminal_ = WTERMSIG(status);
    }
    events_.child_ended(status);
    int const code = WIFEXITED(status) ? WEXITSTATUS(status) : exit_code::of_signal + WTERMSIG(status);
    carry_out(plan_.child_ended(code, group_is_there(child_), held_.valid(), clock::now()));
  }

  /// Others of the group may not be children of this process: it asks from time to time.
  void look_for_group() {
    bool const leaving = plan_.at() == run_plan::state::ending || plan_.at() == run_plan::state::killed;
    if (child_ == 0 || !leaving) return;
    if (!group_is_there(child_)) {
      carry_out(plan_.group_gone());
      return;
    }
    group_timer_.expires_after(20ms);
    group_timer_.async_wait([this](error_code why) {
      if (!why) look_for_group();
    });
  }

  void child_stopped(int signal) {
    wants_terminal_ = signal == SIGTTIN || signal == SIGTTOU;
    // It may have got the terminal between its question and this answer.
    if (wants_terminal_ && (tty_.is_mine() || tty_.is_of(child_))) {
      signal_group(SIGCONT);
    } else if (signal != SIGSTOP) {
      // STOP was sent to the child alone, not by a terminal: the lock stays with it.
      carry_out(plan_.child_suspended());
    }
  }

  // -------------------------------------------------------------------------------------------- the lock

  void acquired(error_code why, held_locks held) {
    if (why) {
      bool const not_free = why == errc::timed_out;
      int const code = not_free ? given_.conflict_exit_code : exit_code_of(why);
      std::string const words = shown(given_.names.front()) + ": " + words_of(why);
      bool const told_to_stop = why == asio::error::operation_aborted;
      auto const next = plan_.not_granted(code);
      if (told_to_stop) events_.quiet_trouble("not_granted", words, plan_.exit_code());
      else events_.trouble("not_granted", words, code);
      carry_out(next);
      return;
    }
    held_ = std::move(held);
    known_deadline_ = held_.deadline();
    events_.granted(held_);
    held_.when_lost([this](error_code lost) {
      if (lost == asio::error::operation_aborted) return;
      events_.trouble("lost", shown(given_.names.front()) + ": the lock is lost", exit_code::lost);
      time_point const now = clock::now();
      // The kill needs a moment, too.
      carry_out(plan_.lost_at(now, known_deadline_ - std::min<duration>(50ms, grace_ / 4)));
      look_for_group();
    });
    carry_out(plan_.granted());
  }

  static std::string words_of(error_code why) { return why == errc::timed_out ? "not free, or not in time" : why.message(); }

  /// The hold does not tell when it is renewed. What is known here is at most a sixth of a lease old.
  void follow_deadline() {
    if (held_.valid()) {
      known_deadline_ = held_.deadline();
      if (guardian_) guardian_->set_deadline(known_deadline_);
    }
    duration const pause = std::clamp<duration>(client_.settings().lease / 6, 10ms, 5s);
    deadline_timer_.expires_after(pause);
    deadline_timer_.async_wait([this](error_code why) {
      if (!why) follow_deadline();
    });
  }

  void release() {
    if (guardian_) guardian_->watch(0);
    held_.release([this](error_code why, bool) {
      if (why && why != errc::not_held)
        events_.trouble("not_released", shown(given_.names.front()) + ": not released yet, so it ends with its lease: " + why.message(), 0);
      else events_.released(!why);
      clean_ = !why;
      carry_out(plan_.released());
    });
  }

  /// What is still on its way to the server gets a second.
  void leave() {
    if (guardian_) guardian_->watch(0);
    signals_.cancel();
    for (asio::steady_timer* timer : {&kill_timer_, &deadline_timer_, &group_timer_}) timer->cancel();
    held_ = {};
    if (clean_) {
      context_.stop();
    } else {
      client_.async_close(duration::zero(), [this](error_code) { context_.stop(); });
    }
  }

  // -------------------------------------------------------------------------------------------- the child

  void start() {
    try {
      if (given_.kill_child) guardian_.emplace(known_deadline_);
      follow_deadline();
      child_options options;
      options.command = given_.child;
      options.environment = environment();
      options.descriptors = inherited_;
      std::erase(options.descriptors, events_.own_descriptor());
      options.dies_with_parent = given_.kill_child;
      // Not if a pipe follows: its reader may want the terminal, as a pager. The child gets it when it asks for it.
      options.gets_terminal = tty_.is_mine() && ::isatty(STDIN_FILENO) != 0 && !is_pipe(STDOUT_FILENO);
      child_ = start_child(options, tty_);
      if (guardian_) guardian_->watch(child_);
      events_.child_started(child_);
      carry_out(plan_.started());
    } catch (failure const& error) {
      events_.trouble("not_started", error.what(), error.code);
      carry_out(plan_.cannot_start(error.code));
    }
  }

  static bool is_pipe(int fd);

  std::vector<std::pair<std::string, std::string>> environment() const {
    std::string names, fences;
    for (std::string const& name : given_.names) {
      names += (names.empty() ? "" : "\n") + name;
      fences += (fences.empty() ? "" : " ") + std::to_string(held_.fence(name));
    }
    std::uint32_t const segment = held_.segment();
    return {{"CONCH_LOCK", names}, {"CONCH_FENCE", fences}, {"CONCH_SEGMENT", segment == 0 ? std::string{} : std::to_string(segment)}};
  }

  void give_terminal() {
    if (child_ != 0) tty_.give_to(child_);
  }

  void signal_group(int number) {
    if (child_ == 0) return;
    if (number == SIGCONT && tty_.is_mine()) give_terminal();
    ::kill(-child_, number);
    look_for_group();
  }

  void kill_at(time_point when) {
    if (when >= kill_when_) return;
    kill_when_ = when;
    kill_timer_.expires_after(std::max(when - clock::now(), duration::zero()));
    kill_timer_.async_wait([this](error_code why) {
      if (why) return;
      carry_out(plan_.grace_over());
      look_for_group();
    });
  }

  void suspend() {
    if (tty_.is_of(child_)) tty_.give_to(::getpgrp());
    stop_here(true, wants_terminal_);
    carry_out(plan_.resumed());
  }

  void stop_here(bool group_too, bool wants_terminal) {
    signals_.remove(SIGTSTP);
    tty_.stop_here(group_too, wants_terminal);
    signals_.add(SIGTSTP);
  }

  /// Ends by the signal that the terminal gave the child, and with it what the terminal would have ended: a script does not go on behind Ctrl-C.
  void end_as_child() const {
    if (told_by_terminal_ == 0 || plan_.lost()) return;
    rlimit const no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::signal(told_by_terminal_, SIG_DFL);
    ::kill(0, told_by_terminal_);
  }

  arguments const& given_;
  run_events events_{given_};
  std::vector<int> const inherited_ = inherited_descriptors();
  asio::io_context context_{1};
  client client_;
  wanted_locks locks_;
  duration const grace_;
  run_plan plan_;
  asio::signal_set signals_{context_};
  asio::steady_timer kill_timer_{context_}, deadline_timer_{context_}, group_timer_{context_};
  asio::cancellation_signal stop_waiting_;
  terminal tty_;
  bool wants_terminal_ = false;  // the child was stopped for want of the terminal
  held_locks held_;
  time_point known_deadline_{};
  time_point kill_when_ = time_point::max();
  std::optional<guardian> guardian_;
  pid_t child_ = 0;
  int told_by_terminal_ = 0;
  bool clean_ = false;  // the server has confirmed that there is nothing left
};

bool runner::is_pipe(int fd) {
  struct stat about {};
  return ::fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode);
}

}  // namespace

int run(arguments const& given, connection const& servers) {
  runner r{given, servers};
  return r.run();
}

}  // namespace conch::cli
