// What clients are told of their holds, and when: losses, releases, places in line.
#include "sim/worlds/quorum_world.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

constexpr std::int64_t hand_offs_per_grant = engine::hand_offs_per_grant;
/// Timers of this world fire when they are due.
constexpr duration lateness = std::chrono::microseconds{200};

std::string words_of(quorum_hold const& h) {
  return "client " + std::to_string(h.client->number) + " with lock " + std::to_string(h.name);
}

}  // namespace

/// Nothing was wrong with the server, the client, and what connects them since before then.
bool quorum_world::well(quorum_client const& c, int which, nanos since) const {
  server const& s = *servers_[static_cast<std::size_t>(which)];
  return s.up && s.disturbed < since && c.alive && !c.paused && c.disturbed < since && linked(c.number, which, since);
}

/// May it vote, as that client sees it? The age of a server counts from when the client, which may have been paused,
/// learns of it.
bool quorum_world::may_vote(quorum_client const& c, int which, nanos since) const {
  nanos const from = servers_[static_cast<std::size_t>(which)]->votes_from;
  bool const heard_late = from != 0 && c.disturbed > from - youth();
  return (heard_late ? c.disturbed + youth() : from) <= since;
}

std::size_t quorum_world::well_servers(quorum_client const& c, nanos since, quorum_hold const* with_votes_of) const {
  std::size_t n = 0;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    int const which = static_cast<int>(i);
    bool const counts =
        with_votes_of == nullptr ||
        is_vote_of(*with_votes_of, servers_[i]->locks[static_cast<std::size_t>(with_votes_of->name)].owner);
    if (counts && may_vote(c, which, since) && well(c, which, since)) ++n;
  }
  return n;
}

/// How long a majority that is well is waited for, and then no longer: 16 round trips as that client has measured them,
/// also of what was late or held up; a few late answers may make it longer.
nanos quorum_world::patience(quorum_client const& c) const {
  nanos const usual = 12 * millisecond + 34 * (latency + jitter + slowest()) + (calm ? 0 : 80 * millisecond);
  if (calm) return usual;
  nanos measured = 0;
  for (auto const& one : c.ways_) measured = std::max<nanos>(measured, one->protocol->as_votes().round_trip().count());
  return std::max(usual, 32 * measured);
}

/// The end of a wait that is asked for comes within a command time-out; at once if it is terminal; and does not wait
/// for a minority that is away.
void quorum_world::answered_in_time(quorum_hold const& h) const {
  quorum_client const& c = *h.client;
  if (c.paused || c.disturbed >= h.asked_at) return;
  nanos const most = c.settings.command_timeout.count() * 102 / 100 + millisecond;
  auto const allowed = [&](nanos since) {
    return calm || well_servers(c, since - lease / 4) >= needed ? std::min(most, patience(c)) : most;
  };
  if (h.cancelled) {
    nanos const taken = now_ - h.cancelled_at;
    if (taken > (h.cancelled_as == engine::cancel_type::terminal ? 0 : allowed(h.cancelled_at))) {
      throw violation{
          4, words_of(h) + " got its answer " + std::to_string(taken / microsecond) + " us after it cancelled"};
    }
  } else if (h.once) {
    if (well_servers(c, h.asked_at - lease / 4) >= needed && now_ - h.asked_at > 2 * patience(c)) {
      throw violation{4, words_of(h) + " has tried for " + std::to_string((now_ - h.asked_at) / microsecond) + " us"};
    }
  } else if (h.until != time_point::max()) {
    nanos const since = c.true_time(std::max(h.until, c.local_at(h.asked_at)));
    if (now_ - since > allowed(since)) {
      throw violation{4, words_of(h) + " got its answer " + std::to_string((now_ - since) / microsecond) +
                             " us after its time-out"};
    }
  }
}

