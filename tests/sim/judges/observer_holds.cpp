// How a hold ends: whether it had to, and whether its holder was told in time. For locks of every kind.
#include "sim/judges/observer.hpp"
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/words.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

using phase = engine::acquisition_phase;

std::string in_us(duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(d).count()) + " us";
}

}  // namespace

std::string observer::holder_words(sim_acquisition const& a) {
  return "client " + std::to_string(a.client->number()) + " with fence " + std::to_string(a.fence) + " of lock " +
         std::to_string(a.lock_number);
}

void observer::trouble(nanos until, int client) {
  trouble_until_ = std::max(trouble_until_, until);
  if (client < 0) {
    unwell_until_ = std::max(unwell_until_, until);
  } else {
    nanos& of = unwell_[client];
    of = std::max(of, until);
  }
}

/// Since when nothing keeps the client from renewing; none: something does.
std::optional<nanos> observer::well_since(sim_client const& c, int name) const {
  if (!plan_.may_kill || (plan_.spikes != 0 && !world_.healing())) return std::nullopt;
  link_ptr const l = c.connection(name);
  bool const there = c.up(name) && l != nullptr && !l->cut && l->server_open;
  if (!there || c.paused() || c.is_closed()) return std::nullopt;
  auto const of = unwell_.find(c.number());
  nanos since = std::max(
      {c.up_since(name), c.last_pause_end(), unwell_until_, refused_at_, l->up.stalled_until, l->down.stalled_until});
  if (of != unwell_.end()) since = std::max(since, of->second);
  if (plan_.synced) {
    link_ptr const& sync = c.sync_connection();
    if (sync == nullptr || sync->cut || !sync->server_open || c.synced_since() < 0 || !world_.all_follow())
      return std::nullopt;
    since = std::max({since, c.synced_since(), sync->up.stalled_until, sync->down.stalled_until,
                      world_.all_follow_since(), quick_since()});
  }
  if (since > world_.now()) return std::nullopt;
  return since;
}

/// Since when nothing keeps the client from renewing a hold of that lease. A first connection to what is a replica now
/// is told so by the second one: that is refused its next renewal, connects anew, and waits for 100 ms before the first
/// one is dropped.
std::optional<nanos> observer::well_since(sim_client const& c, int name, std::chrono::milliseconds lease) const {
  auto well = well_since(c, name);
  if (!well || !plan_.synced || world_.is_at_master(*c.connection())) return well;
  nanos const hop = plan_.latency + plan_.jitter + plan_.timer_lateness;
  return std::max(*well, world_.all_follow_since() + lease.count() * millisecond / 3 + 100 * millisecond + 20 * hop);
}

/// P9: its holder is told `stop_margin` before the deadline, or a quarter of what the grant was good for, whichever is
/// less.
time_point observer::to_be_told_by(sim_acquisition const& a) const {
  engine::place const& p = *a.lock->place;
  duration validity = a.deadline() - p.valid_from;
  if (p.confirmed) validity = std::min<duration>(validity, a.lease - protocol::drift_of(a.lease));
  validity = std::max(validity, shortest_validity_);
  return a.deadline() - std::min(a.client->settings().settings.stop_margin, validity / 4);
}

void observer::look_at_hold(sim_acquisition& a) {
  if (a.phase != phase::holding || a.lock == nullptr) return;
  if (a.deadline() != a.seat_deadline) a.prolonged_at = a.client->local_now();
  // An answer that was long on its way may find that the margin has begun.
  a.tell_by = std::max(to_be_told_by(a), a.prolonged_at);
  a.seat_deadline = a.deadline();
  // A renewal is late when half of the time has passed from when it was due to the report of the loss. The client
  // rounds both to 1/64 of the validity: down, where its clock shows what is not negative.
  engine::place const& p = *a.lock->place;
  config const& settings = a.client->settings().settings;
  duration validity = a.deadline() - p.valid_from;
  if (p.confirmed) validity = std::min<duration>(validity, a.lease - protocol::drift_of(a.lease));
  bool const often = p.confirmed && settings.renew_every > duration::zero();
  duration const due_after = often ? std::min(settings.renew_every, validity / 2) : validity / 3;
  duration const lost_after = validity - std::min(settings.stop_margin, validity / 4);
  time_point const late = a.deadline() - validity + (due_after + lost_after) / 2;
  duration const rounding = 2 * std::max<duration>(validity / 64, std::chrono::milliseconds{1});
  a.warn_from = late - rounding;
  a.warn_by = late + rounding;
}

