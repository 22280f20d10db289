// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/mutant.hpp"
#include "quorum/quorum_lock.hpp"

// Is the lock ours? What the votes are good for, and with which fence.
namespace conch::quorum {

namespace {

/// How far a proposed fence lies ahead of the servers' clocks: above what they differ by on a good day, so that all grant the
/// same and no second round is needed.
constexpr std::int64_t fence_slack_us = 20'000;

}  // namespace

/// Has this server had its time? Of who waits it is never asked: a push may come at any time.
bool quorum::is_silent(quorum_lock const& b, voter const& v, time_point now) const {
  if (b.wait && b.at == quorum_lock::phase::collecting) return false;
  member const& m = *members_[v.server];
  if (!m.up()) return b.at == quorum_lock::phase::leaving || voters_there(b, now) >= needed();
  return now >= b.since + patience_with(m);
}

election quorum::count(quorum_lock const& b, time_point now) const {
  election e{{b.votes.size(), needed(), settings_.quorum.min_validity}};
  // Those that are no yes first: a verdict, once given, stays.
  for (auto const& v : b.votes) {
    if (v->place.at != place::state::owned) continue;
    // Of a try: what is over is about to be given back, and asked for again.
    bool const asked_again = b.tries() && v->place.deadline - now < settings_.quorum.min_validity;
    if (!asked_again) e.yes(v->server, v->place.deadline, v->place.fence, now);
  }
  // A server that is slow is passed over where the others can decide without it and those that have no vote. More than that are
  // slow because of the network, or of ourselves, and not away: to give up would call a free lock busy, or servers that are
  // there unreachable.
  auto const missing = static_cast<std::size_t>(std::count_if(b.votes.begin(), b.votes.end(), [&](auto const& v) {
    place::state const at = v->place.at;
    if (at == place::state::owned) return false;
    bool const has_none = v->trouble || (at == place::state::idle && !v->refused);
    if (has_none) return !CONCH_MUTANT(only_slow_servers_missing);
    return at != place::state::idle && is_silent(b, *v, now);
  }));
  bool const over = b.tries() && now >= b.began + settings_.offline_timeout;
  bool const few = missing + needed() <= b.votes.size() || !b.tries() || CONCH_MUTANT(slow_servers_are_away);
  for (auto const& v : b.votes) {
    bool const waits = b.wait && b.at == quorum_lock::phase::collecting;
    if (v->place.at == place::state::owned) continue;
    if (v->trouble) {
      e.failed(v->server, now);  // also while it is asked again
    } else if (v->place.at != place::state::idle) {
      bool const passed_over = is_silent(b, *v, now) && (few || !members_[v->server]->up());
      if (passed_over || over) e.silent(v->server, now);
    } else if (v->refused) {
      e.no(v->server, now);
    } else if (!waits) {
      e.failed(v->server, now);
    }
  }
  return e;
}

void quorum::decide(quorum_lock& b, time_point now) {
  if (!b.asks()) return;
  election const e = count(b, now);
  std::size_t const failed = e.count(vote::failed);
  std::size_t const spare = b.votes.size() - needed();
  if (e.result() == verdict::won) {
    bool const strict = settings_.quorum.strict_fence && !CONCH_MUTANT(second_round_skipped);
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
      // Busy, unless it could not be had even if it were free. Servers that may connect yet are waited for: they tell which.
      std::size_t const absent = failed + e.count(vote::silent);
      auto const connecting = static_cast<std::size_t>(std::count_if(
          b.votes.begin(), b.votes.end(), [&](auto const& v) { return e.of(v->server) == vote::pending && !members_[v->server]->up(); }));
      bool const busy = absent + connecting <= spare && e.count(vote::no) != 0;
      bool const may_be = absent <= spare && connecting != 0 && b.tries();
      if (busy || !may_be) {
        end(b, busy ? outcome::busy : outcome::failed, worst_trouble(b, now), now);
        return;
      }
    }
  } else if (failed > (CONCH_MUTANT(error_fails_acquire) ? 0 : spare)) {
    end(b, outcome::failed, worst_trouble(b, now), now);
    return;
  } else {
    minority(b, now);
  }
  plan(b, now);
}

