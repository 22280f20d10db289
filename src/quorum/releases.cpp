// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/releases.hpp"

#include "base/failure.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace conch::quorum {

using protocol::server_place;

release_round::release_round(releases& q, std::size_t servers, engine::receipt* r, cohort_place* s)
    : in{q},
      front{s},
      votes(servers),
      timer{this, [](release_round& round, time_point now) {
              round.late = true;
              round.in.report_released(round, now);
            }} {
  for (vote_release& p : votes) p.of = this;
  wait_for(*this, r);
}

void releases::drop(cohort_place& front) {
  --front.references;
  if (front.references == 0 && front.state == engine::place_state::idle) on_.up.settled(front);
}

/// Leaves nothing of this client at any server, also not at those that have not answered. With `r` the reference to the
/// front place goes to the release_round.
void releases::back_out(quorum_lock& q, engine::receipt* r, std::int64_t next_fence_floor, time_point now) {
  BOOST_ASSERT_MSG(q.front != nullptr, "the lock has neither a holder nor a waiter");
  release_round* f = nullptr;
  if (r != nullptr) {
    f = rounds_.emplace_back(std::make_unique<release_round>(*this, q.votes.size(), r, q.front)).get();
    f->listed_at = std::prev(rounds_.end());
    f->open = 1;  // until all are on their way
    on_.timers.arm(f->timer, now + std::max<duration>(engine::milliseconds{10}, 16 * servers_.round_trip()));
  }
  enter(*q.front, engine::place_state::idle);
  q.phase = lock_phase::idle;
  q.front = nullptr;
  q.timer.cancel();
  ++q.round;
  room_.answered(q, now);
  release_votes(q, f, next_fence_floor, now);
  if (f == nullptr) return;
  // The caller is never notified before this returns: it is still at work.
  f->begun = true;
  if (--f->open == 0) on_.timers.arm(f->timer, now);
}

void releases::release_votes(quorum_lock& q, release_round* f, std::int64_t next_fence_floor, time_point now) {
  for (auto const& v : q.votes) {
    release_round::vote_release* receipt = nullptr;
    if (f != nullptr && v->place.state != engine::place_state::idle) {
      receipt = &f->votes[v->from.number];
      receipt->open = true;
      receipt->vote = servers_.counts(*v);
      ++f->open;
      if (receipt->vote) ++f->votes_open;
    } else if (f != nullptr) {
      ++f->answered;
    }
    if (v->place.state == engine::place_state::idle) continue;
    vote_requests::give_back(*v, receipt, next_fence_floor, now);
  }
}

void releases::leave_votes(quorum_lock& q, time_point now) {
  for (auto const& v : q.votes) {
    if (v->place.state != engine::place_state::owned) continue;
    v->place.vote.terms = {};
    v->from.server->detach(v->place, now);
  }
}

void releases::vote_released(engine::receipt& of, bool was_mine, time_point now) {
  auto& receipt = static_cast<release_round::vote_release&>(of);
  if (!receipt.open) return;
  receipt.open = false;
  release_round& round = *receipt.of;
  --round.open;
  ++round.answered;
  if (receipt.vote) --round.votes_open;
  if (receipt.vote && was_mine) ++round.votes_mine;
  report_released(round, now);
}

/// Did the release end a lock that was still held? This is certain when a quorum of the votes in hand has confirmed it,
/// or no longer can. When a quorum has answered, late servers are waited for as long as in any attempt. After that they
/// are believed to have held the lock.
void releases::report_released(release_round& round, time_point now) {
  if (!round.begun) return;
  bool const certain =
      round.votes_mine >= servers_.needed() || round.votes_mine + round.votes_open < servers_.needed() || round.late;
  if (round.caller != nullptr && certain && (round.answered >= servers_.needed() || round.open == 0)) {
    engine::receipt& caller = *round.caller;
    forget(caller);
    cohort_place& front = *std::exchange(round.front, nullptr);
    std::size_t const enough = servers_.needed();
    on_.up.released(caller, round.votes_mine + round.votes_open >= enough, {}, now);
    drop(front);
  }
  if (round.open == 0) {
    cohort_place* const front = std::exchange(round.front, nullptr);
    if (round.caller != nullptr) forget(*round.caller);
    rounds_.erase(round.listed_at);
    if (front != nullptr) drop(*front);
  }
}

/// As many of the servers without an answer as are needed may still be at work.
time_point releases::late_after(engine::receipt const& r) const {
  if (r.pending == nullptr) return time_point::min();
  auto const& f = *static_cast<release_round const*>(r.pending);
  std::array<time_point, most_servers> late{};
  std::size_t missing = 0;
  for (std::size_t i = 0; i < f.votes.size(); ++i) {
    if (f.votes[i].open) late[missing++] = servers_.all()[i]->server->late_after(f.votes[i]);
  }
  std::size_t const wanted = servers_.needed() - std::min(servers_.needed(), f.answered);
  return wanted == 0 ? time_point::min() : kth_greatest({late.data(), missing}, wanted);
}

/// What a server has refused it with, or else that too few have answered.
error_code releases::why_not_done(engine::receipt const& r) const {
  if (r.pending == nullptr) return servers_.no_answer();
  auto const& f = *static_cast<release_round const*>(r.pending);
  for (std::size_t i = 0; i < f.votes.size(); ++i) {
    if (!f.votes[i].open) continue;
    error_code const why = servers_.all()[i]->server->why_not_done(f.votes[i]);
    if (why != errc::unreachable) return why;
  }
  return f.front == nullptr ? servers_.no_answer()
                            : explained(servers_.no_answer(), {failed_task::kind::releasing, f.front->name});
}

}  // namespace conch::quorum
