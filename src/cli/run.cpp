// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/run.hpp"

#include "base/readable.hpp"
#include "cli/commands.hpp"
#include "cli/duration.hpp"
#include "cli/exit_code.hpp"
#include "cli/locks.hpp"
#include "cli/process.hpp"
#include "cli/run_events.hpp"
#include "cli/run_plan.hpp"
#include "cli/show.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

bool means_an_end(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT; }

/// ": REASON", as far as the library knows one.
std::string reason_of(error_code lost) {
  std::string const all = lost.message(), bare = make_error_code(errc::lost).message();
  return all.starts_with(bare) ? all.substr(bare.size()) : ": " + all;
}

/// Reads the clock, does what the plan orders, and tells it what happens.
class runner {
 public:
  runner(asio::io_context& context, arguments const& given, run_locks& locks, duration grace)
      : given_{given},
        events_{context, given},
        context_{context},
        locks_{locks},
        grace_{grace},
        plan_{grace, {SIGTERM, SIGKILL, SIGCONT, exit_code::lost, exit_code::of_signal, given.warn_signal}} {}

  int run() {
    adopt_orphans();
    listen();
    let_signals_in();
    events_.waiting();
    locks_.when_short_of_replicas([this] {
      events_.trouble("short_of_replicas",
                      printable(given_.names.front()) +
                          ": too few replicas have the lock so far, so it was given back; conch asks again",
                      0);
    });
    locks_.when_endangered([this](std::optional<duration> left) { endangered(left); });
    acquire();
    context_.run();
    events_.exits(plan_.exit_code());
    end_as_child();
    return plan_.exit_code();
  }

 private:
  void carry_out(run_plan::orders const& orders) {
    for (run_plan::order const& one : orders) {
      switch (one.what) {
        case order_kind::ask_again: acquire(); break;
        case order_kind::stop_waiting: locks_.stop_waiting(); break;
        case order_kind::start: start(); break;
        case order_kind::signal_group: signal_group(one.signal); break;
        case order_kind::kill_at: kill_at(one.when); break;
        case order_kind::suspend: suspend(); break;
        case order_kind::check: locks_.check([this](bool held) { carry_out(plan_.checked(held)); }); break;
        case order_kind::release: release(); break;
        case order_kind::leave: leave(); break;
      }
    }
  }

  // -------------------------------------------------------------------------------------------- signals

