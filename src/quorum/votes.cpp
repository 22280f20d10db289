// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/quorum_lock.hpp"

// What the servers answer and push.
namespace conch::quorum {

using protocol::place;

// ------------------------------------------------------------------------------------------------ from one server

void quorum::member::granted(engine::place& s, bool pushed, time_point now) {
  ++votes;
  in.vote_granted(*static_cast<vote*>(s.owner), pushed, now);
}
void quorum::member::busy(engine::place& s, time_point now) { in.vote_refused(*static_cast<vote*>(s.owner), now); }
void quorum::member::left(engine::place& s, time_point now) { in.vote_refused(*static_cast<vote*>(s.owner), now); }
void quorum::member::queued(engine::place& s, time_point now) { in.vote_queued(*static_cast<vote*>(s.owner), now); }
void quorum::member::renewal_failed(engine::place& s, time_point now) { in.vote_not_renewed(*static_cast<vote*>(s.owner), now); }
void quorum::member::extended(engine::place& s, time_point now) { in.vote_extended(*static_cast<vote*>(s.owner), now); }
void quorum::member::lost(engine::place& s, time_point now) { in.vote_lost(*static_cast<vote*>(s.owner), now); }

void quorum::member::failed(engine::place& s, error_code why, time_point now) {
  last_trouble = why.message();
  in.vote_failed(*static_cast<vote*>(s.owner), why, now);
}

void quorum::member::released(engine::receipt& r, bool was_mine, error_code why, time_point now) { in.vote_released(r, was_mine && !why, now); }

void quorum::member::settled(engine::place& s) { in.retire(static_cast<vote*>(s.owner)->in); }

void quorum::member::connection_changed(time_point now) {
  if (!up() && !server->link().trouble().empty()) last_trouble = server->link().trouble();
  in.connection_changed(*this, now);
}

engine::place* quorum::member::find(std::string_view name) {
  quorum_lock* const b = in.find(name);
  return b == nullptr ? nullptr : &b->votes[number]->place;
}

engine::place& quorum::member::find_or_make(std::string_view name) { return in.lock_of(name).votes[number]->place; }

void quorum::member::note(bool is_error, std::string_view words) {
  last_trouble = words;
  in.log_.note(is_error, shown + ": " + std::string{words});
}

void quorum::member::connection_refused(error_code why, time_point now) {
  refusal = why;
  last_trouble = why.message();
  in.connection_refused(now);
}

/// Ends the acquires that have asked no server yet; the others are told one by one.
void quorum::connection_refused(time_point now) {
  auto const refused =
      static_cast<std::size_t>(std::count_if(members_.begin(), members_.end(), [](auto const& m) { return static_cast<bool>(m->refusal); }));
  if (refused + needed() <= members_.size()) return;
  error_code why;
  for (auto const& m : members_) {
    if (m->refusal) why = m->refusal;
  }
  std::vector<quorum_lock*> all;
  for (auto const& [name, b] : locks_) {
    if (b->at == quorum_lock::phase::starting) all.push_back(b.get());
  }
  for (quorum_lock* b : all) {
    keeping const keep{*b};
    end(*b, outcome::failed, why, now);
  }
}

void quorum::connection_changed(member& m, time_point now) {
  if (m.up()) m.refusal = {};
  look_for_doubles(m, now);
  if (m.up() && settings_.quorum.min_server_uptime > duration::zero()) {
    // Clients may believe in a lock that was lost with the server's memory for as long as the longest lease. Uptime is the difference of
    // two seconds of a clock: a server 0.2 s old may say 1.
    std::chrono::seconds const rounding{1};
    time_point const grown_up = conch::detail::later_by(conch::detail::later_by(now, settings_.quorum.min_server_uptime), rounding);
    time_point const fresh_until = grown_up - m.server->link().of_session().uptime.value_or(std::chrono::seconds{0});
    if (fresh_until > now) {
      m.fresh_until = fresh_until;
      m.note(false, "the server has just started: it has no vote for min_server_uptime");
      leave_line(m, m.fresh_until, now);
    }
  }
  std::vector<quorum_lock*> all;
  for (auto const& [name, b] : locks_) {
    if (b->at == quorum_lock::phase::starting || (b->asks() && !b->wait)) all.push_back(b.get());
  }
  for (quorum_lock* b : all) {
    keeping const keep{*b};
    // A try has waited for a majority: from now on the servers have their time to answer.
    bool const majority_is_back = m.has_vote() && voters_there(*b, now) == needed();
    if (majority_is_back && b->at == quorum_lock::phase::collecting) b->since = now;
    if (b->linked()) {
      timers_.arm(next_, engine::in_next_turn(now));  // in the order of their asking
    } else if (b->at == quorum_lock::phase::starting) {
      start(*b, now);
    } else {
      decide(*b, now);
    }
  }
}

/// The server has no vote until then, and its new connection has asked again for all places in line there. If it has forgotten who owns the lock,
/// or is another member too, it would grant them.
void quorum::leave_line(member& m, time_point until, time_point now) {
  for (auto const& [name, b] : locks_) {
    vote& v = *b->votes[m.number];
    if (v.place.at != place::state::asking && v.place.at != place::state::in_line) continue;
    keeping const keep{*b};
    give_back(v, nullptr, 0, now);
    v.not_before = until;
    plan(*b, now);
  }
}

void quorum::vote_granted(vote& v, bool pushed, time_point now) {
  quorum_lock& b = v.in;
  keeping const keep{b};
  v.refused = false;
  v.trouble = {};
  v.since = pushed ? now : v.place.valid_from;
  if (b.at == quorum_lock::phase::held) {
    // The vote comes late, and is welcome: one more server may fail.
    protocol::votes::hold(v.place, {b.ticket, b.floor, 0, b.front}, b.lease);
    // It is confirmed with the others at a third of their claim. If that has begun, or a long vote has put it off, it is confirmed now.
    bool const begun = std::any_of(b.votes.begin(), b.votes.end(), [](auto const& one) {
      return one->place.at == place::state::owned && (one->place.confirmed || one->place.renewing);
    });
    bool const too_late = v.place.deadline < b.front->deadline - settings_.quorum.vote_claim / 3;
    if (begun || too_late) confirm_late_votes(b, now);
    // This vote may replace one that is not confirmed any more. Before the confirmation this can wait: the confirmation counts all votes.
    if (begun && b.front->renewable) refresh(b, now);
    return;
  }
  if (!b.asks()) return;
  if (pushed) {
    // The lock moves: it is time to ask wherever we do not stand in line.
    for (auto const& other : b.votes) {
      if (other->rests != 0) other->not_before = std::min(other->not_before, std::max(now, other->rests_until));
    }
    if (b.at == quorum_lock::phase::collecting && b.wait) {
      std::uint64_t const round = b.round;
      ask_votes(b, now);
      if (b.round != round) return;
    }
  }
  b.pushed = pushed;
  decide(b, now);
}

void quorum::vote_queued(vote& v, time_point now) {
  quorum_lock& b = v.in;
  keeping const keep{b};
  v.trouble = {};
  if (b.at != quorum_lock::phase::collecting) return;
  if (b.wait && !b.told_in_line) {
    auto const is_in_line = [](auto const& one) { return one->place.at == place::state::in_line; };
    auto const in_line = static_cast<std::size_t>(std::count_if(b.votes.begin(), b.votes.end(), is_in_line));
    b.told_in_line = in_line + needed() > b.votes.size();
    if (b.told_in_line) up_.queued(*b.front, now);
  }
  decide(b, now);
}

void quorum::vote_refused(vote& v, time_point now) {
  quorum_lock& b = v.in;
  keeping const keep{b};
  v.refused = true;
  v.trouble = {};
  v.gone_at = now;
  if (b.asks()) decide(b, now);
}

void quorum::vote_failed(vote& v, error_code why, time_point now) {
  quorum_lock& b = v.in;
  keeping const keep{b};
  v.trouble = why;
  v.gone_at = now;
  v.rests = 0;  // after an error the vote is not asked for again just because the lock moves
  v.not_before = now + jitter(settings_.reconnect_max / 2, settings_.reconnect_max);
  if (b.asks()) decide(b, now);
}

void quorum::vote_extended(vote& v, time_point now) {
  quorum_lock& b = v.in;
  keeping const keep{b};
  if (b.at == quorum_lock::phase::held) {
    refresh(b, now);
    if (b.at == quorum_lock::phase::held) repair(b, now);
  } else if (b.asks()) {
    decide(b, now);
  }
}

/// The hold is renewed again in any case, but the claim of one vote may be over by then.
void quorum::vote_not_renewed(vote& v, time_point now) {
  if (v.in.at != quorum_lock::phase::held || v.place.confirmed) return;
  timers_.arm(v.in.timer, now + std::max<duration>(settings_.quorum.vote_claim / 10, std::chrono::milliseconds{20}));
}

void quorum::vote_lost(vote& v, time_point now) {
  quorum_lock& b = v.in;
  keeping const keep{b};
  v.gone_at = now;
  if (b.at == quorum_lock::phase::held) {
    if (b.owned() >= needed()) {
      refresh(b, now);
    } else {
      lose(b, now);
    }
  } else if (b.asks()) {
    std::uint64_t const round = b.round;
    if (b.at == quorum_lock::phase::collecting) ask_votes(b, now);
    if (b.round == round) decide(b, now);
  }
}

}  // namespace conch::quorum
