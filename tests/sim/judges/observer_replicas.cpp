// A master and its replicas. P1 has one exception: a hold of which the master has nothing since a replica took over
// that had missed it, or that a former master has granted or renewed since. It ends when its client has asked the
// master.
#include "sim/judges/observer.hpp"
#include "sim/judges/script_calls.hpp"
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/clocks.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/words.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

constexpr std::int64_t hand_offs_per_grant = 4096;

}  // namespace

void observer::roles_changed() {
  for (lock_watch& w : locks_) w.passed = {};
}

/// The master has this grant, for as long as its holder believes in it.
bool observer::has_it(sim_acquisition const& a) const {
  lock_state const is = look(a.lock_number);
  if (!is.owned || is.owner != owner_id(a) || is.fence != a.fence / hand_offs_per_grant) return false;
  return a.client->true_time(a.deadline()) <= world_.true_time_of_server_ms(is.expires_ms);
}

/// The holder's last answer is from another server, or from before this one was the master.
bool observer::may_be_orphan(sim_acquisition const& a) const {
  nanos const promoted_at = world_.promoted_at(world_.shard_of(a.lock_number));
  if (promoted_at < 0 || a.lock == nullptr) return false;
  link_ptr const l = a.client->keeper_of(a);
  if (l == nullptr || l->node != world_.decides(a.lock_number)) return true;
  return a.client->true_time(a.lock->place->valid_from) <= promoted_at;
}

/// `heard`: its client has just been told that it has it.
void observer::look_for_orphan(sim_acquisition& a, bool heard) {
  if (plan_.replicas == 0 || plan_.synced || !is_believed(a)) return;  // synced: P1 and P3 have no exception
  if (link_ptr const l = a.client->keeper_of(a); l != nullptr && heard) {
    a.told_by = l->node;
    a.told_in = world_.term_of(l->node);
  }
  if (has_it(a)) {
    orphans_.erase(owner_id(a));
    a.orphaned_at = -1;
    history_.orphaned(a, -1);
    return;
  }
  // As its client was told: a hold that is not renewed may end earlier, and the one that it is handed on to later.
  time_point const until = a.lock != nullptr ? a.lock->place->deadline : a.deadline();
  auto const known = orphans_.find(owner_id(a));
  if (may_be_orphan(a) || (known != orphans_.end() && until <= known->second)) {
    orphans_[owner_id(a)] = until;
    if (a.orphaned_at < 0) a.orphaned_at = world_.now();
  } else {
    a.orphaned_at = -1;  // so the master itself has granted or renewed it, and has it not
  }
  // The master has had nothing of it since it is the master, also where its client learns of a renewal only now.
  nanos const promoted_at = world_.promoted_at(world_.shard_of(a.lock_number));
  history_.orphaned(a, a.orphaned_at >= 0 && promoted_at >= 0 ? std::min(a.orphaned_at, promoted_at) : a.orphaned_at);
}

/// What no longer counts at the master was still granted by one server, to one client at a time.
bool observer::same_server_granted(sim_acquisition const& a, sim_acquisition const& other) const {
  bool const orphans = a.orphaned_at >= 0 && other.orphaned_at >= 0;
  return orphans && !forward_ && a.told_in != 0 && a.told_by == other.told_by && a.told_in == other.told_in;
}

void observer::promoted() {
  roles_changed();
  // Where clocks differ by more than may be, that is known, and what comes of it is looked for.
  bool const clocks_agree = plan_.replica_ahead * plan_.replicas <= ahead_at_most(plan_);
  for (lock_watch& w : locks_) {
    for (sim_acquisition* a : w.active) {
      if (plan_.synced && !clocks_agree) continue;
      if (plan_.synced) backed_by_server(*a);
      else look_for_orphan(*a, false);
    }
  }
  if (plan_.synced) return;
  // What is being released may be lost as well, and its release then says so.
  for (auto const& c : world_.clients()) {
    for (auto const& who : c->actors_) {
      for (auto const* slot : {&who->outer, &who->inner}) {
        bool const is_released = *slot != nullptr && !(*slot)->waiting && !(*slot)->active;
        if (is_released) history_.orphaned(**slot, world_.now());
      }
    }
  }
}

/// Nothing but a change of master is wrong with this schedule.
bool observer::only_roles_change() const {
  return plan_.spikes == 0 && std::all_of(plan_.faults.begin(), plan_.faults.end(),
                                          [](fault_plan const& f) { return f.what == fault_plan::kind::promotion; });
}

bool observer::is_well(sim_client const& c, std::shared_ptr<link> const& l, nanos since) const {
  if (!c.alive() || c.paused() || c.is_closed() || c.last_pause_end() >= since || plan_.spikes != 0) return false;
  if (l == nullptr || world_.stood_still(*l, since)) return false;
  return c.has(*l) && l->accepted && c.is_up(*l) && !l->cut && l->server_open && l->up.stalled_until < since &&
         l->down.stalled_until < since;
}

/// No hold is believed any more, or again, of which the master has nothing.
void observer::asked_the_master(sim_client const& c, char const* since) const {
  for (lock_watch const& w : locks_) {
    for (sim_acquisition const* a : w.active) {
      if (a->client != &c || a->orphaned_at < 0 || !is_believed(*a) || has_it(*a)) continue;
      throw violation{9, holder_words(*a) + " still believes in it " +
                             std::to_string((world_.now() - a->orphaned_at) / microsecond) +
                             " us after the master lost it, " + since};
    }
  }
}

