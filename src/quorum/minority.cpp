// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/quorum_lock.hpp"

#include <utility>

// Some votes in hand, but not enough. To keep them may keep all clients from the lock; to give them back may lose it.
namespace conch::quorum {

using protocol::place;

/// How many servers have given a vote, or are asked for one.
std::size_t quorum::asked(quorum_lock const& b) {
  return static_cast<std::size_t>(std::count_if(b.votes.begin(), b.votes.end(), [](auto const& v) { return v->place.at != place::state::idle; }));
}

/// The rules for a minority of votes. The word of another server counts only if it was asked after the votes were given.
void quorum::minority(quorum_lock& b, time_point now) {
  time_point first = time_point::max();
  bool stands_in_line = false;  // at another server; usually the other servers just have not answered yet
  for (auto const& v : b.votes) {
    if (v->place.at == place::state::owned) first = std::min(first, v->since);
    stands_in_line = stands_in_line || v->place.at == place::state::in_line;
  }
  // If so many servers are left alone that there is no majority, one of those must be asked for this to go on.
  bool const too_few = asked(b) < needed();
  if (first == time_point::max() || !(stands_in_line || too_few) || b.agreeing_on != 0) {
    b.ask_others_at = engine::timer_queue::never;
    b.pause = {};
  } else if (auto const before_us = rival_before(b, first)) {
    yield_all(b, *before_us, now);
  } else {
    ask_others(b, first, too_few, now);
  }
}

/// The client that has, or will have, the lock; else a client whose turn comes before ours. Empty: no such client is known.
std::optional<protocol::rival> quorum::rival_before(quorum_lock const& b, time_point first) const {
  protocol::rival const* winner = nullptr;
  protocol::rival const* earlier = nullptr;
  for (auto const& v : b.votes) {
    protocol::rival const& r = v->place.seen;
    if (v->place.at != place::state::in_line || r.asked < first || r.client == me_) continue;
    auto const same = [&](auto const& other) {
      protocol::rival const& o = other->place.seen;
      return other->place.at == place::state::in_line && o.asked >= first && o.client == r.client && o.ticket == r.ticket;
    };
    auto const votes = static_cast<std::size_t>(std::count_if(b.votes.begin(), b.votes.end(), same));
    bool const wins = r.confirmed || r.client == 0 || votes >= needed();
    if (wins) winner = &r;
    bool const is_earlier = !wins && std::pair{r.ticket, r.client} < std::pair{b.ticket, me_};
    if (is_earlier) earlier = &r;
  }
  protocol::rival const* const before_us = winner != nullptr ? winner : earlier;
  return before_us == nullptr ? std::nullopt : std::optional{*before_us};
}

void quorum::yield_all(quorum_lock& b, protocol::rival const& to, time_point now) {
  std::uint64_t const round = b.round;
  up_.asked_again(*b.front, retry_reason::votes_given_back, now);
  for (auto const& v : b.votes) {
    if (v->place.at != place::state::owned) continue;
    // The vote came back to us although it was given back for the same rival: that rival does not stand in line there. All such rivals are
    // remembered: if two are seen by turns, each would else look like a new one.
    std::pair const rival{to.client, to.ticket};
    bool const known = std::find(v->yielded_to.begin(), v->yielded_to.end(), rival) != v->yielded_to.end();
    if (!known) v->yielded_to.push_back(rival);
    yield(b, *v, known, now);
    if (b.round != round) return;
  }
  b.ask_others_at = engine::timer_queue::never;
  b.pause = {};
}

/// Asks again, now and then, the servers where we stand in line; and if too few are asked, those that were left alone.
void quorum::ask_others(quorum_lock& b, time_point first, bool too_few, time_point now) {
  if (b.ask_others_at == engine::timer_queue::never) {
    b.ask_others_at = std::max(first, b.since) + 2 * round_trip();
    b.pause = jitter(8 * round_trip(), 24 * round_trip());
  }
  if (now < b.ask_others_at) return;
  b.ask_others_at = now + b.pause;
  b.pause = std::min<duration>(2 * b.pause, settings_.quorum.vote_claim);
  for (auto const& v : b.votes) {
    if (v->place.at == place::state::in_line) v->from.server->as_votes().ask_again(v->place, now);
    if (too_few && v->rests != 0) v->not_before = now;
  }
  if (too_few) ask_votes(b, now);
}

/// Passes the vote on to the next in line at that server. It is asked for again at once, at our old place, which is now behind that client.
/// With `rest` it is asked for only when the lock has moved or some time has passed.
void quorum::yield(quorum_lock& b, vote& v, bool rest, time_point now) {
  ++stats_.votes_given_back;
  give_back(v, nullptr, 0, now);
  if (rest) {
    // If enough servers are asked, a client with a majority is waited for in line at one of its servers. If too few are asked, no server
    // may be left to tell that the lock is free.
    bool const too_few = asked(b) < needed();
    duration const pause = settings_.quorum.vote_claim * (too_few ? 1u : 1u << std::min(v.rests, 6u));
    ++v.rests;
    v.not_before = now + jitter(pause, 2 * pause);
    // Two votes that no client can use, and two clients that stand in line for each, would wake each other for ever. So from the third rest
    // in a row a rest has a least length, four times that of the one before.
    constexpr unsigned free = 2;
    bool const lasts = v.rests > free;
    duration const least = lasts ? round_trip() * (std::int64_t{1} << 2 * std::min(v.rests - free, 10u)) : duration::zero();
    v.rests_until = now + std::min<duration>(least, settings_.quorum.vote_claim);
  } else {
    v.rests = 0;
    ask_vote(b, v, b.wait, now);
  }
}

/// Sets when to look at this lock again.
void quorum::plan(quorum_lock& b, time_point now) {
  time_point at = engine::timer_queue::never;
  auto const by = [&](time_point t) { at = std::min(at, t); };
  if ((b.at == quorum_lock::phase::starting && !waits_for_room(b)) || (b.tries() && b.agreeing_on == 0)) by(b.began + settings_.offline_timeout);
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
      if (s.at != place::state::idle && s.at != place::state::owned && !waits && v->from.up()) {
        time_point const patience = b.since + patience_with(v->from);
        if (patience > now) by(patience);  // else the server is silent already
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
    if (waits_for_room(b)) return;
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
    bool told = false;
    for (auto const& v : b.votes) {
      place const& s = v->place;
      bool const ends = s.at == place::state::owned && now >= s.deadline - settings_.quorum.min_validity;
      // A vote that is about to end is passed on to the next in line. A try has such votes when too few servers are there.
      if (stuck ? s.at == place::state::owned : ends) {
        if (!std::exchange(told, true)) up_.asked_again(*b.front, retry_reason::votes_given_back, now);
        yield(b, *v, false, now);
      }
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
