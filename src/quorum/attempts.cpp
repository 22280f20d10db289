// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/attempts.hpp"

#include "base/failure.hpp"
#include "base/turns.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace conch::quorum {

using protocol::place;

void attempts::start_next(time_point now) {
  std::size_t left = engine::in_one_turn;
  for (; left != 0 && room_.has_waiting() && (room_.has_room() || !servers_.connected()); --left) {
    quorum_lock& b = room_.next();
    keeping const keep{b};
    b.began = now;
    start(b, now);
  }
  if (left == 0) room_.go_on_soon(now);
}

void attempts::start(quorum_lock& b, time_point now) {
  BOOST_ASSERT_MSG(b.front != nullptr && b.at == quorum_lock::phase::starting, "an attempt starts twice");
  std::optional<std::int64_t> const ticket = servers_.new_ticket(now);
  if (!ticket) {
    for (auto const& m : servers_.all()) m->out.want_connection();
    plan(b, now);
    return;
  }
  b.ticket = *ticket;
  b.since = now;
  room_.asked(b, now);
  b.floor = on_.settings.quorum.strict_fence ? std::max(b.floor, servers_.fence_ahead(now)) : 0;
  b.front->written = true;
  for (auto const& v : b.votes) {
    v->refused = false;
    v->trouble = {};
    v->not_before = v->gone_at = time_point::min();
    v->yielded_to.clear();
    v->rests = 0;
  }
  std::uint64_t const round = b.round;
  requests_.ask_votes(b, now);
  if (b.round != round) return;
  b.at = quorum_lock::phase::collecting;
  decide(b, now);
}

/// Has this server had its time to answer? A waiter never asks this, because a push may come at any time.
bool attempts::is_silent(quorum_lock const& b, vote const& v, time_point now) const {
  if (b.wait && b.at == quorum_lock::phase::collecting) return false;
  member const& m = v.from;
  if (!m.has_vote()) return b.at == quorum_lock::phase::leaving || servers_.voters_there(b, now) >= servers_.needed();
  return now >= b.since + servers_.patience_with(m);
}

election attempts::count(quorum_lock const& b, time_point now) const {
  election e{{b.votes.size(), servers_.needed(), on_.settings.quorum.min_validity}};
  // The votes that are no yes come first: a verdict, once given, stays.
  for (auto const& v : b.votes) {
    if (!servers_.counts(*v)) continue;
    // A vote of a try that is almost over is about to be given back and asked for again.
    bool const asked_again = b.tries() && v->place.deadline - now < on_.settings.quorum.min_validity;
    if (!asked_again) e.yes(v->from.number, v->place.deadline, v->place.fence, now);
  }
  // A slow server is passed over if the others can decide without it and without those that have no vote. If more servers are slow, the
  // reason is the network or this process: those servers are not away. To give up would then call a free lock busy, or servers that are
  // there unreachable.
  auto const missing = static_cast<std::size_t>(std::count_if(b.votes.begin(), b.votes.end(), [&](auto const& v) {
    place::state const at = v->place.at;
    if (at == place::state::owned) return false;
    bool const has_none = v->trouble || v->from.same_as || (at == place::state::idle && !v->refused);
    if (has_none) return true;
    return at != place::state::idle && is_silent(b, *v, now);
  }));
  bool const over = b.tries() && now >= b.began + on_.settings.offline_timeout;
  bool const few = missing + servers_.needed() <= b.votes.size() || !b.tries();
  for (auto const& v : b.votes) {
    bool const waits = b.wait && b.at == quorum_lock::phase::collecting;
    if (servers_.counts(*v)) continue;
    if (v->trouble || v->from.same_as || v->place.at == place::state::owned) {
      e.failed(v->from.number, now);  // also while the server is asked again, and where its vote is that of another name
    } else if (v->place.at != place::state::idle) {
      bool const passed_over = is_silent(b, *v, now) && (few || !v->from.has_vote());
      if (passed_over || over) e.silent(v->from.number, now);
    } else if (v->refused) {
      e.no(v->from.number, now);
    } else if (!waits) {
      e.failed(v->from.number, now);
    }
  }
  return e;
}