/// P9: no hold is lost because of a late renewal without a warning, none is warned of while its renewal is not late,
/// and a renewal withdraws the warning.
void observer::warned_in_time(sim_acquisition const& a) const {
  sim_client const& c = *a.client;
  bool const is_renewed = !a.fixed && a.max_hold == duration::max();
  bool const other_lease = a.extended_at > a.prolonged_at;
  if (!is_renewed || other_lease || c.is_closed() || c.paused() || c.last_pause_end() == world_.now()) return;
  duration const slack{plan_.timer_lateness + plan_.timer_lateness / 50 + 100 * microsecond};
  if (!a.warned && c.local_now() > std::max(a.warn_by, a.prolonged_at) + slack)
    throw violation{9, holder_words(a) + " is not warned, although its renewal is late, and was " +
                           in_us(c.local_now() - a.warn_by) + " ago"};
  if (a.warned && c.local_now() < a.warn_from)
    throw violation{9, holder_words(a) + " is warned, although its renewal is not late for another " +
                           in_us(a.warn_from - c.local_now())};
}

/// P13: when the delay after the loss of that hold is over by the server's clock. It follows the moment until which the
/// holder believes in it.
std::int64_t observer::end_of_delay(sim_acquisition const& a) const {
  duration const delay = a.client->settings().settings.lock_delay;
  if (delay == duration::zero()) return 0;
  nanos const end = a.client->true_time(a.seen_deadline);
  return world_.server_us(end) / 1000 + std::chrono::duration_cast<std::chrono::milliseconds>(delay).count();
}

/// The end of a client is a release of all that it still holds.
void observer::note_delay(sim_acquisition const& a) {
  if (a.client->is_closed() || is_disowned(a)) return;
  lock_watch& w = watch(a.lock_number);
  w.delayed_until_ms = std::max(w.delayed_until_ms, end_of_delay(a));
  // Those that wait are due the lock when the server lets it go.
  lock_state const is = look(a.lock_number);
  if (end_of_delay(a) != 0 && is.owned && is.owner == owner_id(a))
    w.last_end = std::max(w.last_end, world_.true_time_of_server_ms(is.expires_ms));
}

void observer::not_within_delay(int name, std::string_view owner) const {
  lock_watch const& w = locks_[static_cast<std::size_t>(name)];
  std::int64_t const now_ms = world_.server_us(world_.now()) / 1000;
  std::int64_t until = w.delayed_until_ms;
  for (sim_acquisition const* a : w.active) {
    bool const is_over = a->phase == phase::holding || a->phase == phase::lost;
    if (is_over && owner_id(*a) != owner && !a->client->is_closed() && !is_disowned(*a))
      until = std::max(until, end_of_delay(*a));
  }
  if (now_ms >= until) return;
  throw violation{13, std::string{owner} + " became the owner of lock " + std::to_string(name) + " " +
                          std::to_string(until - now_ms) + " ms before the delay after a loss was over"};
}

/// P14: when the minimum interval is over that the holder asked for, by the server's clock. It counts from its grant;
/// one that is handed on in memory is granted now.
void observer::note_interval(sim_acquisition const& a) {
  if (a.at_least.count() == 0 || is_disowned(a)) return;
  lock_watch& w = watch(a.lock_number);
  bool const by_server = a.fence % engine::hand_offs_per_grant == 0 && w.granted_to == owner_id(a);
  std::int64_t const granted_us = by_server ? w.granted_us : world_.server_us(world_.now());
  w.interval_until_us = granted_us + std::chrono::duration_cast<std::chrono::microseconds>(a.at_least).count();
  w.interval_of = owner_id(a);
}

void observer::not_within_interval(int name, std::string const& who, std::string_view owner) const {
  lock_watch const& w = locks_[static_cast<std::size_t>(name)];
  std::int64_t const now_us = world_.server_us(world_.now());
  if (now_us >= w.interval_until_us || owner == w.interval_of) return;
  throw violation{14, who + " of lock " + std::to_string(name) + " " + std::to_string(w.interval_until_us - now_us) +
                          " us before the minimum interval since the grant of " + w.interval_of + " was over"};
}

