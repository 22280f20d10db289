// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/minority.hpp"

#include <algorithm>
#include <utility>

namespace conch::quorum {

using protocol::server_place;

/// How many servers have given a vote, or are asked for one.
std::size_t minority::asked(quorum_lock const& q) {
  return static_cast<std::size_t>(std::count_if(
      q.votes.begin(), q.votes.end(), [](auto const& v) { return v->place.state != engine::place_state::idle; }));
}

/// The rules for a minority of votes. The word of another server counts only if it was asked after the votes were
/// given.
void minority::decide(quorum_lock& q, time_point now) {
  time_point first = time_point::max();
  bool stands_in_line = false;  // at another server; usually the other servers just have not answered yet
  for (auto const& v : q.votes) {
    if (v->place.state == engine::place_state::owned) first = std::min(first, v->since);
    stands_in_line = stands_in_line || v->place.state == engine::place_state::in_line;
  }
  // If the servers that are not left alone are not a majority, one of the others must be asked before this can
  // continue.
  bool const too_few = asked(q) < servers_.needed();
  if (first == time_point::max() || !(stands_in_line || too_few) || q.agreeing_on != 0) {
    q.ask_others_at = timer_queue::never;
    q.pause = {};
  } else if (auto const before_us = rival_before(q, first)) {
    yield_all(q, *before_us, now);
  } else {
    ask_others(q, first, too_few, now);
  }
}

/// The client that has, or will have, the lock; otherwise a client whose turn comes before ours. Empty: no such client
/// is known.
std::optional<protocol::rival> minority::rival_before(quorum_lock const& q, time_point first) const {
  protocol::rival const* winner = nullptr;
  protocol::rival const* earlier = nullptr;
  for (auto const& v : q.votes) {
    protocol::rival const& r = v->place.vote.seen;
    if (v->place.state != engine::place_state::in_line || r.asked < first || r.client == on_.me) continue;
    auto const same = [&](auto const& other) {
      protocol::rival const& o = other->place.vote.seen;
      return other->place.state == engine::place_state::in_line && o.asked >= first && o.client == r.client &&
             o.ticket == r.ticket;
    };
    auto const votes = static_cast<std::size_t>(std::count_if(q.votes.begin(), q.votes.end(), same));
    bool const wins = r.confirmed || r.client == 0 || votes >= servers_.needed();
    if (wins) winner = &r;
    bool const is_earlier = !wins && std::pair{r.ticket, r.client} < std::pair{q.ticket, on_.me};
    if (is_earlier) earlier = &r;
  }
  protocol::rival const* const before_us = winner != nullptr ? winner : earlier;
  return before_us == nullptr ? std::nullopt : std::optional{*before_us};
}

void minority::yield_all(quorum_lock& q, protocol::rival const& to, time_point now) {
  std::uint64_t const round = q.round;
  on_.up.asked_again(*q.front, retry_reason::votes_given_back, now);
  for (auto const& v : q.votes) {
    if (v->place.state != engine::place_state::owned) continue;
    // The vote came back to us although it was given back for the same rival: that rival is not queued there. All such
    // rivals are remembered: if two are seen by turns, each would otherwise look like a new one.
    std::pair const rival{to.client, to.ticket};
    bool const known = std::find(v->yielded_to.begin(), v->yielded_to.end(), rival) != v->yielded_to.end();
    if (!known) v->yielded_to.push_back(rival);
    yield(q, *v, known, now);
    if (q.round != round) return;
  }
  q.ask_others_at = timer_queue::never;
  q.pause = {};
}

/// Asks again, now and then, the servers where we are queued; and if too few are asked, those that were left alone.
void minority::ask_others(quorum_lock& q, time_point first, bool too_few, time_point now) {
  if (q.ask_others_at == timer_queue::never) {
    q.ask_others_at = std::max(first, q.since) + 2 * servers_.round_trip();
    q.pause = on_.jitter(8 * servers_.round_trip(), 24 * servers_.round_trip());
  }
  if (now < q.ask_others_at) return;
  q.ask_others_at = now + q.pause;
  q.pause = std::min<duration>(2 * q.pause, on_.settings.quorum.vote_claim);
  for (auto const& v : q.votes) {
    if (v->place.state == engine::place_state::in_line) v->from.server->as_votes().ask_again(v->place, now);
    if (too_few && v->rests != 0) v->not_before = now;
  }
  if (too_few) requests_.ask_votes(q, now);
}

/// Passes the vote on to the next in line at that server. It is asked for again at once, at our old place, which is now
/// behind that client. With `rest` it is asked for only when the lock has moved or some time has passed.
void minority::yield(quorum_lock& q, vote& v, bool rest, time_point now) {
  ++on_.stats.votes_given_back;
  vote_requests::give_back(v, nullptr, 0, now);
  if (rest) {
    // If enough servers are asked, a client with a majority is waited for in line at one of its servers. If too few are
    // asked, no server may be left to notify that the lock is free.
    bool const too_few = asked(q) < servers_.needed();
    duration const pause = on_.settings.quorum.vote_claim * (too_few ? 1u : 1u << std::min(v.rests, 6u));
    ++v.rests;
    v.not_before = now + on_.jitter(pause, 2 * pause);
    // Two votes that no client can use, and two clients queued for each, would wake each other forever. So from the
    // third rest in a row a rest has a least length, four times that of the previous one.
    constexpr unsigned free = 2;
    bool const lasts = v.rests > free;
    duration const least =
        lasts ? servers_.round_trip() * (std::int64_t{1} << 2 * std::min(v.rests - free, 10u)) : duration::zero();
    v.rests_until = now + std::min<duration>(least, on_.settings.quorum.vote_claim);
  } else {
    v.rests = 0;
    requests_.ask_vote(q, v, q.wait, now);
  }
}

}  // namespace conch::quorum