void attempts::decide(quorum_lock& b, time_point now) {
  if (!b.asks()) return;
  auto const asks = [](auto const& v) { return v->place.at == place::state::asking; };
  if (b.together != 0 && static_cast<std::size_t>(std::count_if(b.votes.begin(), b.votes.end(), asks)) + servers_.needed() <= b.votes.size()) {
    room_.answered(b, now);
  }
  election const e = count(b, now);
  std::size_t const failed = e.count(response::failed);
  std::size_t const spare = b.votes.size() - servers_.needed();
  if (e.result() == verdict::won) {
    bool const strict = on_.settings.quorum.strict_fence;
    std::int64_t const fence = strict ? agreed_fence(b, e, now) : e.fence();
    if (fence != 0) {
      win(b, e.deadline(), fence, now);
      return;
    }
  } else if (b.at == quorum_lock::phase::leaving) {
    if (e.result() == verdict::out_of_reach) {
      end(b, outcome::left, {}, now);
      return;
    }
  } else if (!b.wait) {
    if (e.result() == verdict::out_of_reach) {
      // Busy, unless too few servers are there to win even a free lock. Servers that may still connect are waited for: they tell which.
      std::size_t const absent = failed + e.count(response::silent);
      auto const connecting = static_cast<std::size_t>(
          std::count_if(b.votes.begin(), b.votes.end(), [&](auto const& v) { return e.of(v->from.number) == response::pending && !v->from.up(); }));
      bool const busy = absent + connecting <= spare && e.count(response::no) != 0;
      bool const may_be = absent <= spare && connecting != 0 && b.tries();
      if (busy || !may_be) {
        end(b, busy ? outcome::busy : outcome::attempt_failed, worst_trouble(b, now), now);
        return;
      }
    }
  } else if (failed > spare) {
    end(b, outcome::failed, worst_trouble(b, now), now);
    return;
  } else {
    minority_.decide(b, now);
  }
  plan(b, now);
}

void attempts::win(quorum_lock& b, time_point deadline, std::int64_t fence, time_point now) {
  BOOST_ASSERT_MSG(b.front != nullptr && b.asks(), "a lock is won that nobody asks for");
  cohort_place& front = *b.front;
  std::size_t confirmed = 0;
  b.at = quorum_lock::phase::held;
  b.floor = fence;
  b.agreeing_on = 0;
  ++b.round;
  b.timer.cancel();
  for (auto const& v : b.votes) {
    protocol::votes::hold(v->place, {b.ticket, fence, 0, &front}, b.lease);
    // Only waiters rest votes; a hold is mended with its first renewal.
    if (v->rests != 0) v->not_before = now;
    if (servers_.counts(*v) && v->place.confirmed) ++confirmed;
  }
  enter(front, place::state::owned);
  front.fence = fence;
  front.deadline = deadline;
  front.confirmed = confirmed >= servers_.needed();
  // The validity of this grant begins now. If it were counted from the votes, which may be almost over, the loss could be reported at once,
  // before the hold can be confirmed.
  b.won_at = front.valid_from = now;
  front.renewable = true;
  ++front.references;
  on_.up.granted(front, b.pushed, now);
  releases_.drop(front);
}

void attempts::end(quorum_lock& b, outcome how, error_code why, time_point now) {
  cohort_place& front = *b.front;
  releases_.back_out(b, nullptr, 0, now);
  // The reference that ask() took is dropped when the cohort has heard.
  switch (how) {
    case outcome::busy: on_.up.busy(front, now); break;
    case outcome::left: on_.up.left(front, now); break;
    case outcome::attempt_failed: on_.up.attempt_failed(front, why, now); break;
    case outcome::failed: on_.up.failed(front, why, now); break;
  }
  releases_.drop(front);
}