/// P9: on its connection to the master a client asks at once for all it holds. The master may not know the script yet.
void observer::connected(sim_client& c) {
  link_ptr const& l = c.connection();
  if (plan_.replicas == 0 || world_.promoted_at() < 0 || l == nullptr || !world_.is_at_master(*l)) return;
  nanos const round_trip = 2 * (plan_.latency + plan_.jitter) + plan_.latency + plan_.timer_lateness;  // a slow write
  nanos const turns = (1 + static_cast<nanos>(plan_.names)) * millisecond;
  world_.after(2 * round_trip + turns, [this, client = &c, l, since = world_.now(), master = world_.master()] {
    if (world_.master() == master && is_well(*client, l, since))
      asked_the_master(*client, "on a connection to the new one");
  });
}

/// So the exception is over a connection and two round trips after the client has learned of the change, or the former
/// master has.
void observer::told_of_switch(int client) {
  if (!only_roles_change()) return;
  sim_client const& c = *world_.clients()[static_cast<std::size_t>(client)];
  config const& settings = c.settings().settings;
  nanos const hop = plan_.latency + plan_.jitter + plan_.timer_lateness;
  // An attempt at the old address may be under way, and one at the new may meet a name or an address that says nothing.
  nanos const connecting = 2 * (settings.connect_timeout.count() + settings.reconnect_max.count()) +
                           2 * plan_.connect_time + 20 * hop + (10 + static_cast<nanos>(plan_.names)) * millisecond;
  link_ptr const& l = c.connection();
  // A holder that is not told, and whose connection stays, learns it from the first answer: that to its next renewal.
  bool const stays = plan_.sentinels == 0 && l != nullptr && l->client_open && l->server_open &&
                     !world_.is_at_master(*l) && world_.address_of(client) != l->node && c.up();
  nanos const asks = stays ? plan_.longest_lease() : 0;
  world_.after(asks + connecting, [this, &c, master = world_.master()] {
    if (world_.master() == master && c.alive()) asked_the_master(c, "though its client was told of the new one");
  });
}

/// Each client is told of a new master by the first of the Sentinels that it listens to.
void observer::sentinel_knows(std::size_t sentinel, std::size_t server) {
  if (static_cast<int>(sentinel) >= plan_.listed_sentinels || plan_.spikes != 0) return;
  nanos const hop = plan_.latency + plan_.jitter + plan_.timer_lateness;
  nanos const bound = 4 * hop + millisecond;  // the event, the question, the answer
  for (auto const& each : world_.clients()) {
    sim_client const& c = *each;
    config const& settings = c.settings().settings;
    // It may have to find out first that its connection to the Sentinel has ended.
    nanos const listens = settings.command_timeout.count() +
                          2 * (settings.connect_timeout.count() + settings.reconnect_max.count()) + 20 * hop;
    nanos const since = world_.now() - listens;
    if (!c.alive() || c.paused() || c.last_pause_end() > since || c.started_at() > since) continue;
    bool const cut = std::any_of(plan_.faults.begin(), plan_.faults.end(), [&](fault_plan const& f) {
      return f.what == fault_plan::kind::cut_sentinel && f.client == c.number() &&
             f.name % plan_.sentinels == static_cast<int>(sentinel) && f.at + f.length >= since &&
             f.at <= world_.now() + bound;
    });
    if (cut) continue;
    world_.after(bound, [this, &c, process = c.process(), since, server] {
      if (!c.alive() || c.process() != process || c.paused() || c.last_pause_end() > since) return;
      if (world_.order_of(world_.address_of(c.number())) >= world_.order_of(server)) return;
      throw violation{4, c.id() + " does not hear of a new master, though a Sentinel knows it"};
    });
  }
}

// ---- scripts at a server that is not the master

void observer::asked_elsewhere(std::span<std::string_view const> argv, redis_model& at) {
  elsewhere_.clear();
  if (plan_.replicas == 0) return;
  auto const keys = static_cast<std::size_t>(number(argv[2]));
  for (std::size_t i = 0; i < keys; ++i) {
    if (int const name = named(argv[3 + i]); name >= 0) elsewhere_.push_back({name, &at, look(name, {at, nullptr})});
  }
}

/// It still shows the former holder: a try that its client sent there is answered as well as it can know. P2: what a
/// former master grants has a greater fence than all before it, too, if its clock shows the same.
void observer::answered_elsewhere(std::span<std::string_view const> argv, value const& reply) {
  auto const calls = calls_in(argv);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    auto const& call = calls[i];
    value const& answer = answer_to(reply, i, is_gathered(argv));
    if (!script_name(call[1]).ends_with("acquire") || answer.is_error() || answer.items.empty() ||
        answer.items[0].integer != 2)
      continue;
    if (int const name = named(call[3]); name >= 0)
      told_busy(name, call[3 + static_cast<std::size_t>(number(call[2]))]);
  }
  // What was asked about between two holders is gone for its client, whichever server says so.
  if (script_name(argv[1]) == "renew" && !reply.is_error()) {
    auto const rest = argv.subspan(3 + static_cast<std::size_t>(number(argv[2])));
    for (std::size_t i = 0; i + 1 < reply.items.size() && 2 * i < rest.size(); ++i) {
      if (reply.items[i + 1].integer == 0) not_there(rest[2 * i].substr(0, rest[2 * i].find(' ')));
    }
  }
  if (plan_.replica_ahead != 0) return;
  for (look_elsewhere const& one : elsewhere_) {
    lock_state const is = look(one.name, {*one.where, nullptr});
    if (!is.owned || (one.was.owned && one.was.owner == is.owner)) continue;
    lock_watch& w = watch(one.name);
    if (is.fence < w.highest_written) {
      throw violation{2, is.owner + " became the owner at a former master with fence " + std::to_string(is.fence) +
                             ", after fence " + std::to_string(w.highest_written)};
    }
    w.highest_written = w.written_elsewhere = is.fence;
  }
}

}  // namespace conch::sim
