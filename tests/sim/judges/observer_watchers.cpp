// The watchers of a lock: they are told as soon as it is free, and only then.
#include "sim/judges/observer.hpp"
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/words.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>

namespace conch::sim {

bool observer::alerted(int name) const {
  std::string const key = keys_[static_cast<std::size_t>(name)] + ":a";
  return world_.keys_of(name).with(key).peek(key).is(value::kind::bulk);
}

std::vector<std::string> observer::watchers_of(int name) const {
  std::string const key = keys_[static_cast<std::size_t>(name)] + ":w";
  value const line = world_.keys_of(name).with(key).peek(key);
  std::vector<std::string> ids;
  for (value const& one : line.items) ids.push_back(one.items[0].text);
  return ids;
}

observer::freeing observer::about_to_free(std::span<std::string_view const> argv) const {
  std::string_view const script = script_name(argv[1]);
  if (script != "release" && script != "permit_release" && script != "force") return {};
  freeing by{.name = named(argv[3])};
  if (by.name < 0) return by;
  by.owned = !owners_of(by.name).empty();
  by.alerted = alerted(by.name);
  by.watchers = watchers_of(by.name);
  return by;
}

/// A script that frees a lock tells its watchers. One that has left queued clients to the next script leaves this to
/// it, too.
void observer::freed(freeing const& by, value const& reply) {
  if (by.name < 0 || !owners_of(by.name).empty()) return;
  free_at_[by.name] = world_.now();
  auto const left = watchers_of(by.name);
  for (std::string const& id : by.watchers) {
    if (std::find(left.begin(), left.end(), id) == left.end()) told_free_at_[id] = world_.now();
  }
  if (reply.is_error() || left.empty() || !by.owned) return;
  if (plan_.declared_keys) return;  // a release may not touch the keys of the watchers; they ask by themselves
  constexpr std::int64_t more_to_pass_on = 2 | 4;
  for (std::size_t flags : {1u, 2u}) {
    if (reply.items.size() > flags && (reply.items[flags].integer & more_to_pass_on) != 0 &&
        reply.items[flags].integer < 8)
      return;
  }
  bool const alert = alerted(by.name);
  std::size_t const most =
      std::max<std::size_t>((plan_.small_steps ? static_cast<std::size_t>(small_steps) : 100) / by.of, 1);
  if (!alert && by.watchers.empty()) return;  // what has told of them is gone before them
  // Their time had passed by the server's clock, which then went back: of the two keys, the server had come to know
  // that of the first only.
  if (!by.alerted && plan_.has({fault_plan::kind::step_back, fault_plan::kind::failover})) return;
  if (!alert || by.watchers.size() - left.size() < most)
    throw violation{
        4, "lock " + std::to_string(by.name) + " is free, and " + left.front() + ", which waits for that, is not told"};
}

/// What the server says of a lock when it is asked is true.
void observer::watched(int name, sim_client const& c, std::vector<std::int64_t> const& answer) {
  bool const is_free = owners_of(name).empty();
  if ((answer.at(0) == 1) != is_free && !spoilt(name))
    throw violation{
        11, "lock " + std::to_string(name) + " is said to be " + (is_free ? "taken" : "free") + ", which it is not"};
  if (is_free) said_free_at_[{name, c.id()}] = free_at_[name] = world_.now();  // it tells the others, too
}

/// P11: it was free at some time since.
void observer::watcher_ended(sim_order const& one, std::string const& who, error_code why) const {
  if (why) {
    sim_client const& c = *one.client;
    if (one.wait == duration::max() || c.local_now() < one.wait_ends)
      throw violation{11, who + " is said to be too late before it is"};
    return;
  }
  auto const at = [&](auto const& times, auto const& key) {
    auto const found = times.find(key);
    return found == times.end() ? nanos{-1} : found->second;
  };
  if (std::max(at(free_at_, one.lock_number), at(said_free_at_, std::pair{one.lock_number, one.client->id()})) <
      one.asked_at)
    throw violation{11, who + " was told that the lock is free, which it has not been since"};
}

/// P4: the push is received.
void observer::watcher_hears(sim_order const& one) const {
  if (one.answered || one.what != engine::admin_request::kind::wait_free) return;
  auto const told = told_free_at_.find(one.client->id() + "." + engine::to_text(one.id));
  if (told == told_free_at_.end() || plan_.has({fault_plan::kind::deny})) return;
  auto const well = well_since(*one.client, one.lock_number);
  nanos const hop = plan_.latency + plan_.jitter + plan_.timer_lateness;
  if (!well || *well + 2 * hop > told->second) return;  // its subscription is under way
  // After a role change the client may still be at the replica, where the push comes behind what the scripts wrote.
  nanos const needed = 10 * hop + plan_.replication_delay + 5 * millisecond;
  if (world_.now() - told->second > needed)
    throw violation{
        4, "a watcher of lock " + std::to_string(one.lock_number) + " was told that it is free, and still waits"};
}

}  // namespace conch::sim
