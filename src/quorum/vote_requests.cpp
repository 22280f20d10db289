// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/vote_requests.hpp"

#include <algorithm>
#include <chrono>

namespace conch::quorum {

using protocol::server_place;

/// A try does not ask again where another client has the lock. It does ask again where a server has
/// answered with an error, while it waits for other servers to connect.
void vote_requests::ask_votes(quorum_lock& q, time_point now) {
  std::uint64_t const round = q.round;
  for (auto const& v : q.votes) {
    bool const answered = v->refused && !q.wait;
    if (v->place.state != engine::place_state::idle || v->not_before > now || answered) continue;
    ask_vote(q, *v, q.wait, now);
    if (q.round != round) return;
  }
}

void vote_requests::ask_vote(quorum_lock& q, vote& v, bool wait, time_point now) {
  BOOST_ASSERT_MSG(v.place.state == engine::place_state::idle, "a vote is asked for twice");
  member& m = v.from;
  if (m.same_as) {
    v.not_before = timer_queue::never;
    return;
  }
  if (m.fresh_until > now) {
    v.not_before = m.fresh_until;
    return;
  }
  // Every attempt at a server has a new id; the place in line depends on the ticket.
  bool const held = q.phase == lock_phase::held;
  v.refused = false;
  auto const claim = std::chrono::duration_cast<engine::milliseconds>(on_.settings.quorum.vote_claim);
  v.place.at_least = q.at_least;
  v.place.kept_until = time_point::min();
  m.server->as_votes().ask(v.place, {q.ticket, q.floor, 0, held ? q.front : nullptr}, wait, held ? q.lease : claim,
                           now);
}

void vote_requests::confirm_late_votes(quorum_lock& q, time_point now) {
  for (auto const& v : q.votes) {
    if (v->place.state != engine::place_state::owned || v->place.confirmed) continue;
    server_place* const one = &v->place;
    v->from.server->as_votes().renew({&one, 1}, now);
  }
}

/// The server's next fences must be above all fences that this vote was to accept.
void vote_requests::give_back(vote& v, engine::receipt* r, std::int64_t next_fence_floor, time_point now) {
  protocol::vote_terms terms = v.place.vote.terms;
  terms.floor = std::max(terms.floor, v.in.floor);
  terms.next_fence_floor = next_fence_floor;
  terms.hold = nullptr;
  v.place.kept_until = v.in.kept_until;
  v.from.server->as_votes().give_back(v.place, terms, r, now);
}

}  // namespace conch::quorum
