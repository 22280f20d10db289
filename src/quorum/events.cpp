// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "quorum/events.hpp"

#include "base/turns.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace conch::quorum {

using protocol::server_place;

quorum_lock::quorum_lock(locks& all, events& to, servers& at_servers, std::string lock_name)
    : name{std::move(lock_name)},
      in{all},
      listener{to},
      timer{this, [](quorum_lock& q, time_point now) { q.listener.due(q, now); }} {
  votes.reserve(at_servers.size());
  for (auto const& m : at_servers.all()) votes.push_back(std::make_unique<vote>(*this, *m, name));
}

// ------------------------------------------------------------------------------------------------ from one server

void member::granted(engine::place& p, bool pushed, time_point now) {
  ++votes;
  listener.vote_granted(*static_cast<vote*>(p.owner), pushed, now);
}
void member::busy(engine::place& p, time_point now) { listener.vote_refused(*static_cast<vote*>(p.owner), now); }
void member::left(engine::place& p, time_point now) { listener.vote_refused(*static_cast<vote*>(p.owner), now); }
void member::queued(engine::place& p, time_point now) { listener.vote_queued(*static_cast<vote*>(p.owner), now); }
void member::renewal_failed(engine::place& p, time_point now) {
  listener.vote_not_renewed(*static_cast<vote*>(p.owner), now);
}
void member::extended(engine::place& p, time_point now) { listener.vote_extended(*static_cast<vote*>(p.owner), now); }
void member::lost(engine::place& p, time_point now) { listener.vote_lost(*static_cast<vote*>(p.owner), now); }

void member::failed(engine::place& p, error_code why, time_point now) {
  last_trouble = why.message();
  listener.vote_failed(*static_cast<vote*>(p.owner), why, now);
}

void member::released(engine::receipt& r, bool was_mine, error_code why, time_point now) {
  listener.vote_released(r, was_mine && !why, now);
}

void member::settled(engine::place& p) { listener.vote_settled(*static_cast<vote*>(p.owner)); }

void member::connection_changed(time_point now) {
  if (!up() && !server->link().trouble().empty()) last_trouble = server->link().trouble();
  listener.connection_changed(*this, now);
}

engine::place* member::find(std::string_view name) {
  quorum_lock* const b = listener.find(name);
  return b == nullptr ? nullptr : &b->votes[number]->place;
}

engine::place& member::find_or_make(std::string_view name) { return listener.find_or_make(name).votes[number]->place; }

void member::note(bool is_error, std::string_view words) {
  last_trouble = words;
  log_to.note(is_error, shown + ": " + std::string{words});
}

void member::connection_refused(error_code why, time_point now) {
  refusal = why;
  last_trouble = why.message();
  listener.connection_refused(now);
}

/// Ends the acquires that have asked no server yet; the others are told one by one.
void events::connection_refused(time_point now) {
  auto const refused = static_cast<std::size_t>(std::count_if(
      servers_.all().begin(), servers_.all().end(), [](auto const& m) { return static_cast<bool>(m->refusal); }));
  if (refused + servers_.needed() <= servers_.size()) return;
  error_code why;
  for (auto const& m : servers_.all()) {
    if (m->refusal) why = m->refusal;
  }
  std::vector<quorum_lock*> all;
  for (auto const& [name, b] : locks_.all()) {
    if (b->phase == lock_phase::starting) all.push_back(b.get());
  }
  for (quorum_lock* b : all) {
    keeping const keep{*b};
    attempts_.end(*b, attempts::outcome::failed, why, now);
  }
}

void events::connection_changed(member& m, time_point now) {
  if (m.up()) m.refusal = {};
  look_for_doubles(m, now);
  if (m.up() && on_.settings.quorum.min_server_uptime > duration::zero()) {
    // Clients may believe in a lock that was lost with the server's memory for as long as the longest lease. Uptime is
    // the difference of two seconds of a clock: a server 0.2 s old may say 1.
    std::chrono::seconds const rounding{1};
    time_point const grown_up =
        conch::detail::later_by(conch::detail::later_by(now, on_.settings.quorum.min_server_uptime), rounding);
    time_point const fresh_until = grown_up - m.server->link().of_session().uptime.value_or(std::chrono::seconds{0});
    if (fresh_until > now) {
      m.fresh_until = fresh_until;
      m.note(false, "the server has just started: it has no vote for min_server_uptime");
      leave_line(m, m.fresh_until, now);
    }
  }
  std::vector<quorum_lock*> all;
  for (auto const& [name, b] : locks_.all()) {
    if (b->phase == lock_phase::starting || (b->asks() && !b->wait)) all.push_back(b.get());
  }
  for (quorum_lock* b : all) {
    keeping const keep{*b};
    // A try has waited for a majority: from now on the servers have their time to answer.
    bool const majority_is_back = m.has_vote() && servers_.voters_there(*b, now) == servers_.needed();
    if (majority_is_back && b->phase == lock_phase::collecting) b->since = now;
    if (b->linked()) {
      room_.resume_soon(now);  // in the order of their asking
    } else if (b->phase == lock_phase::starting) {
      attempts_.start(*b, now);
    } else {
      attempts_.decide(*b, now);
    }
  }
}

/// The server has no vote until then, and its new connection has asked again for all places in its queues. If it has
/// forgotten who owns the lock, or is another member too, it would grant them.
void events::leave_line(member& m, time_point until, time_point now) {
  for (auto const& [name, b] : locks_.all()) {
    vote& v = *b->votes[m.number];
    if (v.place.state != engine::place_state::asking && v.place.state != engine::place_state::in_line) continue;
    keeping const keep{*b};
    vote_requests::give_back(v, nullptr, 0, now);
    v.not_before = until;
    attempts_.plan(*b, now);
  }
}

