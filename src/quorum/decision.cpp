// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/failure.hpp"
#include "quorum/quorum_lock.hpp"

// Is the lock ours? How long the votes are valid, and which fence they give.
namespace conch::quorum {

using protocol::place;

namespace {

/// How far a proposed fence lies ahead of the servers' clocks. This is more than what they differ by on a good day, so all servers grant
/// the same fence and no second round is needed.
constexpr std::int64_t fence_slack_us = 20'000;

}  // namespace

/// Has this server had its time to answer? A waiter never asks this, because a push may come at any time.
bool quorum::is_silent(quorum_lock const& b, vote const& v, time_point now) const {
  if (b.wait && b.at == quorum_lock::phase::collecting) return false;
  member const& m = v.from;
  if (!m.has_vote()) return b.at == quorum_lock::phase::leaving || voters_there(b, now) >= needed();
  return now >= b.since + patience_with(m);
}

election quorum::count(quorum_lock const& b, time_point now) const {
  election e{{b.votes.size(), needed(), settings_.quorum.min_validity}};
  // The votes that are no yes come first: a verdict, once given, stays.
  for (auto const& v : b.votes) {
    if (!counts(*v)) continue;
    // A vote of a try that is almost over is about to be given back and asked for again.
    bool const asked_again = b.tries() && v->place.deadline - now < settings_.quorum.min_validity;
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
  bool const over = b.tries() && now >= b.began + settings_.offline_timeout;
  bool const few = missing + needed() <= b.votes.size() || !b.tries();
  for (auto const& v : b.votes) {
    bool const waits = b.wait && b.at == quorum_lock::phase::collecting;
    if (counts(*v)) continue;
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

void quorum::decide(quorum_lock& b, time_point now) {
  if (!b.asks()) return;
  auto const asks = [](auto const& v) { return v->place.at == place::state::asking; };
  if (b.together != 0 && static_cast<std::size_t>(std::count_if(b.votes.begin(), b.votes.end(), asks)) + needed() <= b.votes.size()) {
    count_as_answered(b, now);
  }
  election const e = count(b, now);
  std::size_t const failed = e.count(response::failed);
  std::size_t const spare = b.votes.size() - needed();
  if (e.result() == verdict::won) {
    bool const strict = settings_.quorum.strict_fence;
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
        end(b, busy ? outcome::busy : outcome::failed, worst_trouble(b, now), now);
        return;
      }
    }
  } else if (failed > spare) {
    end(b, outcome::failed, worst_trouble(b, now), now);
    return;
  } else {
    minority(b, now);
  }
  plan(b, now);
}

void quorum::win(quorum_lock& b, time_point deadline, std::int64_t fence, time_point now) {
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
    if (counts(*v) && v->place.confirmed) ++confirmed;
  }
  enter(front, place::state::owned);
  front.fence = fence;
  front.deadline = deadline;
  front.confirmed = confirmed >= needed();
  for (auto const& v : b.votes) {
    if (v->place.at != place::state::owned) continue;
  }
  // The validity of this grant begins now. If it were counted from the votes, which may be almost over, the loss could be reported at once,
  // before the hold can be confirmed.
  b.won_at = front.valid_from = now;
  front.renewable = true;
  ++front.references;
  up_.granted(front, b.pushed, now);
  drop(front);
}

void quorum::end(quorum_lock& b, outcome how, error_code why, time_point now) {
  cohort_place& front = *b.front;
  back_out(b, nullptr, 0, now);
  // The reference that ask() took is dropped when the cohort has heard.
  switch (how) {
    case outcome::busy: up_.busy(front, now); break;
    case outcome::left: up_.left(front, now); break;
    case outcome::failed: up_.failed(front, why, now); break;
  }
  drop(front);
}

error_code quorum::worst_trouble(quorum_lock const& b, time_point now) const {
  error_code worst;
  std::string by;
  for (auto const& v : b.votes) {
    if (!v->trouble || (worst && worst != errc::unreachable)) continue;
    worst = v->trouble;
    by = v->from.shown;
  }
  std::string const cause = cause_of(worst);
  std::string const doubles = all_doubles();
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

// -------------------------------------------------------------------------------------------------- strict fences

std::int64_t quorum::fence_ahead(time_point now) const {
  std::int64_t latest = 0;
  for (auto const& m : members_) latest = std::max(latest, m->server->link().clock().shows_us(now).value_or(0));
  return std::max<std::int64_t>(latest - protocol::fence_epoch_us + fence_slack_us, 1);
}

/// The fence of a grant that every later quorum is certain to exceed. 0: not yet, the servers are being asked. Any two quorums share a
/// server, and a server that has given or accepted this fence gives only greater ones.
std::int64_t quorum::agreed_fence(quorum_lock& b, election const& e, time_point now) {
  std::int64_t const greatest = e.fence();
  if (b.agreeing_on == 0) {
    if (servers_with(b, now, [&](vote const& v) { return v.place.fence == greatest; }) >= needed()) return greatest;
    ++stats_.fence_rounds;
    b.agreeing_on = greatest;
    b.since = now;
  }
  std::int64_t above = b.agreeing_on;
  for (auto const& v : b.votes) {
    if (v->place.at != place::state::owned) continue;
    above = std::max(above, v->place.fence);
    if (v->place.accepted != 0 && v->place.refused_by != 0) above = std::max(above, v->place.refused_by + 1);
  }
  b.agreeing_on = above;
  if (servers_with(b, now, [&](vote const& v) { return accepts(v, above); }) >= needed()) return above;
  ask_to_accept(b, above, now);
  return 0;
}

/// How many servers have a vote for which `holds` is true and that is valid for long enough.
template <class Holds>
std::size_t quorum::servers_with(quorum_lock const& b, time_point now, Holds holds) const {
  return static_cast<std::size_t>(std::count_if(b.votes.begin(), b.votes.end(), [&](auto const& v) {
    bool const good = counts(*v) && v->place.deadline - now >= settings_.quorum.min_validity;
    return good && holds(*v);
  }));
}

bool quorum::accepts(vote const& v, std::int64_t fence) { return v.place.accepted == fence && v.place.refused_by == 0; }

void quorum::ask_to_accept(quorum_lock& b, std::int64_t fence, time_point now) {
  for (auto const& v : b.votes) {
    place& s = v->place;
    if (s.at != place::state::owned || accepts(*v, fence)) continue;
    protocol::votes::hold(s, {b.ticket, fence, 0, nullptr}, b.lease);
    s.renewable = true;
    place* const one = &s;
    v->from.server->as_votes().renew({&one, 1}, now);
  }
}

}  // namespace conch::quorum
