// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/holding.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace conch::quorum {

using protocol::server_place;

void holding::renew(std::span<engine::place* const> places, time_point now) {
  std::vector<std::vector<server_place*>> of(servers_.size());
  for (engine::place* s : places) {
    quorum_lock& q = made_here(*s).lock;
    if (q.phase != lock_phase::held) continue;
    keeping const keep{q};
    q.lease = s->lease;
    for (auto const& v : q.votes) {
      protocol::votes::hold(v->place, {q.ticket, q.floor, 0, s}, s->lease);
      if (v->place.state == engine::place_state::owned) of[v->from.number].push_back(&v->place);
    }
  }
  for (auto const& m : servers_.all()) m->server->as_votes().renew(of[m->number], now);
}

bool holding::has_room_for_renewal(engine::place const& p) const noexcept {
  std::size_t with_room = 0;
  for (auto const& v : made_here(p).lock.votes) {
    if (v->from.server->as_votes().has_room_for_renewal()) ++with_room;
  }
  return with_room >= servers_.needed();
}

/// Fewer servers than a quorum know of the lock, so another client may have it.
void holding::lose(quorum_lock& q, time_point now) {
  BOOST_ASSERT_MSG(q.front != nullptr && q.phase == lock_phase::held, "only what is held is lost");
  cohort_place& front = *q.front;
  enter(front, engine::place_state::idle);
  q.kept_until = front.kept_until;
  q.phase = lock_phase::idle;
  q.front = nullptr;
  q.timer.cancel();
  std::uint64_t const round = ++q.round;
  if (on_.settings.lock_delay > duration::zero()) releases_.leave_votes(q, now);
  // The holder is told first: the servers may carry out what is sent, and grant the lock to another client, before this
  // returns.
  on_.up.lost(front, now);
  if (q.round == round) {
    releases_.release_votes(q, nullptr, 0, now);
  }
  releases_.drop(front);
}

/// Reports to the cohort how long the votes are valid now, if that has changed.
void holding::refresh(quorum_lock& q, time_point now) {
  cohort_place& front = *q.front;
  std::vector<time_point> deadlines, heard_from;
  std::size_t confirmed = 0;
  for (auto const& v : q.votes) {
    if (!servers_.counts(*v)) continue;
    deadlines.push_back(v->place.deadline);
    heard_from.push_back(v->place.heard_from);
    if (v->place.confirmed) ++confirmed;
  }
  // they have no deadline in common: that is a loss, and is reported as one
  if (deadlines.size() < servers_.needed()) return;
  bool const was_confirmed = front.confirmed;
  bool const is_confirmed = confirmed >= servers_.needed();
  time_point const deadline = kth_greatest(deadlines, servers_.needed());
  // A quorum has confirmed since then that the lock is ours.
  time_point const confirmed_at = kth_greatest(heard_from, servers_.needed());
  bool const is_news = std::exchange(front.heard_from, confirmed_at) < confirmed_at;
  if (deadline == front.deadline && is_confirmed == was_confirmed && !is_news) return;
  front.deadline = deadline;
  front.confirmed = is_confirmed;
  // The vote that ends at the deadline: some votes are claims and others leases, whether or not a majority is
  // confirmed.
  auto const ends = std::ranges::find_if(q.votes, [&](auto const& v) {
    return v->place.state == engine::place_state::owned && v->place.deadline == deadline;
  });
  time_point const from = (*ends)->place.valid_from;
  front.valid_from = is_confirmed ? from : std::max(from, q.won_at);
  // Also if one long vote has put off the end, and with it the confirmation that all other votes wait for.
  if (!is_confirmed || !was_confirmed) requests_.confirm_late_votes(q, now);
  on_.up.extended(front, now);
}

/// Asks the servers that lack the lock again, but does not join the queue there. A majority must have renewed the lock
/// since such a server reported that it lacks it. Otherwise one server after the other could forget the lock, give it
/// to another client for a moment, and be asked again, and no holder would find out.
void holding::repair(quorum_lock& q, time_point now) {
  if (!q.front->confirmed || !q.front->renewable) return;
  std::uint64_t const round = q.round;
  for (auto const& v : q.votes) {
    if (v->place.state != engine::place_state::idle || v->not_before > now) continue;
    auto const verified = std::count_if(q.votes.begin(), q.votes.end(), [&](auto const& other) {
      server_place const& p = other->place;
      return servers_.counts(*other) && p.confirmed && p.valid_from >= v->gone_at;
    });
    if (static_cast<std::size_t>(verified) >= servers_.needed()) requests_.ask_vote(q, *v, false, now);
    if (q.round != round) return;
  }
}

}  // namespace conch::quorum
