// Locks with several owners, as their clients have them, and what must be so at the end.
#include "sim/judges/permits_observer.hpp"

#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/words.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

using phase = engine::acquisition_phase;

std::string client_words(sim_acquisition const& a) { return "client " + std::to_string(a.client->number()); }

}  // namespace

std::string permits_observer::lock_words(int name) { return "lock " + std::to_string(name); }

permits_observer::permits_observer(world& w, plan const& p) : observer{w, p} {
  watches_.resize(static_cast<std::size_t>(p.names));
}

// ---------------------------------------------------------------------------------------------------- in the clients

bool permits_observer::disowned(sim_acquisition const& a) const {
  return forward_ ||
         a.fence / engine::hand_offs_per_grant <= watches_[static_cast<std::size_t>(a.lock_number)].disowned;
}

bool permits_observer::believed(sim_acquisition const& a) const {
  return a.active && a.phase == phase::holding && a.client->local_now() < a.deadline();
}

/// P3.
void permits_observer::backed(sim_acquisition const& a) {
  if (!believed(a) || disowned(a)) return;
  permits_state const is = look_at(a.lock_number);
  std::string const who =
      client_words(a) + " believes it has a permit of " + lock_words(a.lock_number) + " as " + owner_id(a);
  auto const mine = is.owners.find(owner_id(a));
  if (mine == is.owners.end()) throw violation{3, who + ", which the server knows nothing of"};
  if (mine->second.fence != a.fence / engine::hand_offs_per_grant)
    throw violation{2, who + " with fence " + std::to_string(a.fence) + ", but the server gave it another"};
  if (mine->second.weight < a.permit.weight)
    throw violation{1, who + ", of which the server counts only " + std::to_string(mine->second.weight)};
  if (mine->second.segment != a.segment)
    throw violation{1, who + ", segment " + std::to_string(a.segment) + ", but it is another"};
  nanos const until = a.client->true_time(a.deadline());
  nanos const over = world_.true_time_of_server_ms(mine->second.ends_us / 1000);
  if (until > over)
    throw violation{
        3, who + " for " + std::to_string((until - over) / microsecond) + " us longer than the server keeps it"};
}

/// When there was last more for the waiters: a permit that was given back, or expired.
void permits_observer::note_moves(permit_step const& s, permits_state const& is) {
  permit_watch& w = watches_[static_cast<std::size_t>(s.name)];
  for (auto const& [id, o] : s.was.owners) {
    auto const still = is.owners.find(id);
    if (still != is.owners.end() && still->second == o) continue;
    w.moved_at = std::max(w.moved_at, std::min(world_.now(), world_.true_time_of_server_ms(o.ends_us / 1000)));
  }
  for (waiter const& x : s.was.line) {
    auto const same = [&](waiter const& y) { return y.id == x.id; };
    if (std::none_of(is.line.begin(), is.line.end(), same)) w.moved_at = world_.now();
  }
}

/// P4: a client that is granted a permit has waited for something.
void permits_observer::waited_for_nothing(sim_acquisition const& a) const {
  permit_watch const& w = watches_[static_cast<std::size_t>(a.lock_number)];
  nanos const hop = plan_.latency + plan_.jitter + plan_.timer_lateness;
  nanos since = std::max(a.asked_at, w.moved_at);
  nanos bound = (12 + 4 * static_cast<nanos>(plan_.clients.size())) * hop + 25 * millisecond;
  if (!plan_.calm()) {
    since = std::max(since, trouble_until_);
    bound = plan_.set_back() + 3 * plan_.longest_lease() + 2 * plan_.longest_claim() + 2 * second + 8 * plan_.spike +
            20 * hop;
  }
  if (world_.now() - since > bound) {
    throw violation{4, client_words(a) + " waited for a permit of " + lock_words(a.lock_number) + " for " +
                           std::to_string((world_.now() - since) / millisecond) + " ms, in which nobody came or went"};
  }
}

void permits_observer::asked(sim_acquisition& a) {
  a.asked_at = world_.now();
  a.waiting = true;
  ++asked_permits_;
  history_.asked(a, world_.now());
  watches_[static_cast<std::size_t>(a.lock_number)].waiting.push_back(&a);
}