/// A caller that cancelled with more than "stop waiting" does not want a grant that comes after all.
void observer::not_after_giving_up(sim_acquisition const& a) const {
  using type = engine::cancel_type;
  bool const gave_up =
      (a.cancelled && a.cancel_as != type::total) || (a.cancelled_again && a.cancel_again_as != type::total);
  if (gave_up)
    throw violation{6, "client " + std::to_string(a.client->number()) + " was granted lock " +
                           std::to_string(a.lock_number) + " after it had given it up"};
}

void observer::told_in_time(sim_acquisition const& a) const {
  sim_client const& c = *a.client;
  if (c.paused() || c.last_pause_end() == world_.now()) return;
  duration const slack{plan_.timer_lateness + plan_.timer_lateness / 50 + 100 * microsecond};
  // Where another lease is asked for, and the deadline has not moved yet, the margin is that of the one lease or of the
  // other.
  time_point const by = a.extended_at > a.prolonged_at ? a.seat_deadline : a.tell_by;
  if (c.local_now() > by + slack) {
    throw violation{9, holder_words(a) + " was not told of its loss by its margin before the deadline, " +
                           in_us(a.seat_deadline - by) + ", but " + in_us(c.local_now() - by) + " later"};
  }
}

/// A hold ends before its time only if the server no longer has it, and by its own clock only if it could not be
/// renewed.
void observer::needless_loss(sim_acquisition const& a, bool disowned, bool server_has_it) const {
  sim_client const& c = *a.client;
  if (disowned || c.is_closed()) return;
  bool const in_time = c.local_now() >= a.tell_by;
  if (!in_time && server_has_it) {
    throw violation{9, holder_words(a) + " was told of a loss, " + in_us(a.tell_by - c.local_now()) +
                           " too early, and the server has it still"};
  }
  if (!in_time || a.fixed || a.max_hold != duration::max() || !server_has_it) return;
  auto const well = well_since(c, a.lock_number, a.lease);
  if (!well) return;
  nanos const hop = plan_.latency + plan_.jitter + plan_.timer_lateness;
  nanos const longest_pause = std::max<nanos>(plan_.longest_lease() / 30, 20 * millisecond);
  // A deadline counts from before a renewal was written, and is reported one WAIT later. The next renewal comes after a
  // third of the lease, and may find a batch under way: three WAITs must fit between that third and the margin before
  // the end, a quarter (3 / (3/4 - 1/3) = 7.2).
  if (plan_.synced && a.lease.count() * millisecond < 8 * time_of_a_wait()) return;
  nanos const acknowledged = plan_.synced ? c.settings().settings.sync_timeout.count() + 2 * time_of_a_wait() : 0;
  // Likewise where its key is on its way, and what is left when the first of its renewals is due is less than a quarter
  // of the lease.
  nanos const lease = a.lease.count() * millisecond;
  if (plan_.shards != 0 && trouble_until_ >= world_.now() - lease && lease < 4 * world_.time_to_reroute()) return;
  // Where its key may be at a node without a connection, it is put off once more.
  nanos const elsewhere = plan_.shards != 0 ? world_.time_to_reroute() : 0;
  nanos const needed = 10 * hop + longest_pause * 11 / 10 + 5 * millisecond + acknowledged + elsewhere;
  if (std::max(*well, a.granted_at) + needed < c.true_time(a.tell_by)) {
    throw violation{9, holder_words(a) + " lost it because it was not renewed, although all had been well for " +
                           std::to_string((world_.now() - *well) / millisecond) + " ms"};
  }
}

