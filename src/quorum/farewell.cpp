// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/mutant.hpp"
#include "quorum/ballot.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

// What was asked for or held is given back at all servers.
namespace conch::quorum {

/// Nothing of ours is to stay at any server, also at those that have not answered. With `r` the reference to the front
/// seat goes to the farewell.
void quorum::back_out(ballot& b, engine::receipt* r, time_point now) {
  farewell* f = nullptr;
  if (r != nullptr) {
    f = farewells_.emplace_back(std::make_unique<farewell>(*this, b.votes.size(), r, b.front)).get();
    f->place = std::prev(farewells_.end());
    f->open = 1;  // until all are on their way
    timers_.arm(f->timer, now + std::max<duration>(engine::milliseconds{10}, 16 * round_trip()));
  }
  b.front->at = seat::state::idle;
  b.at = ballot::phase::idle;
  b.front = nullptr;
  b.timer.cancel();
  ++b.round;
  release_votes(b, f, now);
  if (f == nullptr) return;
  // Never told before this returns: who gave up is still at it.
  f->begun = true;
  if (--f->open == 0) timers_.arm(f->timer, now);
}

void quorum::release_votes(ballot& b, farewell* f, time_point now) {
  for (auto const& v : b.votes) {
    engine::server& server = *members_[v->server]->protocol;
    farewell::part* part = nullptr;
    if (f != nullptr && v->place.at != seat::state::idle) {
      part = &f->parts[v->server];
      part->open = true;
      part->vote = v->place.at == seat::state::owned;
      ++f->open;
      if (part->vote) ++f->votes_open;
    } else if (f != nullptr) {
      ++f->answered;
    }
    v->place.part_of = nullptr;
    switch (v->place.at) {
      case seat::state::owned: server.release(v->place, std::nullopt, part, now); break;
      case seat::state::asking:
      case seat::state::in_line:
      case seat::state::leaving:
        if (CONCH_MUTANT(unanswered_not_released)) v->place.written = false;
        server.give_up(v->place, part, now);
        break;
      case seat::state::idle: break;
    }
  }
}

void quorum::vote_released(engine::receipt& r, bool was_mine, time_point now) {
  auto& part = static_cast<farewell::part&>(r);
  if (!part.open) return;
  part.open = false;
  farewell& f = *part.of;
  --f.open;
  ++f.answered;
  if (part.vote) --f.votes_open;
  if (part.vote && was_mine) ++f.votes_mine;
  tell_released(f, now);
}

/// Whether a release ended a lock that was still held is certain once a quorum of the votes in hand has said so, or cannot any
/// more. If a quorum has answered, stragglers are waited for as long as for any attempt, and then believed to have held it.
void quorum::tell_released(farewell& f, time_point now) {
  if (!f.begun) return;
  bool const certain = f.votes_mine >= needed() || f.votes_mine + f.votes_open < needed() || f.late;
  if (f.whom != nullptr && certain && (f.answered >= needed() || f.open == 0)) {
    engine::receipt& whom = *f.whom;
    forget(whom);
    seat& front = *std::exchange(f.front, nullptr);
    std::size_t const enough = CONCH_MUTANT(released_by_one) ? 1 : CONCH_MUTANT(released_by_all) ? members_.size() : needed();
    up_.released(whom, f.votes_mine + f.votes_open >= enough, {}, now);
    drop(front);
  }
  if (f.open == 0) {
    seat* const front = std::exchange(f.front, nullptr);
    if (f.whom != nullptr) forget(*f.whom);
    farewells_.erase(f.place);
    if (front != nullptr) drop(*front);
  }
}

void quorum::forget(engine::receipt& r) noexcept {
  if (r.waited_by != nullptr) static_cast<farewell*>(r.waited_by)->whom = nullptr;
  r.waited_by = nullptr;
}

/// Of those servers whose answers are missing, as many as are needed may still be at work.
time_point quorum::late_after(engine::receipt const& r) const {
  if (r.waited_by == nullptr) return time_point::min();
  auto const& f = *static_cast<farewell const*>(r.waited_by);
  std::array<time_point, most_servers> late{};
  std::size_t missing = 0;
  for (std::size_t i = 0; i < f.parts.size(); ++i) {
    if (f.parts[i].open) late[missing++] = members_[i]->protocol->late_after(f.parts[i]);
  }
  std::size_t const wanted = needed() - std::min(needed(), f.answered);
  return wanted == 0 ? time_point::min() : kth_greatest({late.data(), missing}, wanted);
}

}  // namespace conch::quorum
