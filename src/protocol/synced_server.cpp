// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/synced_server.hpp"

#include "base/fault.hpp"

#include <algorithm>
#include <utility>

namespace conch::protocol {

/// The cohort's place. The place at the server is owned while this one still asks, is queued or leaves: the grant is a
/// claim then, of which the replicas are told.
struct synced_server::front final : engine::place {
  front(synced_server& keeper, std::string_view lock_name, engine::permit const& share)
      : engine::place{lock_name, share},
        in{keeper},
        at_server{keeper.server_, lock_name, share},
        timer{this, [](front& f, time_point now) { f.in.due(f, now); }} {
    at_server.owner = this;
    votes::hold(at_server, {.hold = this}, {});
  }

  synced_server& in;
  protocol::server_place at_server;
  bool is_busy = false;    // counts as a reference: the server uses its place
  bool is_wanted = false;  // in wanted_
  grant_id under_way;      // of the grant whose renewal is in a batch; 0: none
  bool pushed = false;
  unsigned attempts = 0;  // that came to nothing, for this grant
  // replicas that have acknowledged at the last of them; -1: there was none since it was asked for
  std::int64_t most = -1;
  error_code why_not;        // of the server: no number of replicas helps
  time_point claimed_until;  // as granted; a renewal that no replica has makes it no longer
  conch::timer timer;        // unconfirmed: the end of the claim, or of a pause

  bool is_unconfirmed() const noexcept { return state != place_state::owned && at_server.state == place_state::owned; }
};

/// Keeps a place while a function works on it.
class synced_server::keeping {
 public:
  explicit keeping(front& f) noexcept : f_{f} { ++f_.references; }
  keeping(keeping const&) = delete;
  keeping& operator=(keeping const&) = delete;
  ~keeping() { f_.in.drop(f_); }

