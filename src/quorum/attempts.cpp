// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/attempts.hpp"

#include "base/failure.hpp"
#include "base/turns.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace conch::quorum {

using protocol::server_place;

void attempts::start_next(time_point now) {
  std::size_t left = in_one_turn;
  for (; left != 0 && room_.has_waiting() && (room_.has_room() || !servers_.connected()); --left) {
    quorum_lock& q = room_.next();
    keeping const keep{q};
    q.began = now;
    start(q, now);
  }
  if (left == 0) room_.resume_soon(now);
}

void attempts::start(quorum_lock& q, time_point now) {
  BOOST_ASSERT_MSG(q.front != nullptr && q.phase == lock_phase::starting, "an attempt starts twice");
  std::optional<std::int64_t> const ticket = servers_.new_ticket(now);
  if (!ticket) {
    for (auto const& m : servers_.all()) m->out.want_connection();
    plan(q, now);
    return;
  }
  q.ticket = *ticket;
  q.since = now;
  room_.asked(q, now);
  q.floor = on_.settings.quorum.strict_fence ? std::max(q.floor, servers_.fence_ahead(now)) : 0;
  q.front->written = true;
  for (auto const& v : q.votes) {
    v->refused = false;
    v->trouble = {};
    v->not_before = v->gone_at = time_point::min();
    v->yielded_to.clear();
    v->rests = 0;
  }
  std::uint64_t const round = q.round;
  requests_.ask_votes(q, now);
  if (q.round != round) return;
  q.phase = lock_phase::collecting;
  decide(q, now);
}

/// Has this server had its time to answer? A waiter never asks this, because a push may come at any time.
bool attempts::is_silent(quorum_lock const& q, vote const& v, time_point now) const {
  if (q.wait && q.phase == lock_phase::collecting) return false;
  member const& m = v.from;
  if (!m.has_vote()) return q.phase == lock_phase::leaving || servers_.voters_there(q, now) >= servers_.needed();
  return now >= q.since + servers_.patience_with(m);
}

election attempts::count(quorum_lock const& q, time_point now) const {
  election e{{q.votes.size(), servers_.needed(), on_.settings.quorum.min_validity}};
  // The votes that are not a yes come first: a verdict, once given, stays.
  for (auto const& v : q.votes) {
    if (!servers_.counts(*v)) continue;
    // A vote of a try that is almost over is about to be given back and asked for again.
    bool const asked_again = q.tries() && v->place.deadline - now < on_.settings.quorum.min_validity;
    if (!asked_again) e.yes(v->from.number, v->place.deadline, v->place.fence, now);
  }
  // A slow server is passed over if the others can decide without it and without those that have no vote. If more
  // servers are slow, the reason is the network or this process: those servers are not away. To give up would then call
  // a free lock busy, or servers that are there unreachable.
  auto const missing = static_cast<std::size_t>(std::count_if(q.votes.begin(), q.votes.end(), [&](auto const& v) {
    engine::place_state const state = v->place.state;
    if (state == engine::place_state::owned) return false;
    bool const has_none = v->trouble || v->from.same_as || (state == engine::place_state::idle && !v->refused);
    if (has_none) return true;
    return state != engine::place_state::idle && is_silent(q, *v, now);
  }));
  bool const over = q.tries() && now >= q.began + on_.settings.offline_timeout;
  bool const few = missing + servers_.needed() <= q.votes.size() || !q.tries();
  for (auto const& v : q.votes) {
    bool const waits = q.wait && q.phase == lock_phase::collecting;
    if (servers_.counts(*v)) continue;
    if (v->trouble || v->from.same_as || v->place.state == engine::place_state::owned) {
      // also while the server is asked again, and where its vote is that of another name
      e.failed(v->from.number, now);
    } else if (v->place.state != engine::place_state::idle) {
      bool const passed_over = is_silent(q, *v, now) && (few || !v->from.has_vote());
      if (passed_over || over) e.silent(v->from.number, now);
    } else if (v->refused) {
      e.no(v->from.number, now);
    } else if (!waits) {
      e.failed(v->from.number, now);
    }
  }
  return e;
}