/// P4: of a lock that nobody has, when all faults are long over; P10: what is free is had by one round trip.
void quorum_world::waited_too_long(quorum_hold const& h) {
  watch const& w = locks_[static_cast<std::size_t>(h.name)];
  bool const agreed = h.client->stats.fence_rounds != h.fence_rounds;  // a second round, which strict fences may need
  if (h.alone && !agreed && now_ - h.asked_at > 2 * (latency + jitter) + 100 * microsecond) {
    throw violation{10, words_of(h) + " got the free lock, which nobody else asked for, after " +
                            std::to_string((now_ - h.asked_at) / microsecond) + " us"};
  }
  if (calm || steps_of_clocks || !w.active.empty()) return;
  nanos first = h.asked_at;
  for (quorum_hold const* one : w.waiting) first = std::min(first, one->asked_at);
  nanos const idle = now_ - std::max({w.free_since, first, trouble_until_});
  // The lease of one that died, the claims of those that were next and died too, and what is told late.
  nanos const bound = lease + 3 * claim + lease / 4;
  if (idle > bound) {
    throw violation{4, words_of(h) + " waited for " + std::to_string(idle / millisecond) +
                           " ms, all faults being over, while nobody had it"};
  }
}

/// A server that has had time enough to be given the lock again, has it.
void quorum_world::mended(quorum_hold const& h) {
  quorum_client const& c = *h.client;
  nanos const since = std::max(h.granted_at, trouble_until_);
  bool const alone = locks_[static_cast<std::size_t>(h.name)].active.size() == 1 && !h.superseded;
  if (!h.full || steps_of_clocks || !alone || now_ - since < lease) return;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (!well(c, static_cast<int>(i), since) || !may_vote(c, static_cast<int>(i), since)) continue;
    patrol(static_cast<int>(i));
    seen_lock const& there = servers_[i]->locks[static_cast<std::size_t>(h.name)];
    if (there.owner.empty() && there.since < now_ - lease) {
      throw violation{
          4, "server " + std::to_string(i) + " was never given the lock that " + words_of(h) + " has had for a lease"};
    }
  }
}

/// Not one of an earlier hold, which is still to be given back.
bool quorum_world::is_vote_of(quorum_hold const& h, std::string_view id) {
  return id.starts_with(h.client->id + "." + std::to_string(h.ticket));
}

/// A script of its own has just shown it, and made it last: what another meets may be about to end.
void quorum_world::has_vote(quorum_hold& h, int which) {
  nanos& since = h.votes_since[static_cast<std::size_t>(which)];
  if (since == 0 || !well(*h.client, which, since)) since = now_;
}

/// Told that it lost the lock: not while a majority keeps it, and not later than promised.
void quorum_world::lost(quorum_hold& h) {
  quorum_client const& c = *h.client;
  if (!h.active) return;
  history_.lost(h.in_history, now_);
  if (c.disturbed != now_ && c.local() > h.tell_by) {
    throw violation{9, words_of(h) + " is told of its loss " + std::to_string((c.local() - h.tell_by).count() / 1000) +
                           " us later than promised"};
  }
  if (forgot || h.superseded || h.brief || slow) return;  // a slow one may be too late
  std::size_t kept = 0;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    nanos const since = h.votes_since[i];
    bool const heard = now_ - since > latency + jitter + spike;
    // one that has just started may not vote, whichever client owns the lock there
    int const which = static_cast<int>(i);
    if (since != 0 && heard && may_vote(c, which, since) && well(c, which, since)) ++kept;
  }
  if (kept >= needed)
    throw violation{10,
                    words_of(h) + " lost it although nothing was wrong with " + std::to_string(kept) + " of its votes"};
}

/// The end is told before it comes: by the stop_margin, or a quarter of what the hold is good for.
void quorum_world::told_in_time(quorum_hold& h) {
  quorum_client const& c = *h.client;
  time_point const now = c.local();
  if (h.deadline() != h.seen_deadline) {
    h.seen_deadline = h.deadline();
    history_.good_until(h.in_history, c.true_time(h.seen_deadline));
    h.full = h.seen_deadline > now + duration{claim};  // a claim is never good for that long
    duration const left = h.seen_deadline - h.granted;
    if (h.granted_at == now_) h.brief = left < duration{24 * (latency + jitter) + (calm ? 0 : 60 * millisecond)};
    if (h.full) h.brief = false;
    auto const good_for = [](duration granted) { return granted - protocol::drift_of(granted); };
    duration const of = h.full ? good_for(h.least_lease) : std::min(left, good_for(duration{claim}));
    duration const margin = std::min(c.settings.stop_margin, of / 4);
    // A vote that is gone may move the end up.
    h.tell_by = std::max(h.seen_deadline - margin, now) + lateness;
  } else if (!c.paused && c.disturbed != now_ && now > h.tell_by) {
    throw violation{9, words_of(h) + " has not been told of its loss, " +
                           std::to_string((now - h.tell_by).count() / 1000) + " us after it was promised"};
  }
}

