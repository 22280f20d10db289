// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server_place.hpp"

namespace conch::protocol {

using namespace engine;

class cleanups;

/// A release or a leave that the server has not answered yet. It is repeated until it is answered or has become
/// pointless. Its grant id is dead.
struct cleanup : list_hook<cleanup>, awaited {
  template <class Function>
  cleanup(server_place& of, grant_id dead, cleanups& owner, Function on_due) noexcept
      : lock{&of},
        id{dead},
        in{&owner},
        due{this, on_due} {}

  server_place* lock;
  grant_id id;
  cleanups* in;            // of the server that is to carry it out
  std::int64_t floor = 0;  // of a vote (vote_terms::floor_asked); 0: not a vote
  std::int64_t next_fence_floor = 0;
  // how long the server may keep what the clean-up ends after it was carried out
  duration kept_for{};
  time_point over{};                                    // by then the server has forgotten the id by itself
  time_point late_until = time_point::min();            // as in place, for this id
  time_point old_connection_until = time_point::min();  // not finished before this: an earlier connection may undo it
  // until then the first in line may still be connected to the earlier server
  time_point patient_until = time_point::min();
  // of a hold: the server keeps the grant until then (place::kept_until)
  time_point kept_until = time_point::min();
  bool was_valid = false;  // the hold was valid when the release was first written
  bool sent = false;       // written on this connection, not answered
  bool resent = false;     // may have been carried out before
  // only an earlier connection may still bring something of the id to the server
  bool lapsed = false;
  bool is_kick = false;  // the lock is released already; its next owner may be dead
  std::uint32_t refusals = 0;
  error_code refused{};  // what the server answered last; empty: it has not refused it
  timer due;
};

}  // namespace conch::protocol