void permits_observer::answered(sim_acquisition& a, bool granted) {
  permit_watch& w = watches_[static_cast<std::size_t>(a.lock_number)];
  a.waiting = false;
  std::erase(w.waiting, &a);
  waited_ += world_.now() - a.asked_at;
  ++answered_;
  if (!granted) history_.refused(a, world_.now());
  not_too_late(a);
  gave_up_permits_ += (granted ? 0U : 1U) + (a.cancelled ? 1U : 0U) + (a.cancelled_again ? 1U : 0U) +
                      (a.until != time_point::max() ? 1U : 0U);
  if (!granted) return;
  not_after_giving_up(a);
  a.active = true;
  a.granted_at = world_.now();
  a.seen_deadline = a.deadline();
  look_at_hold(a);
  history_.granted(a, world_.now());
  // What is taken over has the fence of its origin, after which others may have been granted.
  if (a.adopts) history_.left_out(a);
  std::string const who = client_words(a) + " was granted a permit of " + lock_words(a.lock_number);
  if (a.deadline() <= a.client->local_now()) throw violation{3, who + ", after its deadline"};
  if (!a.fixed && !a.adopts && a.fence % engine::hand_offs_per_grant != 0) throw violation{8, who + " in memory"};
  if (a.permit.all_free && !disowned(a)) {
    permits_state const is = look_at(a.lock_number);
    auto const given = is.owners.find(owner_id(a));
    if (given != is.owners.end() && given->second.weight != a.permit.weight) {
      throw violation{8, who + " and counts " + std::to_string(a.permit.weight) + ", where the server counts " +
                             std::to_string(given->second.weight)};
    }
  }
  if (w.lowest_limit != 0) {
    // More than the limit was all of it.
    permits_state const is = look_at(a.lock_number);
    auto const given = is.owners.find(owner_id(a));
    std::int64_t const size = given != is.owners.end() ? given->second.weight : w.lowest_limit;
    a.permit.weight = static_cast<std::uint32_t>(std::min<std::int64_t>(a.permit.weight, size));
    history_.weighed(a);
  }
  // P1, P9: what is believed in together with it, and which clients have not been told.
  std::int64_t together = a.permit.weight;
  for (sim_acquisition const* other : w.active) {
    if (disowned(*other) || disowned(a)) continue;
    bool const counts = believed(*other) || (other->phase == phase::holding && !other->client->paused());
    if (!counts) continue;
    together += other->permit.weight;
    if (plan_.permits == engine::permit_kind::reentrant && other->owner != a.owner) {
      throw violation{1, who + " for " + a.owner + ", while " + other->owner + " believes to hold it"};
    }
    if (a.segment != 0 && other->segment == a.segment)
      throw violation{1, who + ", segment " + std::to_string(a.segment) + ", which another believes to hold"};
  }
  std::int64_t const limit = std::max<std::int64_t>(plan_.limit, w.highest_limit);
  if (!disowned(a) && together > limit) {
    throw violation{
        1, who + ": then " + std::to_string(together) + " of " + std::to_string(limit) + " are believed to be held"};
  }
  backed(a);
  waited_for_nothing(a);
  w.active.push_back(&a);
}

void permits_observer::released(sim_acquisition& a) {
  if (!a.active) return;
  history_.released(a, world_.now());
  if (a.phase == phase::holding) told_in_time(a);
  heard_of_requests(a);
  a.released_valid = believed(a);
  a.release_asked_at = world_.now();
  held_ += world_.now() - a.asked_at;
  a.active = false;
  std::erase(watches_[static_cast<std::size_t>(a.lock_number)].active, &a);
}

void permits_observer::detaching(sim_acquisition& a) {
  if (a.active) history_.released(a, world_.now());
  if (a.active && a.phase == phase::holding) told_in_time(a);
}

void permits_observer::detached(sim_acquisition& a, error_code why) {
  if (!why) history_.release_answered(a, history::outcome::held, world_.now());
  if (why == errc::lost) history_.lost(a, world_.now());
  std::string const who = client_words(a) + ", which let go of a permit of " + lock_words(a.lock_number) + ",";
  bool const is_gone = let_go(a, why, who);
  std::erase(watches_[static_cast<std::size_t>(a.lock_number)].active, &a);
  held_ += world_.now() - a.asked_at;
  if (!is_gone || disowned(a)) return;
  permits_state const is = look_at(a.lock_number);
  auto const mine = is.owners.find(owner_id(a));
  if (mine == is.owners.end())
    throw violation{3, who + " was told that others may have it, and the server knows nothing of it"};
  if (mine->second.state != 'h') throw violation{3, who + " has left a claim"};
  if (!clock_steps_ && mine->second.ends_us < world_.server_us(a.detach_asked_at) + a.lease.count() * 1000)
    throw violation{3, who + " has left less than its lease"};
}

void permits_observer::release_answered(sim_acquisition& a, bool was_held, bool failed) {
  observer::release_answered(a, was_held, failed);
}