/// P3: a client that is told that the hold has another lease has it for that long. The answer comes within a command
/// time-out, and is true.
void quorum_world::extended(quorum_hold& h, bool is_held, error_code why) {
  quorum_client const& c = *h.client;
  std::string const who = words_of(h) + ", which asked for another lease, ";
  if (h.extension_asked_at < 0) throw violation{11, who + "was answered twice"};
  nanos const since = std::exchange(h.extension_asked_at, -1);
  nanos const timeout = c.settings.command_timeout.count();
  if (why == errc::unreachable) {
    if (c.local() - h.extended_at < duration{timeout})
      throw violation{11, who + "was told too early that there is no answer"};
    // A server whose vote another client has cannot extend it.
    bool const all_well = well_servers(c, since - timeout, &h) >= needed && !c.paused && c.disturbed < since;
    if (all_well && !slow && !forgot && !h.superseded)
      throw violation{4, who + "was told that there is no answer, although a majority is well"};
    return;
  }
  if (why && why != errc::not_held)
    throw violation{11, who + "was told of an error that it cannot have: " + why.message()};
  if (is_held && why) throw violation{11, who + "was told that it is held, and an error"};
  if (is_held != (h.phase == engine::acquisition_phase::holding) && !why)
    throw violation{11, who + "was told the opposite of what is so"};
  // A renewal, which may have to wait for one that was under way, and all servers know the script by then or are told
  // it.
  nanos const renewed = 8 * (latency + jitter) + 4 * millisecond;
  if (is_held && calm && now_ - since > renewed) {
    throw violation{
        4, who + "was told so after " + std::to_string((now_ - since) / microsecond) + " us, although nobody is ill"};
  }
  if (is_held && h.deadline() < h.extended_at + protocol::good_for(h.lease))
    throw violation{3, who + "was told that it has it, and has it for less"};
}

void quorum_world::checked(quorum_client const& c) {
  bool moved = false;  // a deadline
  for (auto const& one : c.coroutines_) {
    if (one.hold == nullptr || !one.hold->active || one.hold->told) continue;
    moved = moved || one.hold->deadline() != one.hold->seen_deadline;
    told_in_time(*one.hold);
  }
  if (moved) judge_holds();
}

int quorum_world::named(std::string_view lock_name) const {
  for (int i = 0; i < names; ++i) {
    if (lock_names_[static_cast<std::size_t>(i)] == lock_name) return i;
  }
  return -1;
}

/// P5: every question shows the ticket of the longest waiter in that process, and that stays the same.
void quorum_world::writes(quorum_client& c, protocol::acquire_command const& what) {
  auto const in_id = static_cast<std::int64_t>(what.id.count) / protocol::attempts_per_ticket;
  if (what.ticket != in_id) {
    throw violation{5, "client " + std::to_string(c.number) + " asks with the ticket " + std::to_string(what.ticket) +
                           " under the id " + engine::to_text(what.id)};
  }
  if (!what.wait) return;
  int const name = named(what.name);
  quorum_hold const* first = nullptr;
  for (auto const& one : c.coroutines_) {
    quorum_hold const* const h = one.hold.get();
    if (h == nullptr || h->name != name) continue;
    // A vote that a hold lacks is asked for with its own ticket, even when it has ended and is not yet given back.
    bool const waits = h->waiting && !h->cancelled && !h->once && h->until > c.local();
    if (!waits) return;
    if (first == nullptr || h->serial < first->serial) first = h;
  }
  if (first == nullptr) return;
  // Nor does the first waiter show a ticket while its client still has the lock of the hold before, to hand it on.
  if (first->lock != nullptr && first->lock->place->state == engine::place_state::owned) return;
  auto& shown = c.shown_[static_cast<std::size_t>(name)];
  if (shown.serial == first->serial && shown.ticket != what.ticket) {
    throw violation{5, "client " + std::to_string(c.number) + " lost its place in line for lock " +
                           std::to_string(name) + ": its ticket was " + std::to_string(shown.ticket) + " and is " +
                           std::to_string(what.ticket)};
  }
  shown = {what.ticket, first->serial};
}

