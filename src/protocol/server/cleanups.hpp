// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/list.hpp"
#include "protocol/cleanup.hpp"
#include "protocol/replies.hpp"
#include "protocol/server/common_parts.hpp"
#include "protocol/server/place_keeper.hpp"

#include <cstddef>
#include <set>

namespace conch::protocol {

using namespace engine;

/// Clean-ups: releases and leaves until the server has answered them, and kicks, which repeat a release because the
/// client that the lock was passed on to may be dead. This part sends them; `release_answers` takes the answers.
class cleanups {
 public:
  cleanups(common_parts& on, place_keeper& mine) noexcept : on_{on}, mine_{mine} {}
  cleanups(cleanups const&) = delete;
  cleanups& operator=(cleanups const&) = delete;
  ~cleanups();

  /// With an id of 0 the caller sends the clean-up. Otherwise it is sent now, or on the next connection.
  cleanup& add(server_place& p, grant_id id, receipt* r, time_point now);
  /// For a place that is with another server now. If it is under an id that is dead by then, no clean-up of it need be
  /// under way: it was not known that it would be carried out.
  void add_where_it_went(server_place& p, grant_id id, acquire_reply const& reply, time_point now);
  /// A script has answered that there is more to do. A release under a dead id does it, and is repeated until nothing
  /// is left.
  void release_again(server_place& p, grant_id dead, time_point now) { add(p, dead, nullptr, now); }
  /// Now, or when there is room.
  void send(cleanup& c, time_point now);
  void send(cleanup& c, grant_id new_id, bool with_source, time_point now);
  /// The server may carry it out now, if it has refused it so far.
  void try_again(cleanup& c, time_point now);
  /// May a clean-up be written now? What frees a lock goes before what asks for one.
  bool may_send() const noexcept { return on_.sent.window().has_room() && resting_.empty(); }

  void finish(cleanup& c, bool was_mine, error_code why, time_point now);
  /// The caller of the release need not wait for what follows.
  void report_released(cleanup& c, bool was_mine, time_point now);
  /// A clean-up that the server refused has had its answer; it is repeated in the background. One that waits for room
  /// is on its way.
  time_point late_after(receipt const& r) const;
  error_code why_not_done(receipt const& r) const;

  // The client that was let in last may be dead.
  /// This client has passed the lock on while others wait.
  void passed_on(server_place& p, milliseconds lease, time_point now);
  void verify_successor(server_place& p, grant_id dead, time_point now);
  void drop_kick(server_place& p);
  /// The client is about to close, so it checks on new owners no longer: a script that is sent now leaves that to those
  /// in the queue.
  void drop_kicks(time_point now);

  /// None: there is no release or leave of that id.
  cleanup* find(grant_id id);
  /// Is an earlier grant or place of this one still to be given back?
  bool has_for(server_place const& p);
  /// Releases and leaves that are not answered yet.
  std::size_t count() const noexcept { return count_; }
  /// Does none of them matter any more?
  bool settled() const noexcept { return count_ == lapsed_; }
  bool has_rest() const noexcept { return !resting_.empty(); }

  // The connection.
  void begin() { resting_.splice_back(pending_); }
  void end(time_point now);
  /// Sends what rests.
  void repeat(std::size_t& left, time_point now);

  // From one server to another.
  void part(time_point now);
  void receive(cleanup& c, time_point now);
  /// What was put off need wait no longer.
  void hasten(std::set<unsigned> const& slots, time_point now);

 private:
  cleanup& make(server_place& p, grant_id id);
  void due(cleanup& c, time_point now);
  duration kept_for(server_place const& p, time_point now) const;
  time_point forgotten_by(cleanup const& c, time_point now) const;
  void extend(cleanup& c, time_point until);
  time_point after_claim(milliseconds claim, time_point now);
  error_code not_done(cleanup const& c) const;

  common_parts& on_;
  place_keeper& mine_;
  list<cleanup> pending_;
  list<cleanup> resting_;
  std::size_t count_ = 0;
  std::size_t lapsed_ = 0;  // of them
  bool closing_ = false;    // no later checks: those in the queue are told to do them
};

}  // namespace conch::protocol