  void listen() {
    for (int const number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGTSTP, SIGCONT}) {
      struct sigaction now {};
      // as by nohup: it stays ignored
      if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
      signals_.add(number);
    }
    struct sigaction children {};
    ignores_children_ = ::sigaction(SIGCHLD, nullptr, &children) == 0 && children.sa_handler == SIG_IGN;
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
      } else if (number == SIGTSTP && plan_.state() == run_state::waiting) {
        stop_here(false, false);
      } else {
        carry_out(plan_.signalled(number, means_an_end(number), clock::now()));
      }
    });
  }

  void continued() {
    if (plan_.state() == run_state::running && tty_.is_mine()) give_terminal();
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
      // The terminal would have signalled all of conch's group, including the script around it, if it were not the
      // child's.
      if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT))
        ended_by_terminal_ = WTERMSIG(status);
    }
    bool const is_held = locks_.valid() && !(guardian_ && guardian_->has_killed());
    if (!is_held) report_loss(": conch saw no renewal in time");
    events_.child_ended(status);
    int const code = WIFEXITED(status) ? WEXITSTATUS(status) : exit_code::of_signal + WTERMSIG(status);
    carry_out(plan_.child_ended(code, group_is_there(child_), is_held, clock::now()));
  }

  /// Others of the group may not be children of this process: it asks from time to time.
  void look_for_group() {
    bool const leaving = plan_.state() == run_state::ending || plan_.state() == run_state::killed;
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

  void acquire() {
    locks_.acquire([this](error_code why) { acquired(why); });
  }

  void acquired(error_code why) {
    if (why) {
      bool const not_free = why == errc::timed_out;
      int const code = not_free ? given_.conflict_exit_code : exit_code_of(why);
      std::string const words = printable(given_.names.front()) + ": " + (not_free ? not_free_words() : why.message());
      bool const was_stopped = why == asio::error::operation_aborted;
      auto const next = plan_.not_granted(code);
      if (was_stopped) events_.quiet_trouble("not_granted", words, plan_.exit_code());
      else events_.trouble("not_granted", words, code);
      carry_out(next);
      return;
    }
    begin_when_safe();
  }

  /// Over several servers a grant is a claim of half a second first. On a busy machine it can take as long to start a
  /// process: the job would lose the lock as it begins. A later deadline may still be a claim's: of another vote.
  void begin_when_safe() {
    time_point const deadline = locks_.deadline();
    duration const safe = std::min({duration{1s}, locks_.lease() / 2, given_.max_hold.value_or(2s) / 2});
    if (deadline >= clock::now() + safe) return begin();
    locks_.when_renewed(deadline, [this](error_code why) {
      if (!why) begin_when_safe();
      else carry_out(plan_.lost_claim());
    });
  }

  void begin() {
    events_.granted(locks_);
    follow_deadline();
    locks_.when_lost([this](error_code lost) {
      if (lost == asio::error::operation_aborted) return;
      report_loss(reason_of(lost));
      time_point const now = clock::now();
      // The kill needs a moment, too.
      carry_out(plan_.lost_at(now, deadline_ - std::min<duration>(50ms, grace_ / 4)));
      look_for_group();
    });
    carry_out(plan_.granted());
  }

  /// Once: CMD may end, or be killed by the guardian, before the library reports the loss.
  void report_loss(std::string const& reason) {
    if (std::exchange(is_loss_reported_, true)) return;
    events_.trouble("lost", printable(given_.names.front()) + ": the lock is lost" + reason, exit_code::lost);
  }

  /// Before CMD runs, nothing is there to be warned.
  void endangered(std::optional<duration> left) {
    if (!left) {
      if (std::exchange(is_endangered_, false)) events_.safe_again();
    } else if (child_ != 0) {
      is_endangered_ = true;
      events_.endangered(*left);
      carry_out(plan_.endangered());
    }
  }

  std::string not_free_words() const {
    std::string words = "not free";
    if (given_.wait && *given_.wait > duration::zero()) words += " within " + readable(*given_.wait);
    std::string const holder = locks_.held_by();
    return holder.empty() ? words : words + " (held by " + holder + ')';
  }

  /// The deadline moves on with each renewal, and the first one comes soon after a grant that was waited for: that is a
  /// claim first. Each later deadline goes to the guardian as soon as it is known here.
  void follow_deadline() {
    deadline_ = std::max(deadline_, locks_.deadline());
    if (guardian_) guardian_->set_deadline(deadline_);
    if (child_ != 0) tell_if_out_of_reach(cli::signal_group(child_, 0));
    locks_.when_renewed(deadline_, [this](error_code why) {
      if (!why) follow_deadline();
    });
  }

  void release() {
    if (guardian_) guardian_->watch(0);
    locks_.release([this](error_code why, bool) {
      if (why && why != errc::not_held)
        events_.trouble(
            "not_released",
            printable(given_.names.front()) + ": not released yet, so it ends with its lease: " + why.message(), 0);
      else events_.released(!why);
      clean_ = !why;
      carry_out(plan_.released());
    });
  }

  /// What is still on its way to the server gets a second.
  void leave() {
    if (guardian_) guardian_->watch(0);
    signals_.cancel();
    for (asio::steady_timer* timer : {&kill_timer_, &group_timer_}) timer->cancel();
    locks_.drop();
    if (clean_) {
      context_.stop();
    } else {
      locks_.close([this] { context_.stop(); });
    }
  }

  // -------------------------------------------------------------------------------------------- the child

  void start() {
    try {
      if (given_.kill_child) guardian_.emplace(deadline_);
      child_options options;
      options.command = given_.child;
      options.environment = environment();
      options.descriptors = inherited_;
      options.blocked = let_signals_in();
      options.ignores_children = ignores_children_;
      std::erase(options.descriptors, events_.own_descriptor());
      options.dies_with_parent = given_.kill_child;
      // Not if a pipe follows: its reader may want the terminal, as a pager. The child gets it when it asks for it.
      options.gets_terminal = tty_.is_mine() && ::isatty(STDIN_FILENO) != 0 && !is_pipe(STDOUT_FILENO);
      if (guardian_) options.watched_by = &*guardian_;
      child_ = start_child(options, tty_);
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
      fences += (fences.empty() ? "" : " ") + std::to_string(locks_.fence(name));
    }
    std::uint32_t const segment = locks_.segment();
    std::vector<std::pair<std::string, std::string>> all{
        {child_variable::lock, names},
        {child_variable::fence, fences},
        {child_variable::segment, segment == 0 ? std::string{} : std::to_string(segment)},
        {child_variable::task, locks_.task()}};
    // Not for the job: how this process reaches the server, with passwords; and what systemd addresses to one process
    // id: its sockets and its watchdog. Without WATCHDOG_PID any process of the service may report to the watchdog.
    if (!given_.keep_connection) {
      for (char const* const name : connection_variables()) all.emplace_back(name, "");
    }
    for (char const* const name : variables_of_systemd) all.emplace_back(name, "");
    return all;
  }

  void give_terminal() {
    if (child_ != 0) tty_.give_to(child_);
  }

  void signal_group(int number) {
    if (child_ == 0) return;
    if (number == SIGCONT && tty_.is_mine()) give_terminal();
    tell_if_out_of_reach(cli::signal_group(child_, number));
    look_for_group();
  }

  /// A job that runs as another user (sudo, a program with the setuid bit) ends when it wants to. `why`: errno of a
  /// signal.
  void tell_if_out_of_reach(int why) {
    if (why != EPERM || std::exchange(is_out_of_reach_, true)) return;
    std::string const words = printable(given_.names.front()) + ": " + printable(given_.child.front()) +
                              " runs as another user: neither a signal, nor the loss of the lock, nor the end of conch "
                              "ends it. Run conch as that "
                              "user, as in: sudo conch run " +
                              "NAME -- COMMAND";
    events_.trouble("out_of_reach", words, 0);
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

  /// Ends by the signal that the terminal gave the child, and with it what the terminal would have ended: a script does
  /// not continue after Ctrl-C.
  void end_as_child() const {
    if (ended_by_terminal_ == 0 || plan_.lost()) {
      keep_signals_out();
      return;
    }
    rlimit const no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::signal(ended_by_terminal_, SIG_DFL);
    ::kill(0, ended_by_terminal_);
  }

  arguments const& given_;
  run_events events_;
  std::vector<int> const inherited_ = inherited_descriptors();
  asio::io_context& context_;
  run_locks& locks_;
  duration const grace_;
  run_plan plan_;
  asio::signal_set signals_{context_};
  asio::steady_timer kill_timer_{context_}, group_timer_{context_};
  terminal tty_;
  bool ignores_children_ = false;  // conch was started to ignore SIGCHLD
  bool is_out_of_reach_ = false;
  bool is_endangered_ = false;  // and that was reported
  bool is_loss_reported_ = false;
  bool wants_terminal_ = false;  // the child was stopped for want of the terminal
  time_point deadline_{};        // of the hold; follow_deadline() keeps it up to date
  time_point kill_when_ = time_point::max();
  std::optional<guardian> guardian_;
  pid_t child_ = 0;
  int ended_by_terminal_ = 0;
  bool clean_ = false;  // the server has confirmed that there is nothing left
};

bool runner::is_pipe(int fd) {
  struct stat about {};
  return ::fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode);
}

}  // namespace

int run_under(asio::io_context& context, arguments const& given, run_locks& locks, duration grace) {
  runner r{context, given, locks, grace};
  return r.run();
}

int run(arguments const& given, connection const& servers) {
  asio::io_context context{1};
  library_locks const all = locks_of(context, given, servers);
  return run_under(context, given, *all.locks, all.grace);
}

}  // namespace conch::cli