/// About to be asked for.
void quorum_world::releases(quorum_hold& h) {
  quorum_client& c = *h.client;
  h.released_at = now_;
  h.patience = patience(c);
  h.released_valid = h.active && !h.told && c.local() < h.deadline();
  if (!h.released_valid) return;
  locks_[static_cast<std::size_t>(h.name)].releases.push_back(
      {&c, c.process, h.serial, id_text{c.id + "." + std::to_string(h.ticket)}, h.fence / hand_offs_per_grant, now_});
}

/// P7: what a release says is what a majority of the servers did. `at_once`: it was handed on in memory, or came too
/// late.
void quorum_world::release_answered(quorum_hold& h, bool at_once, bool was_held, bool failed) {
  // A client that a majority has not told says so too, of a hold that some servers had.
  history_.release_answered(h.in_history, was_held && !failed ? history::outcome::held : history::outcome::unknown,
                            now_);
  bool const disturbed = h.client->paused || h.client->disturbed >= h.released_at;
  // As long as the client measured it when it released: what was slow then may be quick by now.
  nanos const longest = std::max(h.patience, patience(*h.client));
  if (!disturbed && now_ - h.released_at > longest && well_servers(*h.client, h.released_at - lease / 4) >= needed) {
    throw violation{4, words_of(h) + " was told " + std::to_string((now_ - h.released_at) / microsecond) +
                           " us after it released it"};
  }
  auto& releases = locks_[static_cast<std::size_t>(h.name)].releases;
  auto const at = std::find_if(releases.begin(), releases.end(), [&](release_watch const& one) {
    return one.client == h.client && one.process == h.client->process && one.serial == h.serial;
  });
  if (at == releases.end()) {
    if (was_held) throw violation{7, words_of(h) + " released it too late, and was told that it still had it"};
    return;
  }
  release_watch const one = *at;
  if (at_once || failed) {
    releases.erase(at);
    if (at_once && !was_held) throw violation{8, words_of(h) + " handed it on, and was told that it had lost it"};
    return;
  }
  if (!was_held) {
    releases.erase(at);
    std::size_t told = 0;  // servers whose answer was not lost
    for (std::size_t i = 0; i < servers_.size(); ++i)
      told += (one.known >> i & 1U) != 0 && well(*h.client, static_cast<int>(i), h.released_at) ? 1 : 0;
    if (told >= needed)
      throw violation{8, words_of(h) + " released it in time at a majority, and was told that it had lost it"};
    return;
  }
  // Stragglers count as those that had it.
  constexpr nanos all_heard = 100 * millisecond;
  after(all_heard, [this, name = h.name, client = one.client, process = one.process, serial = one.serial] {
    auto& all = locks_[static_cast<std::size_t>(name)].releases;
    auto const it = std::find_if(all.begin(), all.end(), [&](release_watch const& o) {
      return o.client == client && o.process == process && o.serial == serial;
    });
    if (it == all.end()) return;
    release_watch const last = *it;
    all.erase(it);
    if (client->process != process || spiked_ >= last.since) return;
    std::size_t may_have = 0;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      if ((last.mine >> i & 1U) != 0 || !well(*client, static_cast<int>(i), last.since)) ++may_have;
    }
    if (may_have < needed) {
      throw violation{7, "client " + std::to_string(client->number) + " was told that it released lock " +
                             std::to_string(name) + " in time, and " + std::to_string(may_have) +
                             " servers only can have had it for him"};
    }
  });
}

}  // namespace conch::sim