void events::vote_granted(vote& v, bool pushed, time_point now) {
  quorum_lock& q = v.in;
  keeping const keep{q};
  v.refused = false;
  v.trouble = {};
  v.since = pushed ? now : v.place.valid_from;
  if (q.phase == lock_phase::held) {
    // The vote comes late, and is welcome: one more server may fail.
    protocol::votes::hold(v.place, {q.ticket, q.floor, 0, q.front}, q.lease);
    // It is confirmed with the others at a third of their claim. If that has begun, or a long vote has put it off, it
    // is confirmed now.
    bool const begun = std::any_of(q.votes.begin(), q.votes.end(), [](auto const& one) {
      return one->place.state == engine::place_state::owned && (one->place.confirmed || one->place.owned.renewing);
    });
    bool const too_late = v.place.deadline < q.front->deadline - on_.settings.quorum.vote_claim / 3;
    if (begun || too_late) requests_.confirm_late_votes(q, now);
    // This vote may replace one that is not confirmed any more. Before the confirmation this can wait: the confirmation
    // counts all votes.
    if (begun && q.front->renewable) held_.refresh(q, now);
    return;
  }
  if (!q.asks()) return;
  if (pushed) {
    // The lock moves: it is time to ask wherever we are not queued.
    for (auto const& other : q.votes) {
      if (other->rests != 0) other->not_before = std::min(other->not_before, std::max(now, other->rests_until));
    }
    if (q.phase == lock_phase::collecting && q.wait) {
      std::uint64_t const round = q.round;
      requests_.ask_votes(q, now);
      if (q.round != round) return;
    }
  }
  q.pushed = pushed;
  attempts_.decide(q, now);
}

void events::vote_queued(vote& v, time_point now) {
  quorum_lock& q = v.in;
  keeping const keep{q};
  v.trouble = {};
  if (q.phase != lock_phase::collecting) return;
  if (q.wait && !q.reported_in_line) {
    auto const is_in_line = [](auto const& one) { return one->place.state == engine::place_state::in_line; };
    auto const in_line = static_cast<std::size_t>(std::count_if(q.votes.begin(), q.votes.end(), is_in_line));
    q.reported_in_line = in_line + servers_.needed() > q.votes.size();
    if (q.reported_in_line) on_.up.queued(*q.front, now);
  }
  attempts_.decide(q, now);
}

void events::vote_refused(vote& v, time_point now) {
  quorum_lock& q = v.in;
  keeping const keep{q};
  v.refused = true;
  v.trouble = {};
  v.gone_at = now;
  if (q.asks()) attempts_.decide(q, now);
}

void events::vote_failed(vote& v, error_code why, time_point now) {
  quorum_lock& q = v.in;
  keeping const keep{q};
  v.trouble = why;
  v.gone_at = now;
  v.rests = 0;  // after an error the vote is not asked for again just because the lock moves
  v.not_before = now + on_.jitter(on_.settings.reconnect_max / 2, on_.settings.reconnect_max);
  if (q.asks()) attempts_.decide(q, now);
}

void events::vote_extended(vote& v, time_point now) {
  quorum_lock& q = v.in;
  keeping const keep{q};
  if (q.phase == lock_phase::held) {
    held_.refresh(q, now);
    if (q.phase == lock_phase::held) held_.repair(q, now);
  } else if (q.asks()) {
    attempts_.decide(q, now);
  }
}

/// The hold is renewed again in any case, but the claim of one vote may be over by then.
void events::vote_not_renewed(vote& v, time_point now) {
  if (v.in.phase != lock_phase::held || v.place.confirmed) return;
  on_.timers.arm(v.in.timer,
                 now + std::max<duration>(on_.settings.quorum.vote_claim / 10, std::chrono::milliseconds{20}));
}

void events::vote_lost(vote& v, time_point now) {
  quorum_lock& q = v.in;
  keeping const keep{q};
  v.gone_at = now;
  if (q.phase == lock_phase::held) {
    if (servers_.owned(q) >= servers_.needed()) {
      held_.refresh(q, now);
    } else {
      held_.lose(q, now);
    }
  } else if (q.asks()) {
    std::uint64_t const round = q.round;
    if (q.phase == lock_phase::collecting) requests_.ask_votes(q, now);
    if (q.round == round) attempts_.decide(q, now);
  }
}

void events::look_for_doubles(member& m, time_point now) {
  servers_.met(m);
  for (auto const& one : servers_.all()) {
    if (servers_.vote_changes(*one)) vote_changes(*one, now);
  }
}

void events::vote_changes(member& m, time_point now) {
  if (m.same_as) {
    m.last_trouble = servers_.why_double(m);
    if (servers_.is_news(m)) on_.log.note(false, m.last_trouble);
    leave_line(m, timer_queue::never, now);
  }
  std::vector<quorum_lock*> all;
  for (auto const& [name, b] : locks_.all()) {
    if (!m.same_as) b->votes[m.number]->not_before = now;
    if (b->asks() || b->phase == lock_phase::held) all.push_back(b.get());
  }
  for (quorum_lock* b : all) {
    keeping const keep{*b};
    if (b->phase != lock_phase::held) {
      attempts_.decide(*b, now);
    } else if (servers_.owned(*b) < servers_.needed()) {
      held_.lose(*b, now);
    }
  }
}

}  // namespace conch::quorum