void attempts::decide(quorum_lock& q, time_point now) {
  if (!q.asks()) return;
  auto const asks = [](auto const& v) { return v->place.state == engine::place_state::asking; };
  if (q.together != 0 &&
      static_cast<std::size_t>(std::count_if(q.votes.begin(), q.votes.end(), asks)) + servers_.needed() <=
          q.votes.size()) {
    room_.answered(q, now);
  }
  election const e = count(q, now);
  std::size_t const failed = e.count(response::failed);
  std::size_t const spare = q.votes.size() - servers_.needed();
  if (e.result() == verdict::won) {
    bool const strict = on_.settings.quorum.strict_fence;
    std::int64_t const fence = strict ? agreed_fence(q, e, now) : e.fence();
    if (fence != 0) {
      win(q, e.deadline(), fence, now);
      return;
    }
  } else if (q.phase == lock_phase::leaving) {
    if (e.result() == verdict::out_of_reach) {
      end(q, outcome::left, {}, now);
      return;
    }
  } else if (!q.wait) {
    if (e.result() == verdict::out_of_reach) {
      // Busy, unless too few servers are there to win even a free lock. Servers that may still connect are waited for:
      // they show which.
      std::size_t const absent = failed + e.count(response::silent);
      auto const connecting =
          static_cast<std::size_t>(std::count_if(q.votes.begin(), q.votes.end(), [&](auto const& v) {
            return e.of(v->from.number) == response::pending && !v->from.up();
          }));
      bool const busy = absent + connecting <= spare && e.count(response::no) != 0;
      bool const may_be = absent <= spare && connecting != 0 && q.tries();
      if (busy || !may_be) {
        end(q, busy ? outcome::busy : outcome::attempt_failed, worst_trouble(q, now), now);
        return;
      }
    }
  } else if (failed > spare) {
    end(q, outcome::failed, worst_trouble(q, now), now);
    return;
  } else {
    minority_.decide(q, now);
  }
  plan(q, now);
}

void attempts::win(quorum_lock& q, time_point deadline, std::int64_t fence, time_point now) {
  BOOST_ASSERT_MSG(q.front != nullptr && q.asks(), "a lock without a waiter is won");
  cohort_place& front = *q.front;
  std::size_t confirmed = 0;
  q.phase = lock_phase::held;
  q.floor = fence;
  q.agreeing_on = 0;
  ++q.round;
  q.timer.cancel();
  for (auto const& v : q.votes) {
    protocol::votes::hold(v->place, {q.ticket, fence, 0, &front}, q.lease);
    // Only waiters rest votes; a hold is mended with its first renewal.
    if (v->rests != 0) v->not_before = now;
    if (servers_.counts(*v) && v->place.confirmed) ++confirmed;
  }
  enter(front, engine::place_state::owned);
  front.fence = fence;
  front.deadline = deadline;
  front.confirmed = confirmed >= servers_.needed();
  // The validity of this grant begins now. If it were counted from the votes, which may be almost over, the loss could
  // be reported at once, before the hold can be confirmed.
  q.won_at = front.valid_from = now;
  front.renewable = true;
  ++front.references;
  on_.up.granted(front, q.pushed, now);
  releases_.drop(front);
}

void attempts::end(quorum_lock& q, outcome how, error_code why, time_point now) {
  cohort_place& front = *q.front;
  releases_.back_out(q, nullptr, 0, now);
  // The reference that ask() took is dropped when the cohort has been told.
  switch (how) {
    case outcome::busy: on_.up.busy(front, now); break;
    case outcome::left: on_.up.left(front, now); break;
    case outcome::attempt_failed: on_.up.attempt_failed(front, why, now); break;
    case outcome::failed: on_.up.failed(front, why, now); break;
  }
  releases_.drop(front);
}

error_code attempts::worst_trouble(quorum_lock const& q, time_point now) const {
  error_code worst;
  std::string by;
  for (auto const& v : q.votes) {
    if (!v->trouble || (worst && worst != errc::unreachable)) continue;
    worst = v->trouble;
    by = v->from.shown;
  }
  std::string const cause = cause_of(worst);
  std::string const doubles = servers_.all_doubles();
  if (worst && doubles.empty() && cause.find(by) != std::string::npos) return worst;
  std::string const named = cause.empty() ? by : cause.find(by) != std::string::npos ? cause : by + ": " + cause;
  if (worst) return make_error_code(static_cast<errc>(worst.value()), named + (doubles.empty() ? "" : "; " + doubles));
  std::string why = "too few servers answered" + (doubles.empty() ? "" : "; " + doubles);
  for (auto const& v : q.votes) {
    member const& m = v->from;
    std::string const words =
        m.fresh_until > now ? "has just started, and has no vote yet" : m.server->as_votes().trouble_of(v->place);
    if (!words.empty()) why += "; " + m.shown + ": " + words;
  }
  return make_error_code(errc::unreachable, why);
}

/// The fence of a grant that every later quorum is certain to exceed. 0: not yet, the servers are being asked. Any two
/// quorums share a server, and a server that has given or accepted this fence gives only greater ones.
std::int64_t attempts::agreed_fence(quorum_lock& q, election const& e, time_point now) {
  std::int64_t const greatest = e.fence();
  if (q.agreeing_on == 0) {
    if (servers_with(q, now, [&](vote const& v) { return v.place.fence == greatest; }) >= servers_.needed())
      return greatest;
    ++on_.stats.fence_rounds;
    q.agreeing_on = greatest;
    q.since = now;
  }
  std::int64_t above = q.agreeing_on;
  for (auto const& v : q.votes) {
    if (v->place.state != engine::place_state::owned) continue;
    above = std::max(above, v->place.fence);
    if (v->place.vote.accepted != 0 && v->place.vote.refused_by != 0)
      above = std::max(above, v->place.vote.refused_by + 1);
  }
  q.agreeing_on = above;
  if (servers_with(q, now, [&](vote const& v) { return accepts(v, above); }) >= servers_.needed()) return above;
  ask_to_accept(q, above, now);
  return 0;
}

