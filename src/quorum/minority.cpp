// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/mutant.hpp"
#include "quorum/quorum_lock.hpp"

// Some votes in hand, but not enough: to keep them may keep everybody from the lock, to give them back may lose it.
namespace conch::quorum {

/// The servers that have given a vote, or are asked for one.
std::size_t quorum::asked(quorum_lock const& b) {
  return static_cast<std::size_t>(std::count_if(b.votes.begin(), b.votes.end(), [](auto const& v) { return v->place.at != place::state::idle; }));
}

/// Rules for a minority of votes. What the other servers said counts only if they were asked after the votes were given.
void quorum::minority(quorum_lock& b, time_point now) {
  time_point first = time_point::max();
  bool stands_in_line = false;  // elsewhere; in the usual case the other servers just have not answered yet
  for (auto const& v : b.votes) {
    if (v->place.at == place::state::owned) first = std::min(first, v->since);
    stands_in_line = stands_in_line || v->place.at == place::state::in_line;
  }
  // Where too many servers are let alone for a majority, one of those has to be asked for this to go on.
  bool const too_few = asked(b) < needed();
  if (first == time_point::max() || !(stands_in_line || too_few) || b.agreeing_on != 0) {
    b.ask_others_at = engine::timer_queue::never;
    b.pause = {};
    return;
  }

  engine::rival const* winner = nullptr;   // who has, or will have, the lock
  engine::rival const* earlier = nullptr;  // whose turn comes before ours
  for (auto const& v : b.votes) {
    engine::rival const& r = v->place.seen;
    if (v->place.at != place::state::in_line || r.asked < first || r.client == me_) continue;
    auto const same = [&](auto const& other) {
      engine::rival const& o = other->place.seen;
      return other->place.at == place::state::in_line && o.asked >= first && o.client == r.client && o.ticket == r.ticket;
    };
    auto const votes = static_cast<std::size_t>(std::count_if(b.votes.begin(), b.votes.end(), same));
    bool const wins = r.confirmed || r.client == 0 || (votes >= needed() && !CONCH_MUTANT(majority_not_seen));
    if (wins && !CONCH_MUTANT(winner_not_seen)) winner = &r;
    bool const is_earlier = !wins && std::pair{r.ticket, r.client} < std::pair{b.ticket, me_};
    if (is_earlier && !CONCH_MUTANT(earlier_not_seen)) earlier = &r;
  }
  if (engine::rival const* const to = winner != nullptr ? winner : earlier) {
    engine::rival const whom = *to;
    std::uint64_t const round = b.round;
    for (auto const& v : b.votes) {
      if (v->place.at != place::state::owned) continue;
      // It came back to us although it was given back for the same rival, who does not stand in line there. All such rivals
      // are remembered: of two that are seen by turns each would seem to be a new one.
      std::pair const rival{whom.client, whom.ticket};
      bool const known = std::find(v->yielded_to.begin(), v->yielded_to.end(), rival) != v->yielded_to.end();
      if (!known) v->yielded_to.push_back(rival);
      give_vote_back(b, *v, known && !CONCH_MUTANT(returned_vote_not_rested), now);
      if (b.round != round) return;
    }
    b.ask_others_at = engine::timer_queue::never;
    b.pause = {};
    return;
  }

  if (b.ask_others_at == engine::timer_queue::never) {
    b.ask_others_at = std::max(first, b.since) + 2 * round_trip();
    b.pause = jitter(8 * round_trip(), 24 * round_trip());
  }
  if (now < b.ask_others_at || CONCH_MUTANT(others_not_asked)) return;
  b.ask_others_at = now + b.pause;
  b.pause = std::min<duration>(2 * b.pause, settings_.quorum.vote_claim);
  for (auto const& v : b.votes) {
    if (v->place.at == place::state::in_line) members_[v->server]->protocol->ask_again(v->place, now);
    if (too_few && v->rests != 0) v->not_before = now;
  }
  if (too_few) ask_votes(b, now);
}

/// Passes it on to the next in line there. Asked for again at once, at our old place, which the next now stands before; or,
/// with `rest`, only when the lock has moved or some time has passed.
void quorum::give_vote_back(quorum_lock& b, voter& v, bool rest, time_point now) {
  ++stats_.votes_given_back;
  v.place.part_of = nullptr;
  members_[v.server]->protocol->release(v.place, std::nullopt, nullptr, now);
  if (rest) {
    // Whoever has a majority is waited for in line there; without one, nobody may be left to tell that the lock is free.
    bool const too_few = asked(b) < needed();
    duration const pause = settings_.quorum.vote_claim * (too_few ? 1u : 1u << std::min(v.rests, 6u));
    ++v.rests;
    v.not_before = now + jitter(pause, 2 * pause);
    // Two votes that nobody has use for, and two clients that stand in line for each, would wake each other for ever: from the third
    // in a row a rest lasts, and four times as long as the one before.
    constexpr unsigned free = 2;
    bool const lasts = v.rests > free;
    duration const least = lasts ? round_trip() * (std::int64_t{1} << 2 * std::min(v.rests - free, 10u)) : duration::zero();
    v.rests_until = now + std::min<duration>(least, settings_.quorum.vote_claim);
  } else {
    v.rests = 0;
    if (CONCH_MUTANT(ticket_of_each_attempt)) b.ticket = new_ticket(now).value_or(b.ticket);
    ask_vote(b, v, b.wait, now);
  }
}

/// When to look again.
void quorum::plan(quorum_lock& b, time_point now) {
  time_point at = engine::timer_queue::never;
  auto const by = [&](time_point t) { at = std::min(at, t); };
  if (b.at == quorum_lock::phase::starting || (b.tries() && b.agreeing_on == 0)) by(b.began + settings_.offline_timeout);
  if (b.asks()) {
    bool const waits = b.wait && b.at == quorum_lock::phase::collecting;
    if (waits) by(b.ask_others_at);
    if (b.agreeing_on != 0) by(b.since + settings_.quorum.vote_claim);
    for (auto const& v : b.votes) {
      place const& s = v->place;
      if (s.at == place::state::owned && b.agreeing_on == 0) {
        time_point const over = s.deadline - settings_.quorum.min_validity;
        if (b.at == quorum_lock::phase::collecting || over > now) by(over);
      }
      if (s.at == place::state::idle && (waits || (b.tries() && !v->refused))) by(v->not_before);
      if (s.at != place::state::idle && s.at != place::state::owned && !waits && members_[v->server]->up()) {
        time_point const patience = b.since + patience_with(*members_[v->server]);
        if (patience > now) by(patience);  // else it is silent already
      }
    }
  }
  constexpr duration soon = std::chrono::microseconds{200};
  if (at == engine::timer_queue::never) {
    b.timer.cancel();
  } else {
    timers_.arm(b.timer, std::max(at, now + soon));
  }
}

void quorum::due(quorum_lock& b, time_point now) {
  keeping const keep{b};
  if (b.at == quorum_lock::phase::starting) {
    if (now >= b.began + settings_.offline_timeout) {
      std::string const why = why_no_connection();
      end(b, outcome::failed, make_error_code(errc::unreachable, why.empty() ? "too few servers can be reached" : why), now);
    } else {
      plan(b, now);
    }
    return;
  }
  if (b.at == quorum_lock::phase::held) {
    confirm_late_votes(b, now);
    return;
  }
  if (!b.asks()) return;
  std::uint64_t const round = b.round;
  bool const waits = b.wait && b.at == quorum_lock::phase::collecting;
  bool const stuck = b.agreeing_on != 0 && now >= b.since + settings_.quorum.vote_claim;
  bool const over = now >= b.began + settings_.offline_timeout;
  if (stuck && !waits && (over || b.at == quorum_lock::phase::leaving)) {
    end(b, b.at == quorum_lock::phase::leaving ? outcome::left : outcome::failed, worst_trouble(b, now), now);
    return;
  }
  if (b.at == quorum_lock::phase::collecting) {
    for (auto const& v : b.votes) {
      place const& s = v->place;
      bool const ends = s.at == place::state::owned && now >= s.deadline - settings_.quorum.min_validity && !CONCH_MUTANT(expired_votes_kept);
      // What is about to end is passed on to whoever stands in line. A try has such votes when too few servers are there.
      if (stuck ? s.at == place::state::owned : ends) give_vote_back(b, *v, false, now);
      if (b.round != round) return;
    }
    if (stuck) {
      b.agreeing_on = 0;
      b.since = now;
    }
    ask_votes(b, now);
    if (b.round != round) return;
  }
  decide(b, now);
}

}  // namespace conch::quorum