void permits_observer::lost(sim_acquisition& a) {
  history_.lost(a, world_.now());
  permits_state const is = look_at(a.lock_number);
  auto const mine = is.owners.find(owner_id(a));
  bool const has_it = mine != is.owners.end() && mine->second.fence == a.fence / engine::hand_offs_per_grant &&
                      mine->second.ends_us > world_.server_us(world_.now());
  needless_loss(a, disowned(a), has_it);
  told_in_time(a);
  warned_in_time(a);
  bool const bound_to_end = a.fixed || a.max_hold != duration::max() || a.client->is_closed();
  if (plan_.calm() && !bound_to_end)
    throw violation{10, client_words(a) + " lost " + lock_words(a.lock_number) + " although nothing was wrong"};
}

void permits_observer::gone(sim_acquisition& a) {
  history_.gone(a, world_.now());
  std::erase(watches_[static_cast<std::size_t>(a.lock_number)].active, &a);
  std::erase(watches_[static_cast<std::size_t>(a.lock_number)].waiting, &a);
  a.active = false;
  a.waiting = false;
}

void permits_observer::writes(sim_client& c, protocol::command const& what) {
  if (auto const* acquire = std::get_if<protocol::acquire_command>(&what)) {
    ++acquires_;
    shows_ticket(c, *acquire);
  } else if (auto const* release = std::get_if<protocol::release_command>(&what)) {
    if (release->rest == 0) ++releases_;
  } else if (std::holds_alternative<protocol::renew_command>(what)) {
    ++renewals_;
  }
}

void permits_observer::checked(sim_client& c) {
  for (int name = 0; name < plan_.names; ++name) {
    for (sim_acquisition* a : watches_[static_cast<std::size_t>(name)].waiting) {
      if (a->client != &c || a->lock == nullptr) continue;
      note_id(*a);
      protocol::server_place const& place = *sim_client::place_of(a->lock->place.get());
      if (place.state == engine::place_state::in_line) told_ticket(c, place.id, place.waiting.ticket);
    }
    for (sim_acquisition* a : watches_[static_cast<std::size_t>(name)].active) {
      if (a->client != &c || a->phase != phase::holding) continue;
      look_at_hold(*a);
      told_in_time(*a);
      warned_in_time(*a);
      history_.weighed(*a);
      if (a->deadline() == a->seen_deadline) continue;
      if (a->deadline() < a->seen_deadline)
        throw violation{3, client_words(*a) + " had the deadline of " + lock_words(name) + " moved back"};
      a->seen_deadline = a->deadline();
      history_.renewed(*a);
      backed(*a);
    }
  }
}

// ---------------------------------------------------------------------------------------------------- at the end

void permits_observer::nothing_owned_by_the_living() {
  using kind = fault_plan::kind;
  bool const excused =
      plan_.has({kind::failover, kind::step_back, kind::server_restart, kind::server_wiped, kind::slow});
  for (auto const& c : world_.clients()) {
    if (!c->alive()) continue;
    if (c->stats().waiting != 0 || c->stats().held != 0) {
      throw violation{6, "client " + std::to_string(c->number()) + " still counts some that wait or hold"};
    }
    for (int name = 0; name < plan_.names && !excused && denied_until_ < 0; ++name) {
      permits_state const is = look_at(name);
      for (auto const& [id, o] : is.owners) {
        if (o.ends_us <= world_.server_us(world_.now())) continue;  // expired, and removed by the next script
        if (detached_.contains(id)) continue;                       // ends with its lease, if nobody takes it over
        if (client_of(id) == c->id())
          throw violation{6, "a permit of " + lock_words(name) + " is left behind, owned by " + id};
      }
      // No client can leave the queue of a lock whose key holds something else. The longer leases of others keep it for
      // a client that was away, or refused, for longer.
      nanos const patience = c->settings().settings.lease.count();
      bool const was_away = c->longest_absence() > patience || plan_.refuses_for(patience);
      for (waiter const& x : is.line) {
        if (client_of(x.id) == c->id() && !spoilt(name) && !was_away)
          throw violation{6, x.id + " is left behind in the line for " + lock_words(name)};
      }
    }
  }
}

void permits_observer::cost() {
  if (!plan_.calm()) return;
  auto const [checks, late, doubted, kicks, pushes, shortest, extensions] = spent_by_all();
  not_over("acquire scripts", acquires_, answered_ + checks + late + doubted + unknown_scripts_ + told_of_more_);
  not_over("release scripts", releases_, granted_ + gave_up_permits_ + kicks + unknown_scripts_ + told_of_more_);
  not_over("pushes", pushes, claimed_);
  not_over("lost pushes", claimed_, pushes);
  not_over("kicks", kicks, claimed_);
  not_over("safety checks", checks, static_cast<std::uint64_t>(waited_ * 5 / 2 / shortest) + granted_ + asked_permits_);
  not_over("renewals", renewals_, static_cast<std::uint64_t>(held_ * 4 / shortest) + granted_ + 2 * extensions);
}

}  // namespace conch::sim