/// An extended hold is good for as long as was asked for. The end of an extension says what was, and comes in time.
void observer::extended(sim_acquisition& a, bool is_held, error_code why) {
  ++extensions_;
  if (is_held && !why) history_.extended(a, a.extension_asked_at, world_.now());
  sim_client const& c = *a.client;
  std::string const who =
      holder_words(a) + ", which asked for another lease " + in_us(c.local_now() - a.extended_at) + " ago, ";
  nanos const waited = world_.now() - std::exchange(a.extension_asked_at, -1);
  if (waited > world_.now()) throw violation{11, who + "was answered twice"};
  nanos const timeout = c.settings().settings.command_timeout.count();
  if (why == errc::unreachable) {
    if (c.local_now() - a.extended_at < duration{timeout})
      throw violation{11, who + "was told too early that there is no answer"};
    auto const well = well_since(c, a.lock_number, a.lease);
    // The WAIT of a batch from before all was well takes all of its time, and this renewal comes behind it. And within
    // the command time-out it waits for the batch that is under way, and for its own.
    nanos const acknowledged = plan_.synced ? c.settings().settings.sync_timeout.count() + 2 * time_of_a_wait() : 0;
    nanos const needed = timeout / 2 + 10 * (plan_.latency + plan_.jitter + plan_.timer_lateness) + acknowledged;
    bool const can_be = !plan_.synced || timeout > 3 * time_of_a_wait();
    if (well && can_be && std::max(*well, a.granted_at) + needed < world_.now() - timeout)
      throw violation{4, who + "was told that there is no answer, although all was well"};
    return;
  }
  if (why && why != errc::not_held)
    throw violation{11, who + "was told of an error that it cannot have: " + why.message()};
  if (is_held && why) throw violation{11, who + "was told that it is held, and an error"};
  if (is_held != (a.phase == phase::holding) && !why) throw violation{11, who + "was told the opposite of what is so"};
  if (is_held && a.deadline() < a.extended_at + protocol::good_for(a.lease))
    throw violation{3, who + "was told that it has it, and has it for less"};
}

/// P11: an error says what was.
void observer::failed(sim_acquisition const& a, error_code const& why) {
  sim_client const& c = *a.client;
  std::string const who = "client " + std::to_string(c.number()) + " was refused lock " +
                          std::to_string(a.lock_number) + " (" + why.message() + ")";
  auto const must = [&](bool so, char const* although) {
    if (!so) throw violation{11, who + ", although " + although};
  };
  if (a.cancelled && why == engine::cancelled()) return;
  if (why == errc::lost && a.adopts) {
    std::string const& origin = a.adopts->origin;
    owner_fences const owners = owners_of(a.lock_number);
    auto const from = owners.find(origin.substr(0, origin.find(' ')));
    bool const rewound = plan_.has({fault_plan::kind::failover, fault_plan::kind::step_back});
    must(rewound || from == owners.end() || from->first + " " + std::to_string(from->second) != origin,
         "what it was told of is still there");
    return;
  }
  if (fence_spoilt_once(a.lock_number) &&
      (why == errc::protocol || why == errc::wrong_type || why == errc::server_refused))
    return;
  if (why == errc::timed_out) {
    must(a.until <= c.local_now() || a.busy_is_late, "its time was not over");
  } else if (why == errc::not_replicated) {
    must(plan_.synced, "it does not ask the replicas");
    not_replicated(a, why);
  } else if (why == errc::closed) {
    must(c.is_closed(), "its client is open");
  } else if (why == errc::unreachable) {
    // What was asked for an earlier acquire may be answered with an error now. A client that was paused receives it
    // when it resumes.
    nanos const under_way = c.settings().settings.command_timeout.count() + plan_.spike;
    bool const stood_still = c.last_pause_end() != 0 && c.last_pause_end() >= a.asked_at - under_way;
    bool const connected = c.up(a.lock_number) && c.up_since(a.lock_number) <= a.asked_at &&
                           refused_at_ < a.asked_at - under_way && !stood_still;
    // One attempt ends some time, also where no grant arrives within its lease.
    bool const grants_too_late = a.once && (plan_.spikes != 0 || plan_.has({fault_plan::kind::slow}));
    // In a Cluster it may have been told that another node has the slot.
    bool const redirected =
        redirected_at_ >= a.asked_at - under_way || (plan_.shards != 0 && trouble_until_ >= a.asked_at);
    // Or it has no connection to where it believes the slot to be, and no time to find out where that is.
    bool const on_the_way = plan_.shards != 0 && c.keeper_of(a) != c.connection(a.lock_number) &&
                            world_.now() - a.asked_at <= world_.time_to_reroute();
    // At the end of a wait a server that has said nothing for longer than it usually takes counts as one that cannot be
    // reached.
    nanos const silence = a.silence_when_left >= 0 ? a.silence_when_left : world_.now() - c.heard_at();
    bool const silent =
        a.until != time_point::max() && a.until <= c.local_now() && (plan_.shards != 0 || silence >= 90 * millisecond);
    must(!connected || grants_too_late || redirected || on_the_way || silent, "the server was there all the time");
  } else if (why == errc::wrong_type) {
    must(spoilt(a.lock_number), "nobody has written anything else to its key");
  } else if (why == errc::access_denied) {
    // The connection that was denied something is used until a client asks.
    must(denied_since(c, a.asked_at) || (denied_until_ >= 0 && c.up_since() <= denied_until_),
         "nobody has denied it anything");
  } else if (why == errc::server_refused) {
    must(refuses_ || denied_since(c, a.asked_at), "the server refused nothing");
  } else {
    must(false, "nothing of the kind has happened");
  }
  // P4: while nothing is wrong an acquire ends in a grant, unless its own user ends it. The patience with an absent
  // server may be shorter than the first connection takes.
  bool const too_late = a.until != time_point::max() || (a.busy_is_late && why == errc::timed_out);
  bool const ended = why == errc::unreachable || a.cancelled || too_late || c.is_closed();
  if (plan_.calm() && !ended) throw violation{4, who + ", although nothing was wrong"};
}