error_code attempts::worst_trouble(quorum_lock const& b, time_point now) const {
  error_code worst;
  std::string by;
  for (auto const& v : b.votes) {
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
  for (auto const& v : b.votes) {
    member const& m = v->from;
    std::string const words = m.fresh_until > now ? "has just started, and has no vote yet" : m.server->as_votes().trouble_of(v->place);
    if (!words.empty()) why += "; " + m.shown + ": " + words;
  }
  return make_error_code(errc::unreachable, why);
}

/// The fence of a grant that every later quorum is certain to exceed. 0: not yet, the servers are being asked. Any two quorums share a
/// server, and a server that has given or accepted this fence gives only greater ones.
std::int64_t attempts::agreed_fence(quorum_lock& b, election const& e, time_point now) {
  std::int64_t const greatest = e.fence();
  if (b.agreeing_on == 0) {
    if (servers_with(b, now, [&](vote const& v) { return v.place.fence == greatest; }) >= servers_.needed()) return greatest;
    ++on_.stats.fence_rounds;
    b.agreeing_on = greatest;
    b.since = now;
  }
  std::int64_t above = b.agreeing_on;
  for (auto const& v : b.votes) {
    if (v->place.at != place::state::owned) continue;
    above = std::max(above, v->place.fence);
    if (v->place.vote.accepted != 0 && v->place.vote.refused_by != 0) above = std::max(above, v->place.vote.refused_by + 1);
  }
  b.agreeing_on = above;
  if (servers_with(b, now, [&](vote const& v) { return accepts(v, above); }) >= servers_.needed()) return above;
  ask_to_accept(b, above, now);
  return 0;
}

/// How many servers have a vote for which `holds` is true and that is valid for long enough.
template <class Holds>
std::size_t attempts::servers_with(quorum_lock const& b, time_point now, Holds holds) const {
  return static_cast<std::size_t>(std::count_if(b.votes.begin(), b.votes.end(), [&](auto const& v) {
    bool const good = servers_.counts(*v) && v->place.deadline - now >= on_.settings.quorum.min_validity;
    return good && holds(*v);
  }));
}

bool attempts::accepts(vote const& v, std::int64_t fence) { return v.place.vote.accepted == fence && v.place.vote.refused_by == 0; }

void attempts::ask_to_accept(quorum_lock& b, std::int64_t fence, time_point now) {
  for (auto const& v : b.votes) {
    place& s = v->place;
    if (s.at != place::state::owned || accepts(*v, fence)) continue;
    protocol::votes::hold(s, {b.ticket, fence, 0, nullptr}, b.lease);
    s.renewable = true;
    place* const one = &s;
    v->from.server->as_votes().renew({&one, 1}, now);
  }
}

/// Sets when to look at this lock again.
void attempts::plan(quorum_lock& b, time_point now) {
  time_point at = engine::timer_queue::never;
  auto const by = [&](time_point t) { at = std::min(at, t); };
  if ((b.at == quorum_lock::phase::starting && !room_.waits(b)) || (b.tries() && b.agreeing_on == 0)) by(b.began + on_.settings.offline_timeout);
  if (b.asks()) {
    bool const waits = b.wait && b.at == quorum_lock::phase::collecting;
    if (waits) by(b.ask_others_at);
    if (b.agreeing_on != 0) by(b.since + on_.settings.quorum.vote_claim);
    for (auto const& v : b.votes) {
      place const& s = v->place;
      if (s.at == place::state::owned && b.agreeing_on == 0) {
        time_point const over = s.deadline - on_.settings.quorum.min_validity;
        if (b.at == quorum_lock::phase::collecting || over > now) by(over);
      }
      if (s.at == place::state::idle && (waits || (b.tries() && !v->refused))) by(v->not_before);
      if (s.at != place::state::idle && s.at != place::state::owned && !waits && v->from.up()) {
        time_point const patience = b.since + servers_.patience_with(v->from);
        if (patience > now) by(patience);  // else the server is silent already
      }
    }
  }
  constexpr duration soon = std::chrono::microseconds{200};
  if (at == engine::timer_queue::never) {
    b.timer.cancel();
  } else {
    on_.timers.arm(b.timer, std::max(at, now + soon));
  }
}

void attempts::due(quorum_lock& b, time_point now) {
  keeping const keep{b};
  if (b.at == quorum_lock::phase::starting) {
    if (room_.waits(b)) return;
    if (now >= b.began + on_.settings.offline_timeout) {
      std::string const why = servers_.why_no_connection();
      end(b, outcome::failed, make_error_code(errc::unreachable, why.empty() ? "too few servers can be reached" : why), now);
    } else {
      plan(b, now);
    }
    return;
  }
  if (b.at == quorum_lock::phase::held) {
    requests_.confirm_late_votes(b, now);
    return;
  }
  if (!b.asks()) return;
  std::uint64_t const round = b.round;
  bool const waits = b.wait && b.at == quorum_lock::phase::collecting;
  bool const stuck = b.agreeing_on != 0 && now >= b.since + on_.settings.quorum.vote_claim;
  bool const over = now >= b.began + on_.settings.offline_timeout;
  if (stuck && !waits && (over || b.at == quorum_lock::phase::leaving)) {
    end(b, b.at == quorum_lock::phase::leaving ? outcome::left : outcome::attempt_failed, worst_trouble(b, now), now);
    return;
  }
  if (b.at == quorum_lock::phase::collecting) {
    bool told = false;
    for (auto const& v : b.votes) {
      place const& s = v->place;
      bool const ends = s.at == place::state::owned && now >= s.deadline - on_.settings.quorum.min_validity;
      // A vote that is about to end is passed on to the next in line. A try has such votes when too few servers are there.
      if (stuck ? s.at == place::state::owned : ends) {
        if (!std::exchange(told, true)) on_.up.asked_again(*b.front, retry_reason::votes_given_back, now);
        minority_.yield(b, *v, false, now);
      }
      if (b.round != round) return;
    }
    if (stuck) {
      b.agreeing_on = 0;
      b.since = now;
    }
    requests_.ask_votes(b, now);
    if (b.round != round) return;
  }
  decide(b, now);
}

}  // namespace conch::quorum
