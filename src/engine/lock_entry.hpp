// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/acquisition.hpp"

#include <algorithm>

namespace conch::engine {

/// All that a client knows of one lock in use. For a lock with several owners each acquire has its own entry, with its
/// own place in the server's queue. So has an acquire that adopts a detached hold: others of this client may be in the
/// server's queue for that very lock, behind the hold.
struct lock_entry : list_hook<lock_entry> {
  lock_entry(std::string lock_name, class cohort& owner, backend& servers, permit const& share, bool is_single);

  std::string const name;
  class cohort& in;
  bool const single;  // of one acquire
  std::unique_ptr<engine::place> const place;
  list<acquisition> waiting;  // in the order of asking
  acquisition* holder = nullptr;
  int hand_offs = 0;                    // of the present grant; the index in the fencing token
  bool requested = false;               // another client asks for the present grant
  bool proving = false;                 // not held: it is handed on when the server has confirmed that it is still ours
  bool proof_repeated = false;          // it was asked again, because an answer to an earlier question came
  bool observed_in_line = false;        // that the present request is queued has been observed
  time_point ends = time_point::max();  // the hold ends then at the latest, whatever the servers answer
  time_point slice_began{};
  time_point proved_at{};      // when the server last confirmed that it is ours
  time_point proving_since{};  // a word to a question from before that proves nothing
  time_point renew_at{};
  timer watch;
};

/// Until when the holder may believe the lock its own.
inline time_point deadline_of(lock_entry const& e) noexcept { return std::min(e.place->deadline, e.ends); }

}  // namespace conch::engine
