// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "base/turns.hpp"
#include "protocol/request_window.hpp"
#include "quorum/quorum_environment.hpp"
#include "quorum/quorum_lock.hpp"
#include "quorum/servers.hpp"

namespace conch::quorum {

/// How many locks are asked for at once. Of locks, not of votes: what is asked for at one server is asked for at all of
/// them, or the votes of the fast ones would be over when the slow ones give theirs.
class room {
 public:
  /// `resume`: asks for those that wait.
  room(quorum_environment& on, servers& all, callback resume) noexcept : on_{on}, servers_{all}, next_{resume} {}

  bool has_room() const noexcept { return window_.has_room(); }
  /// Is there room, and no waiter for it?
  bool is_free() const noexcept { return waiting_.empty() && has_room(); }
  void wait(quorum_lock& q) { waiting_.push_back(q); }
  bool waits(quorum_lock const& q) const noexcept { return q.linked() && servers_.connected(); }
  bool has_waiting() const noexcept { return !waiting_.empty(); }
  quorum_lock& next() { return waiting_.pop_front(); }
  void resume_soon(time_point now) { on_.timers.arm(next_, in_next_turn(now)); }

  /// From here to the answers of as many servers as are needed.
  void asked(quorum_lock& q, time_point now);
  void answered(quorum_lock& q, time_point now);

 private:
  quorum_environment& on_;
  servers& servers_;
  protocol::request_window window_;
  list<quorum_lock> waiting_;  // in the order of their asking
  timer next_;
};

}  // namespace conch::quorum
