// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <sys/types.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

// Processes, their groups and the terminal, for `conch run`. Everything here is for the main thread.
namespace conch::cli {

/// Where standard input, output or error is closed, opens /dev/null there: otherwise a socket would get that number. A
/// program that is executed finds them closed, as conch did.
void fill_standard_streams();

/// Lets all signals in, whatever the parent of this process has blocked. Result: the signals that were blocked before
/// the first call: those that a command which is started here finds blocked.
sigset_t const& let_signals_in() noexcept;

/// The descriptors from 3 on that are open now and that a program which is executed would inherit: those that conch was
/// started with.
std::vector<int> inherited_descriptors();

/// The terminal of this process, as far as it has one.
class terminal {
 public:
  terminal();
  ~terminal();
  terminal(terminal const&) = delete;
  terminal& operator=(terminal const&) = delete;

  /// Does the process group of this process have it?
  bool is_mine() const noexcept;
  bool is_of(pid_t group) const noexcept;
  /// To another process group of this session. Nothing happens without a terminal.
  void give_to(pid_t group) const noexcept;
  /// Stops this process, or all of its group, as the terminal would, and returns when it continues. In a group that no
  /// shell would continue the system lets nothing happen. With `wants_terminal` it continues at once if a shell has
  /// brought the group to the front meanwhile: what continued it came before the stop, and no other will come.
  void stop_here(bool group_too, bool wants_terminal) const noexcept;

 private:
  int fd_;
};

/// Kills a process group when this process ends, however it ends, or when a deadline has passed: even if this process
/// is paused. It is a separate process in its own session, and does nothing else.
class guardian {
 public:
  /// Throws failure.
  explicit guardian(time_point deadline);
  ~guardian();
  guardian(guardian const&) = delete;
  guardian& operator=(guardian const&) = delete;

  /// The group to kill; 0: none any more.
  void watch(pid_t group) noexcept;
  /// By conch::clock; it kills when this has passed. If it is later than the previous one, it sleeps until then.
  void set_deadline(time_point t) noexcept;
  /// It has killed the group because the deadline that it knew had passed. A later one may have been on its way to it.
  bool has_killed() const noexcept;
  pid_t pid() const noexcept { return pid_; }

 private:
  struct shared;
  shared* page_;
  int pipe_ = -1;
  pid_t pid_ = 0;
};

/// From now on no signal reaches this thread: one that comes late must not change how this process ends.
void keep_signals_out() noexcept;

struct child_options {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // to set; an empty text removes the variable
  // besides 0, 1 and 2; it gets no other one, as a connection of conch
  std::vector<int> descriptors;
  sigset_t blocked{};             // signals
  bool ignores_children = false;  // SIGCHLD
  bool dies_with_parent = true;
  bool gets_terminal = false;
  guardian* watched_by = nullptr;  // from before the command runs
};

/// Starts the command in a process group of its own.
/// Result: its process id, which is that of its group. Throws failure: not_found, not_executable, internal.
pid_t start_child(child_options const& options, terminal const& tty);

/// Sends a signal to all processes of the group. Result: errno if that reaches none of them, as EPERM where all belong
/// to another user; else 0.
int signal_group(pid_t group, int signal) noexcept;

/// Does the process group still have a process?
bool group_is_there(pid_t group) noexcept;

/// Orphans of this process' descendants become its children, so that they are waited for.
void adopt_orphans() noexcept;

}  // namespace conch::cli