void observer::denied(nanos until) { denied_until_ = std::max(denied_until_, until); }

/// Some answer of the time in which the server denied something may have come after that moment.
bool observer::denied_since(sim_client const& c, nanos asked_at) const {
  if (denied_until_ < 0) return false;
  nanos const heard = std::max({denied_until_, trouble_until_, c.last_pause_end()}) + plan_.spike +
                      4 * (plan_.latency + plan_.jitter) + 5 * millisecond;
  return heard >= asked_at;
}

/// The same for what an operator asks.
void observer::order_failed(sim_client const& c, std::string const& who, int name, nanos asked_at,
                            error_code const& why) const {
  auto const must = [&](bool so, char const* although) {
    if (!so) throw violation{11, who + " failed (" + why.message() + "), although " + although};
  };
  if (fence_spoilt_once(name) && (why == errc::protocol || why == errc::wrong_type || why == errc::server_refused))
    return;
  if (why == errc::unreachable) {
    // Asked at once on a new connection, it would have been answered by now.
    auto const well = well_since(c, name);
    nanos const needed = 10 * (plan_.latency + plan_.jitter) + 100 * millisecond + 5 * millisecond;
    must(!well || world_.now() - std::max(*well, asked_at) < needed, "the server was there");
  } else if (why == errc::access_denied) {
    must(denied_since(c, asked_at) || (denied_until_ >= 0 && c.up_since() <= denied_until_),
         "nobody has denied it anything");
  } else if (why == errc::server_refused) {
    must(refuses_ || denied_since(c, asked_at), "the server refused nothing");
  } else if (why == errc::wrong_type) {
    must(spoilt(name), "nobody has written anything else to its key");
  } else {
    must(c.is_closed(), "nothing of the kind has happened");
  }
}

void observer::told_busy(int name, std::string_view id) { busy_at_[{name, std::string{client_of(id)}}] = world_.now(); }

/// P11: a try finds a lock busy because a script said so, or because another acquire of this process has it or asks for
/// it.
void observer::found_busy(sim_acquisition const& a) {
  if (a.who->several != nullptr) return;  // what comes behind one that is busy is called busy
  history_.found_busy(a);
  auto const told = busy_at_.find({a.lock_number, a.client->id()});
  if (told != busy_at_.end() && told->second >= a.asked_at) return;
  if (a.permit)
    throw violation{11, "a permit of lock " + std::to_string(a.lock_number) + " was called busy without a question"};
  protocol::server_place const* const place = a.client->place(a.lock_number);
  if (place != nullptr && place->state != engine::place_state::idle) return;
  auto const of_this_process = [&](sim_acquisition const* other) { return other != &a && other->client == a.client; };
  lock_watch const& w = watch(a.lock_number);
  bool const others = std::any_of(w.active.begin(), w.active.end(), of_this_process) ||
                      std::any_of(w.waiting.begin(), w.waiting.end(), of_this_process);
  if (!others)
    throw violation{11, "client " + std::to_string(a.client->number()) + " called lock " +
                            std::to_string(a.lock_number) + " busy without a question"};
}

bool observer::fence_spoilt_once(int name) const { return plan_.has(fault_plan::kind::spoil_fence, name); }

bool observer::spoilt(int name) const { return plan_.has(fault_plan::kind::clobber_lock, name); }

}  // namespace conch::sim