 private:
  front& f_;
};

synced_server::synced_server(config const& settings, std::uint64_t seed, entropy& nonces, timer_queue& timers,
                             wire& out, wire& sync, backend_events& up, log_sink& log, statistics& stats)
    : settings_{settings},
      timers_{timers},
      up_{up},
      stats_{stats},
      out_{out},
      server_{settings, seed, nonces, timers, out, *this, log, stats},
      link_{settings, timers, sync, *this, stats} {}

synced_server::front& synced_server::made_here(engine::place& p) noexcept { return static_cast<front&>(p); }

synced_server::front& synced_server::front_of(engine::place& at_server) noexcept {
  return *static_cast<front*>(at_server.owner);
}

protocol::server_place const& synced_server::at_server(engine::place const& p) noexcept {
  return static_cast<front const&>(p).at_server;
}

std::unique_ptr<engine::place> synced_server::make_place(std::string_view name, engine::permit const& share) {
  return std::make_unique<front>(*this, name, share);
}

// ------------------------------------------------------------------------------------------------- from the cohort

void synced_server::ask(engine::place& p, bool wait, milliseconds lease, time_point now) {
  front& f = made_here(p);
  begin(f, wait, lease);
  f.written = true;  // the server's place knows better, and is asked in any case
  f.at_server.origin = f.origin;
  f.at_server.at_least = f.at_least;
  f.at_server.kept_until = time_point::min();
  count(f);
  link_.more(now);  // to be connected in time
  below().ask(f.at_server, wait, claim_of(settings_, lease), now);
}

/// The place asks, as for a new grant.
void synced_server::begin(front& f, bool wait, milliseconds lease) {
  enter(f, place_state::asking);
  f.wait = wait;
  f.lease = lease;
  f.confirmed = false;
  f.renewable = true;
  f.renew_until = time_point::max();
  f.most = -1;
  f.why_not = {};
}

/// What is being sent to the replicas is waited for: one WAIT.
void synced_server::leave_unless_granted(engine::place& p, time_point now) {
  front& f = made_here(p);
  keeping const keep{f};
  enter(f, place_state::leaving);
  if (!f.is_unconfirmed()) below().leave_unless_granted(f.at_server, now);
  else if (f.under_way != f.at_server.id) give_back(f, now);
}

void synced_server::give_up(engine::place& p, receipt* r, time_point now) {
  front& f = made_here(p);
  bool const granted = f.is_unconfirmed();
  end(f);
  if (granted) below().release(f.at_server, std::nullopt, r, now);
  else below().give_up(f.at_server, r, now);
  uncount(f);
}

void synced_server::release(engine::place& p, std::optional<milliseconds> again, receipt* r, time_point now) {
  front& f = made_here(p);
  end(f);
  if (again) {
    begin(f, true, *again);
    again = claim_of(settings_, *again);
  }
  f.at_server.at_least = f.at_least;
  f.at_server.kept_until = f.kept_until;
  below().release(f.at_server, again, r, now);
  f.at_server.kept_until = time_point::min();
  uncount(f);
}

void synced_server::detach(engine::place& p, time_point now) {
  front& f = made_here(p);
  end(f);
  server_.detach(f.at_server, now);
  uncount(f);
}

void synced_server::renew(std::span<engine::place* const> places, time_point now) {
  for (engine::place* s : places) {
    front& f = made_here(*s);
    if (f.state == place_state::owned) renew(f);
  }
  link_.more(now);
}

error_code synced_server::too_late(engine::place const& p, time_point now) const {
  auto const& f = static_cast<front const&>(p);
  if (f.is_unconfirmed() || f.most >= 0) return not_replicated(f);
  return server_.too_late(f.at_server, now);
}

/// A grant that is under way may wait for the server, and then for the replicas.
duration synced_server::answers_within(engine::place const& p) const noexcept {
  return std::max(server_.answers_within(at_server(p)), link_.acknowledges_within());
}

void synced_server::watch_requests(engine::place& p, time_point now) {
  server_.watch_requests(made_here(p).at_server, now);
}

void synced_server::administer(admin_request& i, admin_events& whose, time_point now) {
  if (i.held_at != nullptr) i.held_at = &at_server(*i.held_at);
  server_.administer(i, whose, now);
}

// ------------------------------------------------------------------------------------------------- from the server

/// A claim. It counts when replicas have it.
void synced_server::granted(engine::place& p, bool pushed, time_point now) {
  front& f = front_of(p);
  f.pushed = pushed;
  f.attempts = 0;
  f.claimed_until = p.deadline;
  timers_.arm(f.timer, f.claimed_until);
  renew(f);
  link_.more(now);
}

void synced_server::busy(engine::place& p, time_point now) {
  front& f = front_of(p);
  end(f);
  up_.busy(f, now);
}

void synced_server::queued(engine::place& p, time_point now) {
  front& f = front_of(p);
  enter(f, place_state::in_line);
  up_.queued(f, now);
}

void synced_server::asked_again(engine::place& p, retry_reason why, time_point now) {
  up_.asked_again(front_of(p), why, now);
}

void synced_server::left(engine::place& p, time_point now) {
  front& f = front_of(p);
  end(f);
  uncount(f);
  up_.left(f, now);
}

void synced_server::failed(engine::place& p, error_code why, time_point now) {
  front& f = front_of(p);
  end(f);
  up_.failed(f, why, now);
}

void synced_server::attempt_failed(engine::place& p, error_code why, time_point now) {
  front& f = front_of(p);
  end(f);
  up_.attempt_failed(f, why, now);
}

/// The hold is lost, or the claim before it was one. Then it is asked for anew.
void synced_server::lost(engine::place& p, time_point now) {
  front& f = front_of(p);
  bool const was_held = f.state == place_state::owned;
  f.timer.cancel();
  if (!was_held && f.state != place_state::leaving) {
    up_.asked_again(f, retry_reason::replicas_missing, now);
    below().ask(p, f.wait, claim_of(settings_, f.lease), now);
    return;
  }
  end(f);
  if (was_held) up_.lost(f, now);
  else up_.left(f, now);
}

void synced_server::requested(engine::place& p, time_point now) {
  front& f = front_of(p);
  if (f.state == place_state::owned) up_.requested(f, now);
}

void synced_server::settled(engine::place& p) {
  front& f = front_of(p);
  if (!std::exchange(f.is_busy, false)) return;
  drop(f);
}

void synced_server::connection_changed(time_point now) {
  if (server_.connected()) connected_at_ = now;
  up_.connection_changed(now);
  link_.more(now);
}

engine::place* synced_server::find(std::string_view name) {
  engine::place* const s = up_.find(name);
  return s == nullptr ? nullptr : &made_here(*s).at_server;
}

engine::place& synced_server::find_or_make(std::string_view name) {
  front& f = made_here(up_.find_or_make(name));
  count(f);
  return f.at_server;
}

engine::place& synced_server::make_permit_place(std::string_view name, engine::permit const& share) {
  front& f = made_here(up_.make_permit_place(name, share));
  count(f);
  return f.at_server;
}

// ------------------------------------------------------------------------------------------------ the acknowledgement

/// With the next batch.
void synced_server::renew(front& f) {
  if (f.is_wanted || f.under_way == f.at_server.id) return;
  f.is_wanted = true;
  ++f.references;
  wanted_.push_back(&f);
}

/// Only where the grant is. During a failover one connection may already lead to the new master, which has not granted
/// it.
bool synced_server::may_use(session const& s) const { return s.run == server_.link().of_session().run; }

/// A first connection to a server that has become a replica, and closes no connections, has nothing to ask that would
/// be refused: renewals go another way.
bool synced_server::follows(time_point since) {
  if (!server_.connected()) return true;  // it is being made
  if (connected_at_ >= since) return false;
  connected_at_ = since;  // asked for once
  out_.drop_connection("leads to another server than the second connection, which is younger");
  return true;
}

void synced_server::gather(std::vector<synced_renewal>& items, time_point now) {
  for (front* const one : std::exchange(wanted_, {})) {
    front& f = *one;
    protocol::server_place& p = f.at_server;
    f.is_wanted = false;
    // Checked at the moment of writing: a place that was released, cancelled or lost since is not renewed.
    bool const may = f.state != place_state::idle && p.state == place_state::owned && f.may_renew(now);
    if (!may) {
      drop(f);
      continue;
    }
    p.lease = f.lease;
    p.asks_for_lease();
    f.under_way = p.id;
    items.push_back({&f, &p, p.id, p.lease, server_.held().fence_is_due(p, now)});
  }
}

void synced_server::synced(sync_link::batch const& b, time_point now) {
  auto const enough = static_cast<std::int64_t>(settings_.sync_replicas);
  for (std::size_t i = 0; i < b.items.size(); ++i) {
    synced_renewal const& one = b.items[i];
    sync_link::result const& r = b.results[i];
    front& f = *static_cast<front*>(one.whose);
    protocol::server_place& p = f.at_server;
    f.under_way = {};
    bool const counts = p.id == one.id && p.state == place_state::owned && f.state != place_state::idle;
    if (counts && r.what == renew_reply::kind::not_mine) {
      server_.held().lose_and_give_back(p, now);
    } else if (counts && r.what == renew_reply::kind::renewed && b.replicas >= enough) {
      acknowledged(f, one.lease, one.keeps_fence, b.written, now);
    } else if (counts) {
      too_few(f, r, b, now);
    }
    drop(f);
  }
}

void synced_server::acknowledged(front& f, milliseconds lease, bool keeps_fence, time_point written, time_point now) {
  protocol::server_place& p = f.at_server;
  time_point const deadline = written + good_for(lease);
  bool const is_held = f.state == place_state::owned;
  server_.held().prolonged(p, written, lease, keeps_fence, now);
  if (!is_held && deadline <= now) return give_back(f, now);
  if (!is_held || deadline > f.deadline) {
    f.deadline = deadline;
    f.valid_from = written;
  }
  f.heard_from = is_held ? std::max(f.heard_from, written) : written;
  if (is_held) return up_.extended(f, now);
  f.timer.cancel();
  enter(f, place_state::owned);
  f.confirmed = true;
  f.fence = p.fence;
  f.chosen = p.chosen;
  f.most = -1;
  up_.granted(f, f.pushed, now);
  if (f.state == place_state::owned) p.kept_until = f.kept_until;
  if (f.state == place_state::owned && p.owned.requested) up_.requested(f, now);
}

void synced_server::too_few(front& f, sync_link::result const& r, sync_link::batch const& b, time_point now) {
  // This connection has ended, or did not know the script.
  bool const unheard = r.why == fault::no_script || r.why == fault::reconnect;
  if (!unheard) ++stats_.sync_short;
  if (f.state == place_state::owned) {
    if (r.why == fault::no_script) renew(f);
    else up_.renewal_failed(f, now);
    return;
  }
  if (!unheard) {
    ++f.attempts;
    f.most = r.what == renew_reply::kind::renewed ? b.replicas : 0;
    if (is_final(r.why)) f.why_not = to_error(r.why, b.words);
  }
  bool const once_more = unheard || (f.attempts < 2 && !f.why_not && f.state != place_state::leaving);
  if (!once_more || now >= f.claimed_until) return give_back(f, now);
  bool const at_once = r.why == fault::none || r.why == fault::no_script;
  if (at_once) renew(f);
  else timers_.arm(f.timer, std::min(f.claimed_until, now + milliseconds{20}));
}

/// The end of the claim, or of a pause before it.
void synced_server::due(front& f, time_point now) {
  keeping const keep{f};
  if (!f.is_unconfirmed()) return;
  if (now >= f.claimed_until) return give_back(f, now);
  timers_.arm(f.timer, f.claimed_until);
  renew(f);
  link_.more(now);
}

/// The grant will not be acknowledged. It is passed on; a waiter asks again, behind all others, a try fails.
void synced_server::give_back(front& f, time_point now) {
  f.timer.cancel();
  f.most = std::max<std::int64_t>(f.most, 0);
  bool const leaves = f.state == place_state::leaving;
  if (f.wait && !leaves && !f.why_not && f.origin.empty()) {
    up_.asked_again(f, retry_reason::replicas_missing, now);
    below().release(f.at_server, claim_of(settings_, f.lease), nullptr, now);
    return;
  }
  error_code const why = not_replicated(f);
  end(f);
  below().release(f.at_server, std::nullopt, nullptr, now);
  if (leaves) up_.left(f, now);
  else if (f.why_not) up_.failed(f, why, now);
  else up_.attempt_failed(f, why, now);
}

error_code synced_server::not_replicated(front const& f) const {
  if (f.why_not) return f.why_not;
  return make_error_code(errc::not_replicated, std::to_string(std::max<std::int64_t>(f.most, 0)) + " of " +
                                                   std::to_string(settings_.sync_replicas) + " replicas" +
                                                   (f.most < 0 ? " so far" : ""));
}

// ---------------------------------------------------------------------------------------------------------- references

void synced_server::end(front& f) {
  enter(f, place_state::idle);
  f.timer.cancel();
}

void synced_server::drop(front& f) {
  --f.references;
  if (f.references == 0 && f.state == place_state::idle) up_.settled(f);
}

/// The server is about to use its place.
void synced_server::count(front& f) {
  if (!std::exchange(f.is_busy, true)) ++f.references;
}

/// The server may no longer have it, without having reported that: the caller checks whether the place is still needed.
void synced_server::uncount(front& f) {
  bool const is_used = f.at_server.state != place_state::idle || f.at_server.references != 0;
  if (!is_used && std::exchange(f.is_busy, false)) --f.references;
}

}  // namespace conch::protocol
