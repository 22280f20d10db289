// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "engine/mutant.hpp"
#include "quorum/ballot.hpp"

// What the servers say, and what follows from it.
namespace conch::quorum {

namespace {

/// How far a proposed fence lies ahead of the servers' clocks: above what they differ by on a good day, so that all grant the
/// same and no second round is needed.
constexpr std::int64_t fence_slack_us = 20'000;

}  // namespace

// ------------------------------------------------------------------------------------------------ from one server

void quorum::member::granted(seat& s, bool pushed, time_point now) {
  ++votes;
  in.vote_granted(*static_cast<voter*>(s.owner), pushed, now);
}
void quorum::member::busy(seat& s, time_point now) { in.vote_refused(*static_cast<voter*>(s.owner), now); }
void quorum::member::left(seat& s, time_point now) { in.vote_refused(*static_cast<voter*>(s.owner), now); }
void quorum::member::queued(seat& s, time_point now) { in.vote_queued(*static_cast<voter*>(s.owner), now); }
void quorum::member::extended(seat& s, time_point now) { in.vote_extended(*static_cast<voter*>(s.owner), now); }
void quorum::member::lost(seat& s, time_point now) { in.vote_lost(*static_cast<voter*>(s.owner), now); }

void quorum::member::failed(seat& s, error_code why, time_point now) {
  last_trouble = why.message();
  in.vote_failed(*static_cast<voter*>(s.owner), why, now);
}

void quorum::member::released(engine::receipt& r, bool was_mine, error_code why, time_point now) {
  in.vote_released(r, was_mine && !why, now);
}

void quorum::member::settled(seat& s) { in.retire(static_cast<voter*>(s.owner)->in); }

void quorum::member::connection_changed(time_point now) { in.connection_changed(*this, now); }

seat* quorum::member::find(std::string_view name) {
  ballot* const b = in.find(name);
  return b == nullptr ? nullptr : &b->votes[number]->place;
}

seat& quorum::member::find_or_make(std::string_view name) { return in.ballot_of(name).votes[number]->place; }

void quorum::member::note(bool is_error, std::string_view words) {
  last_trouble = words;
  in.log_.note(is_error, shown + ": " + std::string{words});
}

void quorum::member::connection_refused(error_code why, time_point now) {
  refusal = why;
  last_trouble = why.message();
  in.connection_refused(now);
}

/// For those that have not asked yet; the others are told one by one.
void quorum::connection_refused(time_point now) {
  auto const refused = static_cast<std::size_t>(std::count_if(members_.begin(), members_.end(),
                                                              [](auto const& m) { return static_cast<bool>(m->refusal); }));
  if (refused + needed() <= members_.size()) return;
  error_code why;
  for (auto const& m : members_) {
    if (m->refusal) why = m->refusal;
  }
  std::vector<ballot*> all;
  for (auto const& [name, b] : ballots_) {
    if (b->at == ballot::phase::starting) all.push_back(b.get());
  }
  for (ballot* b : all) {
    keeping const keep{*b};
    end(*b, outcome::failed, why, now);
  }
}

void quorum::connection_changed(member& m, time_point now) {
  if (m.up()) m.refusal = {};
  if (m.up() && settings_.min_server_uptime > duration::zero()) {
    // What was lost with its memory may be believed for as long as the longest lease. Uptime is in whole seconds.
    duration const lacks = settings_.min_server_uptime + std::chrono::seconds{1} -
                           m.protocol->uptime().value_or(std::chrono::seconds{0});
    if (lacks > duration::zero()) {
      m.fresh_until = now + lacks;
      m.note(false, "the server has just started: it has no vote for min_server_uptime");
      leave_fresh_server(m, now);
    }
  }
  std::vector<ballot*> all;
  for (auto const& [name, b] : ballots_) {
    if (b->at == ballot::phase::starting || (b->asks() && !b->wait)) all.push_back(b.get());
  }
  bool const majority_is_back = m.up() && connected_servers() == needed();
  for (ballot* b : all) {
    keeping const keep{*b};
    // A try has waited for this: now the servers have their time.
    if (majority_is_back && b->at == ballot::phase::collecting) b->since = now;
    if (b->at == ballot::phase::starting) {
      start(*b, now);
    } else {
      decide(*b, now);
    }
  }
}

/// What stands in line there was asked again by the new connection, and would be granted by a server that has forgotten whose
/// the lock is.
void quorum::leave_fresh_server(member& m, time_point now) {
  if (CONCH_MUTANT(fresh_server_votes)) return;
  for (auto const& [name, b] : ballots_) {
    voter& v = *b->votes[m.number];
    if (v.place.at != seat::state::asking && v.place.at != seat::state::in_line) continue;
    keeping const keep{*b};
    m.protocol->give_up(v.place, nullptr, now);
    v.not_before = m.fresh_until;
    plan(*b, now);
  }
}

void quorum::vote_granted(voter& v, bool pushed, time_point now) {
  ballot& b = v.in;
  keeping const keep{b};
  v.refused = false;
  v.trouble = {};
  v.since = pushed ? now : v.place.valid_from;
  if (b.at == ballot::phase::held) {
    // Late, and welcome: one more that may fail.
    v.place.floor = b.floor;
    v.place.lease = b.lease;
    v.place.part_of = b.front;
    // With the others, at a third of their claim; unless they are confirmed, or a long one has put that off.
    bool const too_late = v.place.deadline < b.front->deadline - settings_.vote_claim / 3;
    if (b.front->confirmed || too_late) confirm_late_votes(b, now);
    return;
  }
  if (!b.asks()) return;
  if (pushed) {
    // The lock moves: wherever we do not stand in line, it is time to.
    for (auto const& other : b.votes) {
      if (other->rests != 0) other->not_before = now;
    }
    if (b.at == ballot::phase::collecting && b.wait) {
      std::uint64_t const round = b.round;
      ask_votes(b, now);
      if (b.round != round) return;
    }
  }
  b.pushed = pushed;
  decide(b, now);
}

void quorum::vote_queued(voter& v, time_point now) {
  ballot& b = v.in;
  keeping const keep{b};
  v.trouble = {};
  if (b.at == ballot::phase::collecting) decide(b, now);
}

void quorum::vote_refused(voter& v, time_point now) {
  ballot& b = v.in;
  keeping const keep{b};
  v.refused = true;
  v.trouble = {};
  v.gone_at = now;
  if (b.asks()) decide(b, now);
}

void quorum::vote_failed(voter& v, error_code why, time_point now) {
  ballot& b = v.in;
  keeping const keep{b};
  v.trouble = why;
  v.gone_at = now;
  v.not_before = now + jitter(settings_.reconnect_max / 2, settings_.reconnect_max);
  if (b.asks()) decide(b, now);
}

void quorum::vote_extended(voter& v, time_point now) {
  ballot& b = v.in;
  keeping const keep{b};
  if (b.at == ballot::phase::held) {
    refresh(b, now);
    if (b.at == ballot::phase::held) repair(b, now);
  } else if (b.asks()) {
    decide(b, now);
  }
}

void quorum::vote_lost(voter& v, time_point now) {
  ballot& b = v.in;
  keeping const keep{b};
  v.gone_at = now;
  if (b.at == ballot::phase::held) {
    if (b.owned() >= needed()) {
      refresh(b, now);
    } else if (!CONCH_MUTANT(loss_of_the_majority_ignored)) {
      lose(b, now);
    }
  } else if (b.asks()) {
    std::uint64_t const round = b.round;
    if (b.at == ballot::phase::collecting) ask_votes(b, now);
    if (b.round == round) decide(b, now);
  }
}

// --------------------------------------------------------------------------------------------------- the decision

/// Has this server had its time? Of who waits it is never asked: a push may come at any time.
bool quorum::is_silent(ballot const& b, voter const& v, time_point now) const {
  if (b.wait && b.at == ballot::phase::collecting) return false;
  member const& m = *members_[v.server];
  if (!m.up()) return b.at == ballot::phase::leaving || connected_servers() >= needed();
  return now >= b.since + patience_with(m);
}

election quorum::count(ballot const& b, time_point now) const {
  election e{{b.votes.size(), needed(), settings_.min_validity}};
  // Those that are no yes first: a verdict, once given, stays.
  for (auto const& v : b.votes) {
    if (v->place.at == seat::state::owned) e.yes(v->server, v->place.deadline, v->place.fence, now);
  }
  for (auto const& v : b.votes) {
    bool const waits = b.wait && b.at == ballot::phase::collecting;
    if (v->place.at == seat::state::owned) continue;
    if (v->trouble) {
      e.failed(v->server, now);  // also while it is asked again
    } else if (v->place.at != seat::state::idle) {
      if (is_silent(b, *v, now)) e.silent(v->server, now);
    } else if (v->refused) {
      e.no(v->server, now);
    } else if (!waits) {
      e.failed(v->server, now);
    }
  }
  return e;
}

void quorum::decide(ballot& b, time_point now) {
  if (!b.asks()) return;
  election const e = count(b, now);
  std::size_t const failed = e.count(vote::failed);
  std::size_t const spare = b.votes.size() - needed();
  if (e.result() == verdict::won) {
    bool const strict = settings_.strict_fence && !CONCH_MUTANT(second_round_skipped);
    std::int64_t const fence = strict ? agreed_fence(b, e, now) : e.fence();
    if (fence != 0) {
      win(b, e.deadline(), fence, now);
      return;
    }
  } else if (b.at == ballot::phase::leaving) {
    if (e.result() == verdict::out_of_reach) {
      end(b, outcome::left, {}, now);
      return;
    }
  } else if (!b.wait) {
    if (e.result() == verdict::out_of_reach) {
      // Busy, unless it could not be had even if it were free.
      std::size_t absent = failed + e.count(vote::silent);
      for (auto const& v : b.votes) {
        if (e.of(v->server) == vote::pending && !members_[v->server]->up()) ++absent;
      }
      end(b, absent <= spare && e.count(vote::no) != 0 ? outcome::busy : outcome::failed, worst_trouble(b), now);
      return;
    }
  } else if (failed > spare) {
    end(b, outcome::failed, worst_trouble(b), now);
    return;
  } else {
    minority(b, now);
  }
  plan(b, now);
}

void quorum::win(ballot& b, time_point deadline, std::int64_t fence, time_point now) {
  seat& front = *b.front;
  std::size_t confirmed = 0;
  b.at = ballot::phase::held;
  b.floor = fence;
  b.agreeing_on = 0;
  ++b.round;
  b.timer.cancel();
  for (auto const& v : b.votes) {
    v->place.lease = b.lease;
    v->place.floor = fence;
    v->place.part_of = &front;
    if (v->place.at == seat::state::owned && v->place.confirmed) ++confirmed;
  }
  front.at = seat::state::owned;
  front.fence = fence;
  front.deadline = CONCH_MUTANT(claim_taken_for_lease) ? deadline + (b.lease - settings_.vote_claim) : deadline;
  front.confirmed = confirmed >= needed();
  for (auto const& v : b.votes) {
    if (v->place.at != seat::state::owned) continue;
    if (CONCH_MUTANT(validity_of_the_best)) front.deadline = std::max(front.deadline, v->place.deadline);
    if (CONCH_MUTANT(fence_of_the_least)) front.fence = std::min(front.fence, v->place.fence);
  }
  auto const lease = front.confirmed ? duration{b.lease} : settings_.vote_claim;
  front.valid_from = deadline - (lease - engine::drift_of(lease));
  front.renewable = true;
  ++front.references;
  up_.granted(front, b.pushed, now);
  drop(front);
}

void quorum::end(ballot& b, outcome how, error_code why, time_point now) {
  seat& front = *b.front;
  back_out(b, nullptr, now);
  // The reference of the asking is dropped when the cohort has heard.
  switch (how) {
    case outcome::busy: up_.busy(front, now); break;
    case outcome::left: up_.left(front, now); break;
    case outcome::failed: up_.failed(front, why, now); break;
  }
  drop(front);
}

/// Fewer servers than a quorum know of the lock: another may have it.
void quorum::lose(ballot& b, time_point now) {
  seat& front = *b.front;
  front.at = seat::state::idle;
  b.at = ballot::phase::idle;
  b.front = nullptr;
  b.timer.cancel();
  std::uint64_t const round = ++b.round;
  // Told first: what is sent may be carried out, and another granted, before this returns.
  up_.lost(front, now);
  if (CONCH_MUTANT(votes_kept_on_loss)) {
    for (auto const& v : b.votes) v->place.part_of = nullptr;
  } else if (b.round == round) {
    release_votes(b, nullptr, now);
  }
  drop(front);
}

error_code quorum::worst_trouble(ballot const& b) const {
  error_code worst;
  for (auto const& v : b.votes) {
    if (!v->trouble) continue;
    if (!worst || worst == errc::unreachable) worst = v->trouble;
  }
  return worst ? worst : make_error_code(errc::unreachable, "too few servers answered");
}

// ------------------------------------------------------------------------------------------------------ the hold

/// What the votes are good for now, to the cohort, if that has changed.
void quorum::refresh(ballot& b, time_point now) {
  seat& front = *b.front;
  std::vector<time_point> deadlines;
  std::size_t confirmed = 0;
  for (auto const& v : b.votes) {
    if (v->place.at != seat::state::owned) continue;
    deadlines.push_back(v->place.deadline);
    if (v->place.confirmed) ++confirmed;
  }
  if (deadlines.size() < needed()) return;  // they have no deadline in common: that is a loss, and told as one
  bool const was_confirmed = front.confirmed;
  bool const is_confirmed = confirmed >= needed();
  time_point const deadline = kth_greatest(deadlines, CONCH_MUTANT(renewed_by_one) ? 1 : needed());
  if (deadline == front.deadline && is_confirmed == was_confirmed) return;
  front.deadline = deadline;
  front.confirmed = is_confirmed;
  duration const lease = is_confirmed ? duration{b.lease} : settings_.vote_claim;
  front.valid_from = deadline - (lease - engine::drift_of(lease));
  // Also where one long vote has put the end off, and with it the confirmation that all others wait for.
  if (!is_confirmed || !was_confirmed) confirm_late_votes(b, now);
  up_.extended(front, now);
}

void quorum::confirm_late_votes(ballot& b, time_point now) {
  for (auto const& v : b.votes) {
    if (v->place.at != seat::state::owned || v->place.confirmed) continue;
    seat* const one = &v->place;
    members_[v->server]->protocol->renew({&one, 1}, now);
  }
}

/// A server that lacks the lock is asked again, but not stood in line for. A majority must have renewed it since that server
/// said so: otherwise one after the other could forget, give the lock to somebody else for a moment, and be asked again,
/// and nobody would be told.
void quorum::repair(ballot& b, time_point now) {
  if (!b.front->confirmed || !b.front->renewable) return;
  std::uint64_t const round = b.round;
  for (auto const& v : b.votes) {
    if (v->place.at != seat::state::idle || v->not_before > now) continue;
    auto const verified = std::count_if(b.votes.begin(), b.votes.end(), [&](auto const& other) {
      seat const& s = other->place;
      return s.at == seat::state::owned && s.confirmed && s.valid_from >= v->gone_at;
    });
    if (static_cast<std::size_t>(verified) >= needed()) ask_vote(b, *v, false, now);
    if (b.round != round) return;
  }
}

// -------------------------------------------------------------------------------------------------- strict fences

std::int64_t quorum::fence_ahead(time_point now) const {
  std::int64_t latest = 0;
  for (auto const& m : members_) latest = std::max(latest, m->protocol->clock_us(now).value_or(0));
  return std::max<std::int64_t>(latest - engine::fence_epoch_us + fence_slack_us, 1);
}

/// The fence of a grant that every later quorum is certain to exceed; 0: not yet, the servers are being asked. Any two quorums
/// share a server. One that has given or accepted this fence gives only greater ones.
std::int64_t quorum::agreed_fence(ballot& b, election const& e, time_point now) {
  auto const servers_with = [&](auto const& holds) {
    std::size_t n = 0;
    for (auto const& v : b.votes) {
      bool const good = v->place.at == seat::state::owned && v->place.deadline - now >= settings_.min_validity;
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
    if (v->place.at != seat::state::owned) continue;
    above = std::max(above, v->place.fence);
    if (v->place.accepted != 0 && v->place.refused_by != 0) above = std::max(above, v->place.refused_by + 1);
  }
  b.agreeing_on = above;
  auto const accepts = [&](voter const& v) {
    return v.place.accepted == above && v.place.refused_by == 0;
  };
  if (servers_with(accepts) >= needed()) return above;
  for (auto const& v : b.votes) {
    seat& s = v->place;
    if (s.at != seat::state::owned || accepts(*v)) continue;
    s.floor = above;
    s.lease = b.lease;
    s.renewable = true;
    seat* const one = &s;
    members_[v->server]->protocol->renew({&one, 1}, now);
  }
  return 0;
}

}  // namespace conch::quorum
