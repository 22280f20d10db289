// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/mutant.hpp"
#include "quorum/quorum_lock.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

// What was asked for or held is given back at all servers.
namespace conch::quorum {

/// Nothing of ours is to stay at any server, also at those that have not answered. With `r` the reference to the front
/// place goes to the release_round.
void quorum::back_out(quorum_lock& b, engine::receipt* r, time_point now) {
  release_round* f = nullptr;
  if (r != nullptr) {
    f = release_rounds_.emplace_back(std::make_unique<release_round>(*this, b.votes.size(), r, b.front)).get();
    f->listed_at = std::prev(release_rounds_.end());
    f->open = 1;  // until all are on their way
    timers_.arm(f->timer, now + std::max<duration>(engine::milliseconds{10}, 16 * round_trip()));
  }
  enter(*b.front, place::state::idle);
  b.at = quorum_lock::phase::idle;
  b.front = nullptr;
  b.timer.cancel();
  ++b.round;
  release_votes(b, f, now);
  if (f == nullptr) return;
  // Never told before this returns: who gave up is still at it.
  f->begun = true;
  if (--f->open == 0) timers_.arm(f->timer, now);
}

void quorum::release_votes(quorum_lock& b, release_round* f, time_point now) {
  for (auto const& v : b.votes) {
    engine::server& server = *members_[v->server]->protocol;
    release_round::vote_release* vote = nullptr;
    if (f != nullptr && v->place.at != place::state::idle) {
      vote = &f->votes[v->server];
      vote->open = true;
      vote->vote = v->place.at == place::state::owned;
      ++f->open;
      if (vote->vote) ++f->votes_open;
    } else if (f != nullptr) {
      ++f->answered;
    }
    v->place.part_of = nullptr;
    switch (v->place.at) {
      case place::state::owned: server.release(v->place, std::nullopt, vote, now); break;
      case place::state::asking:
      case place::state::in_line:
      case place::state::leaving:
        if (CONCH_MUTANT(unanswered_not_released)) v->place.written = false;
        server.give_up(v->place, vote, now);
        break;
      case place::state::idle: break;
    }
  }
}

void quorum::vote_released(engine::receipt& r, bool was_mine, time_point now) {
  auto& vote = static_cast<release_round::vote_release&>(r);
  if (!vote.open) return;
  vote.open = false;
  release_round& f = *vote.of;
  --f.open;
  ++f.answered;
  if (vote.vote) --f.votes_open;
  if (vote.vote && was_mine) ++f.votes_mine;
  tell_released(f, now);
}

/// Whether a release ended a lock that was still held is certain once a quorum of the votes in hand has said so, or cannot any
/// more. If a quorum has answered, stragglers are waited for as long as for any attempt, and then believed to have held it.
void quorum::tell_released(release_round& f, time_point now) {
  if (!f.begun) return;
  bool const certain = f.votes_mine >= needed() || f.votes_mine + f.votes_open < needed() || f.late;
  if (f.whom != nullptr && certain && (f.answered >= needed() || f.open == 0)) {
    engine::receipt& whom = *f.whom;
    forget(whom);
    place& front = *std::exchange(f.front, nullptr);
    std::size_t const enough = CONCH_MUTANT(released_by_one) ? 1 : CONCH_MUTANT(released_by_all) ? members_.size() : needed();
    up_.released(whom, f.votes_mine + f.votes_open >= enough, {}, now);
    drop(front);
  }
  if (f.open == 0) {
    place* const front = std::exchange(f.front, nullptr);
    if (f.whom != nullptr) forget(*f.whom);
    release_rounds_.erase(f.listed_at);
    if (front != nullptr) drop(*front);
  }
}

void quorum::forget(engine::receipt& r) noexcept {
  if (r.waited_by != nullptr) static_cast<release_round*>(r.waited_by)->whom = nullptr;
  r.waited_by = nullptr;
}

/// Of those servers whose answers are missing, as many as are needed may still be at work.
time_point quorum::late_after(engine::receipt const& r) const {
  if (r.waited_by == nullptr) return time_point::min();
  auto const& f = *static_cast<release_round const*>(r.waited_by);
  std::array<time_point, most_servers> late{};
  std::size_t missing = 0;
  for (std::size_t i = 0; i < f.votes.size(); ++i) {
    if (f.votes[i].open) late[missing++] = members_[i]->protocol->late_after(f.votes[i]);
  }
  std::size_t const wanted = needed() - std::min(needed(), f.answered);
  return wanted == 0 ? time_point::min() : kth_greatest({late.data(), missing}, wanted);
}

}  // namespace conch::quorum