void quorum::win(quorum_lock& b, time_point deadline, std::int64_t fence, time_point now) {
  place& front = *b.front;
  std::size_t confirmed = 0;
  b.at = quorum_lock::phase::held;
  b.floor = fence;
  b.agreeing_on = 0;
  ++b.round;
  b.timer.cancel();
  for (auto const& v : b.votes) {
    v->place.lease = b.lease;
    v->place.floor = fence;
    v->place.part_of = &front;
    // A rest is for those that wait; a hold is mended with its first renewal.
    if (v->rests != 0) v->not_before = now;
    if (v->place.at == place::state::owned && v->place.confirmed) ++confirmed;
  }
  enter(front, place::state::owned);
  front.fence = fence;
  front.deadline = CONCH_MUTANT(claim_taken_for_lease) ? deadline + (b.lease - settings_.quorum.vote_claim) : deadline;
  front.confirmed = confirmed >= needed();
  for (auto const& v : b.votes) {
    if (v->place.at != place::state::owned) continue;
    if (CONCH_MUTANT(validity_of_the_best)) front.deadline = std::max(front.deadline, v->place.deadline);
    if (CONCH_MUTANT(fence_of_the_least)) front.fence = std::min(front.fence, v->place.fence);
  }
  // What this grant is good for begins now. Counted from the votes, which may be almost over, its holder could be told of its
  // loss at once, before it can be confirmed.
  b.won_at = front.valid_from = now;
  if (CONCH_MUTANT(margin_of_old_votes)) front.valid_from = deadline - (settings_.quorum.vote_claim - engine::drift_of(settings_.quorum.vote_claim));
  front.renewable = true;
  ++front.references;
  up_.granted(front, b.pushed, now);
  drop(front);
}

void quorum::end(quorum_lock& b, outcome how, error_code why, time_point now) {
  place& front = *b.front;
  back_out(b, nullptr, now);
  // The reference of the asking is dropped when the cohort has heard.
  switch (how) {
    case outcome::busy: up_.busy(front, now); break;
    case outcome::left: up_.left(front, now); break;
    case outcome::failed: up_.failed(front, why, now); break;
  }
  drop(front);
}

error_code quorum::worst_trouble(quorum_lock const& b, time_point now) const {
  error_code worst;
  for (auto const& v : b.votes) {
    if (!v->trouble) continue;
    if (!worst || worst == errc::unreachable) worst = v->trouble;
  }
  if (worst) return worst;
  std::string why = "too few servers answered";
  for (auto const& v : b.votes) {
    member const& m = *members_[v->server];
    std::string const words = m.fresh_until > now ? "has just started, and has no vote yet" : m.protocol->trouble_of(v->place);
    if (!words.empty()) why += "; " + m.shown + ": " + words;
  }
  return make_error_code(errc::unreachable, why);
}

// -------------------------------------------------------------------------------------------------- strict fences

std::int64_t quorum::fence_ahead(time_point now) const {
  std::int64_t latest = 0;
  for (auto const& m : members_) latest = std::max(latest, m->protocol->clock_us(now).value_or(0));
  return std::max<std::int64_t>(latest - engine::fence_epoch_us + fence_slack_us, 1);
}

/// The fence of a grant that every later quorum is certain to exceed; 0: not yet, the servers are being asked. Any two quorums
/// share a server. One that has given or accepted this fence gives only greater ones.
std::int64_t quorum::agreed_fence(quorum_lock& b, election const& e, time_point now) {
  auto const servers_with = [&](auto const& holds) {
    std::size_t n = 0;
    for (auto const& v : b.votes) {
      bool const good = v->place.at == place::state::owned && v->place.deadline - now >= settings_.quorum.min_validity;
      if (good && holds(*v)) ++n;
    }
    return n;
  };
  std::int64_t const greatest = e.fence();
  if (b.agreeing_on == 0) {
    if (servers_with([&](voter const& v) { return v.place.fence == greatest; }) >= needed()) return greatest;
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
  auto const accepts = [&](voter const& v) { return v.place.accepted == above && v.place.refused_by == 0; };
  if (servers_with(accepts) >= needed()) return above;
  for (auto const& v : b.votes) {
    place& s = v->place;
    if (s.at != place::state::owned || accepts(*v)) continue;
    s.floor = above;
    s.lease = b.lease;
    s.renewable = true;
    place* const one = &s;
    members_[v->server]->protocol->renew({&one, 1}, now);
  }
  return 0;
}

}  // namespace conch::quorum
