// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <cstdint>
#include <vector>

namespace conch::cli {

enum class run_state : std::uint8_t {
  waiting,    // for the lock
  running,    // the child runs
  suspended,  // the child is stopped, and conch with it
  checking,   // conch continues: does it still hold the lock? The child is stopped still
  ending,     // the group has got TERM; KILL follows when the grace period has passed
  killed,     // the group has got KILL
  releasing,  // the group is gone
  over,
};

/// What `conch run` does next. Events go in, orders come out; it knows neither processes nor locks, and has no clock.
///
/// The lock is released when the child and all others of its process group have ended, and not before.
class run_plan {
 public:
  struct order {
    enum class kind : std::uint8_t {
      ask_again,     // acquire once more; granted(), lost_claim() or not_granted() follows
      stop_waiting,  // give up the acquire; end() follows
      start,         // start the child; started() or cannot_start() follows
      signal_group,  // `signal` to the child's process group
      kill_at,       // call grace_over() at `when`; of several such orders the earliest time counts
      suspend,       // stop this process as the terminal would; resumed() follows
      check,         // ask the server whether this process still holds the lock; checked() follows
      release,       // the lock; end() follows
      leave,         // drop the hold, which is lost, and end with exit_code()
    };
    kind what;
    int signal = 0;
    time_point when{};

    bool operator==(order const&) const = default;
  };
  using orders = std::vector<order>;

  /// `grace`: between TERM and KILL. The numbers of signals and exit codes come from outside: this file does not know
  /// the system.
  struct numbers {
    int term, kill, cont;
    int lost_code, of_signal;
    int warn = 0;  // none
  };
  run_plan(duration grace, numbers const& n) noexcept : grace_{grace}, n_{n} {}

  run_state state() const noexcept { return state_; }
  /// That of the whole command, once at() is releasing or over.
  int exit_code() const noexcept { return lost_ ? n_.lost_code : code_; }
  bool lost() const noexcept { return lost_; }

  orders granted();
  /// The grant was lost before anything was started.
  orders lost_claim();
  /// The acquire has failed, or was given up: its exit code. After a signal that of the signal counts.
  orders not_granted(int code);
  orders started();
  orders cannot_start(int code);
  /// `ends`: the signal is a wish that conch ends (INT, TERM, HUP, QUIT). Others are only passed on.
  orders signalled(int signal, bool ends, time_point now);
  /// The child is stopped by the terminal: conch stops too, as the job that the shell knows.
  orders child_suspended();
  orders resumed();
  orders checked(bool held);
  /// A renewal is late.
  orders endangered();
  /// `until`: no other client can be granted the lock before. In the past if that is not known.
  orders lost_at(time_point now, time_point until);
  orders grace_over();
  /// The child itself. `others`: its group has more processes. `held`: the hold is valid.
  orders child_ended(int code, bool others, bool held, time_point now);
  orders group_gone();
  orders released();

 private:
  orders run_on();
  orders finish();
  orders terminate(time_point until);

  duration const grace_;
  numbers const n_;
  run_state state_ = run_state::waiting;
  int code_ = 0;
  int wishes_ = 0;           // signals that mean an end
  bool child_gone_ = false;  // its exit code is known
  bool lost_ = false;
};

}  // namespace conch::cli