/// How many servers have a vote for which `holds` is true and that is valid for long enough.
template <class Holds>
std::size_t attempts::servers_with(quorum_lock const& q, time_point now, Holds holds) const {
  return static_cast<std::size_t>(std::count_if(q.votes.begin(), q.votes.end(), [&](auto const& v) {
    bool const good = servers_.counts(*v) && v->place.deadline - now >= on_.settings.quorum.min_validity;
    return good && holds(*v);
  }));
}

bool attempts::accepts(vote const& v, std::int64_t fence) {
  return v.place.vote.accepted == fence && v.place.vote.refused_by == 0;
}

void attempts::ask_to_accept(quorum_lock& q, std::int64_t fence, time_point now) {
  for (auto const& v : q.votes) {
    server_place& p = v->place;
    if (p.state != engine::place_state::owned || accepts(*v, fence)) continue;
    protocol::votes::hold(p, {q.ticket, fence, 0, nullptr}, q.lease);
    p.renewable = true;
    server_place* const one = &p;
    v->from.server->as_votes().renew({&one, 1}, now);
  }
}

/// Sets when to look at this lock again.
void attempts::plan(quorum_lock& q, time_point now) {
  time_point when = timer_queue::never;
  auto const by = [&](time_point t) { when = std::min(when, t); };
  if ((q.phase == lock_phase::starting && !room_.waits(q)) || (q.tries() && q.agreeing_on == 0))
    by(q.began + on_.settings.offline_timeout);
  if (q.asks()) {
    bool const waits = q.wait && q.phase == lock_phase::collecting;
    if (waits) by(q.ask_others_at);
    if (q.agreeing_on != 0) by(q.since + on_.settings.quorum.vote_claim);
    for (auto const& v : q.votes) {
      server_place const& p = v->place;
      if (p.state == engine::place_state::owned && q.agreeing_on == 0) {
        time_point const over = p.deadline - on_.settings.quorum.min_validity;
        if (q.phase == lock_phase::collecting || over > now) by(over);
      }
      if (p.state == engine::place_state::idle && (waits || (q.tries() && !v->refused))) by(v->not_before);
      if (p.state != engine::place_state::idle && p.state != engine::place_state::owned && !waits && v->from.up()) {
        time_point const patience = q.since + servers_.patience_with(v->from);
        if (patience > now) by(patience);  // otherwise the server is already silent
      }
    }
  }
  constexpr duration soon = std::chrono::microseconds{200};
  if (when == timer_queue::never) {
    q.timer.cancel();
  } else {
    on_.timers.arm(q.timer, std::max(when, now + soon));
  }
}

void attempts::due(quorum_lock& q, time_point now) {
  keeping const keep{q};
  if (q.phase == lock_phase::starting) {
    if (room_.waits(q)) return;
    if (now >= q.began + on_.settings.offline_timeout) {
      std::string const why = servers_.why_no_connection();
      end(q, outcome::failed, make_error_code(errc::unreachable, why.empty() ? "too few servers can be reached" : why),
          now);
    } else {
      plan(q, now);
    }
    return;
  }
  if (q.phase == lock_phase::held) {
    requests_.confirm_late_votes(q, now);
    return;
  }
  if (!q.asks()) return;
  std::uint64_t const round = q.round;
  bool const waits = q.wait && q.phase == lock_phase::collecting;
  bool const stuck = q.agreeing_on != 0 && now >= q.since + on_.settings.quorum.vote_claim;
  bool const over = now >= q.began + on_.settings.offline_timeout;
  if (stuck && !waits && (over || q.phase == lock_phase::leaving)) {
    end(q, q.phase == lock_phase::leaving ? outcome::left : outcome::attempt_failed, worst_trouble(q, now), now);
    return;
  }
  if (q.phase == lock_phase::collecting) {
    bool reported = false;
    for (auto const& v : q.votes) {
      server_place const& p = v->place;
      bool const ends = p.state == engine::place_state::owned && now >= p.deadline - on_.settings.quorum.min_validity;
      // A vote that is about to end is passed on to the next in line. A try has such votes when too few servers are
      // there.
      if (stuck ? p.state == engine::place_state::owned : ends) {
        if (!std::exchange(reported, true)) on_.up.asked_again(*q.front, retry_reason::votes_given_back, now);
        minority_.yield(q, *v, false, now);
      }
      if (q.round != round) return;
    }
    if (stuck) {
      q.agreeing_on = 0;
      q.since = now;
    }
    requests_.ask_votes(q, now);
    if (q.round != round) return;
  }
  decide(q, now);
}

}  // namespace conch::quorum
