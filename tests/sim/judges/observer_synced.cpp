// Holds that all replicas have. `errc::not_replicated` says that replicas did not acknowledge a grant in time: then one
// of them, the master, or the client's way to it was in trouble while that client asked.
#include "sim/judges/observer.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/words.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>

namespace conch::sim {

/// A batch, from its renewals to the count, where all is well: to the last replica and back, and to the server and
/// back.
nanos observer::time_of_a_wait() const {
  nanos const hop = plan_.latency + plan_.jitter + plan_.timer_lateness;
  return 2 * plan_.replicas * plan_.replication_delay + 4 * hop;
}

/// Until then replicas are too slow for a WAIT, and what they had not acknowledged is on its way.
nanos observer::quick_since() const {
  return plan_.slow_until == 0 ? -1 : plan_.slow_until + 2 * plan_.replicas * plan_.replication_delay;
}

/// P9: a first connection to what is a replica now follows a younger second one to the master, which renews nothing
/// until then.
void observer::second_connected(sim_client const& c) {
  link_ptr const& first = c.connection();
  link_ptr const& younger = c.sync_connection();
  if (first == nullptr || younger == nullptr || !c.up() || world_.is_at_master(*first) ||
      !world_.is_at_master(*younger))
    return;
  nanos const follows = 110 * millisecond + 2 * (plan_.latency + plan_.jitter + plan_.timer_lateness);
  world_.after(follows, [this, &c, first, younger, since = world_.now(), master = world_.master()] {
    bool const stays = c.alive() && c.connection() == first && first->client_open && c.up();
    if (!stays || world_.master() != master || c.paused() || c.is_closed() || c.last_pause_end() >= since ||
        plan_.spikes != 0)
      return;
    auto const of = unwell_.find(c.number());
    bool const unwell = unwell_until_ >= since || (of != unwell_.end() && of->second >= since);
    if (unwell || younger->cut || std::max(younger->up.stalled_until, younger->down.stalled_until) >= since) return;
    throw violation{9, "client " + std::to_string(c.number()) +
                           " stays at a replica with its first connection, although its second one led to the master " +
                           std::to_string((world_.now() - since) / millisecond) + " ms ago"};
  });
}

/// A mutex has one place for all that wait in its client. Each permit has a place, and ids, of its own.
void observer::renewed(link const& by, std::span<std::string_view const> argv) {
  auto const keys = static_cast<std::size_t>(number(argv[2]));
  auto const rest = argv.subspan(3 + keys);
  bool const has_ids = plan_.permits != engine::permit_kind::none;
  for (std::size_t i = 0; i < keys; ++i) {
    int const name = named(argv[3 + i]);
    if (name < 0) continue;
    std::string const id{has_ids ? rest[2 * i].substr(0, rest[2 * i].find(' ')) : std::string_view{}};
    batches_[&by][{name, id}] = world_.now();
  }
}

void observer::waited(link const& by, std::int64_t replicas) {
  for (auto const& [of, since] : batches_[&by])
    counts_[{by.client, of.first, of.second, replicas}] = {since, world_.now()};
  batches_.erase(&by);
}

void observer::note_id(sim_acquisition& a) const {
  if (!plan_.synced || a.lock == nullptr) return;
  std::string id = a.client->id() + "." + engine::to_text(sim_client::place_of(a.lock->place.get())->id);
  if (a.ids.empty() || a.ids.back() != id) a.ids.push_back(std::move(id));
}

/// A claim that is not acknowledged: a wait that ends now cannot be told what the replicas would have answered.
void observer::look_for_claims(sim_client& c) {
  if (!plan_.synced) return;
  for (int name = 0; name < plan_.names; ++name) {
    engine::place const* const asked = c.engine_->find(name_of(name));
    bool const is_one = asked != nullptr && asked->state != engine::place_state::owned &&
                        c.place(name)->state == engine::place_state::owned;
    if (is_one) unacknowledged_.insert({c.number(), name});
    else unacknowledged_.erase({c.number(), name});
  }
}

/// Since then both connections of this client, its process, the master and all its replicas have been well.
bool observer::may_be_acknowledged(sim_client const& c, nanos since) const {
  if (plan_.spikes != 0 || c.is_closed() || c.paused() || c.last_pause_end() >= since || denied_since(c, since))
    return false;
  if (std::max(unwell_until_, refused_at_) >= since) return false;
  for (link_ptr const& l : {c.connection(), c.sync_connection()}) {
    if (l == nullptr || l->cut || !l->server_open || std::max(l->up.stalled_until, l->down.stalled_until) >= since)
      return false;
    if (world_.stood_still(*l, since)) return false;
  }
  bool const connected = c.up() && c.up_since() < since && c.synced_since() >= 0 && c.synced_since() < since;
  // One that follows anew acknowledges what it has after its delay.
  nanos const follows = world_.all_follow_since() + 2 * plan_.replicas * plan_.replication_delay;
  return connected && world_.all_follow() && std::max(follows, quick_since()) < since;
}

/// P11.
void observer::not_replicated(sim_acquisition const& a, error_code const& why) const {
  sim_client const& c = *a.client;
  auto const must = [&](bool so, std::string const& although) {
    if (so) return;
    throw violation{11, "client " + std::to_string(c.number()) + " was refused lock " + std::to_string(a.lock_number) +
                            " (" + why.message() + "), although " + although};
  };
  // A claim must be long enough for the batch that is under way, and for its own.
  nanos const claim = std::min<nanos>(c.settings().settings.claim.count(), a.lease.count() * millisecond);
  bool const can_be = claim > 3 * time_of_a_wait() + 3 * millisecond;
  // A wait with a limit may be told of a claim that was given back before, or of one whose WAIT is under way.
  bool const timed = a.until != time_point::max();
  // A cancelled acquire does not wait for the WAIT.
  bool const had_a_claim = a.cancelled && unacknowledged_.contains({c.number(), a.lock_number});
  must(timed || had_a_claim || !can_be || !may_be_acknowledged(c, a.asked_at), "its replicas were there all the time");

  std::string const words = why.message();
  auto const of = words.rfind(" of ");
  must(of != std::string::npos, "that does not say how many");
  std::int64_t const count = std::stoll(words.substr(words.find_last_not_of("0123456789", of - 1) + 1));
  std::int64_t const wanted = std::stoll(words.substr(of + 4));
  must(wanted == static_cast<std::int64_t>(c.settings().settings.sync_replicas) && count < wanted,
       "these are not the numbers");
  if (timed) return;
  link_ptr const& l = c.sync_connection();
  nanos const on_its_way = plan_.latency + plan_.jitter + plan_.timer_lateness + millisecond;
  std::vector<std::string> const ids = plan_.permits == engine::permit_kind::none ? std::vector{std::string{}} : a.ids;
  auto const counted = [&](std::int64_t n, nanos until) {
    return std::any_of(ids.begin(), ids.end(), [&](std::string const& id) {
      auto const at = counts_.find({c.number(), a.lock_number, id, n});
      return at != counts_.end() && at->second.renewed_at >= a.asked_at && at->second.told_at <= until;
    });
  };
  bool some = false;
  for (std::int64_t n = 1; n < wanted; ++n) some = some || counted(n, world_.now() - on_its_way);
  bool const heard = plan_.spikes == 0 && l != nullptr && !l->cut && l->down.stalled_until < a.asked_at &&
                     c.synced_since() >= 0 && c.synced_since() < a.asked_at && !c.paused() &&
                     c.last_pause_end() < a.asked_at;
  must(count == 0 || counted(count, world_.now()), "no WAIT has told that");
  must(count != 0 || !some || counted(0, world_.now()) || !heard, "some have acknowledged");
}

}  // namespace conch::sim
