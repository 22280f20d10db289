#include "sim/judges/chains_judge.hpp"

#include "engine/wait_walk.hpp"
#include "sim/judges/observer.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/words.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

using engine::acquisition_phase;

constexpr int of_deadlocks = 15;

std::int64_t fence_in(sim_acquisition const& x) {
  return x.phase == acquisition_phase::holding ? x.fence / engine::hand_offs_per_grant : 0;
}

}  // namespace

void chains_judge::tasks_of(sim_client const& c, std::vector<sim_acquisition const*> const& all) {
  auto const is_still = [&](fact const& f) {
    return std::any_of(all.begin(), all.end(),
                       [&](auto const* x) { return x->order == f.order && fence_in(*x) == f.fence; });
  };
  std::set<std::pair<std::uint64_t, std::int64_t>> known;
  for (fact& f : facts_) {
    if (f.process != c.process() || f.real.until != open) continue;
    if (is_still(f)) known.emplace(f.order, f.fence);
    else f.real.until = world_.now();
  }
  for (sim_acquisition const* x : all) {
    if (known.contains({x->order, fence_in(*x)})) continue;
    facts_.push_back({.task = x->task,
                      .lock = name_of(x->lock_number),
                      .fence = fence_in(*x),
                      .client = c.number(),
                      .process = c.process(),
                      .order = x->order,
                      .real = {.from = world_.now()}});
  }
  servers_learn(c);
}

/// What has ended is written at once, or on the next connection, and is at the server after a hop.
void chains_judge::servers_learn(sim_client const& c) {
  if (!c.alive() || c.paused()) return;
  link_ptr const& l = c.connection();
  if (l == nullptr || !l->accepted || !l->server_open || l->cut || !c.up() || l->trap != link::trap::none) return;
  nanos const since = std::max({c.up_since(), c.last_pause_end(), l->up.stalled_until, l->down.stalled_until});
  nanos const takes = plan_.latency + plan_.jitter + 2 * millisecond;
  for (fact& f : facts_) {
    if (f.process != c.process() || f.real.until == open || f.known_until != open) continue;
    nanos const known = std::max(f.real.until, since) + takes;
    if (known <= world_.now()) f.known_until = known;
  }
}

void chains_judge::look_at_locks(observer const& server) {
  for (int i = 0; i < plan_.names; ++i) {
    lock_seen& seen = locks_[name_of(i)];
    look_at_queue(i, seen);
    auto const now = server.owners_of(i);
    std::int64_t const fence = now.empty() ? 0 : now.begin()->second;
    auto& all = seen.owners;
    if (!all.empty() && all.back().when.until == open) {
      if (all.back().fence == fence) continue;
      all.back().when.until = world_.now();
    }
    if (fence != 0) all.push_back({fence, std::string{client_of(now.begin()->first)}, {.from = world_.now()}});
  }
}

void chains_judge::look_at_queue(int name, lock_seen& seen) const {
  std::string const key = key_of(name) + ":q";
  value const queue = world_.keys_of(name).with(key).peek(key);
  std::set<std::string> now;
  for (value const& one : queue.items) now.emplace(client_of(one.items[0].text));
  for (auto& [client, when] : seen.queued) {
    if (when.back().until == open && !now.contains(client)) when.back().until = world_.now();
  }
  for (std::string const& client : now) {
    spans& when = seen.queued[client];
    if (when.empty() || when.back().until != open) when.push_back({.from = world_.now()});
  }
}

chains_judge::spans chains_judge::both(spans const& a, spans const& b) {
  spans all;
  for (time_span const& x : a) {
    for (time_span const& y : b) {
      time_span const one{std::max(x.from, y.from), std::min(x.until, y.until)};
      if (one.from <= one.until) all.push_back(one);
    }
  }
  return all;
}

chains_judge::spans chains_judge::owned(std::string const& lock, std::int64_t fence) const {
  spans all;
  auto const found = locks_.find(lock);
  if (found == locks_.end()) return all;
  for (ownership const& one : found->second.owners) {
    if (one.fence == fence) all.push_back(one.when);
  }
  return all;
}

/// In the queue; or it has the lock, and hands it on itself.
chains_judge::spans chains_judge::has_place(std::string const& client, std::string const& lock) const {
  spans all;
  auto const found = locks_.find(lock);
  if (found == locks_.end()) return all;
  if (auto const queued = found->second.queued.find(client); queued != found->second.queued.end()) all = queued->second;
  for (ownership const& one : found->second.owners) {
    if (one.client == client) all.push_back(one.when);
  }
  return all;
}

chains_judge::spans chains_judge::of_task(std::string const& task, std::string const& lock, std::int64_t fence) const {
  spans all;
  for (fact const& f : facts_) {
    if (f.task == task && f.lock == lock && f.fence == fence) all.push_back({f.real.from, f.known_until});
  }
  return all;
}

std::string chains_judge::circle_words(engine::wait_walk const& walk) {
  std::string words;
  for (std::size_t i = walk.circle(); i < walk.links().size(); ++i) {
    engine::wait_link const& one = walk.links()[i];
    words += " " + one.task + " has " + one.lock + " with fence " + std::to_string(one.holder.fence) + " and waits for";
  }
  return words + " " + walk.links()[walk.circle()].lock;
}

void chains_judge::reported(sim_client const& by, engine::wait_walk const& walk, nanos since) {
  ++deadlocks_;
  for (auto const& c : world_.clients()) servers_learn(*c);
  look_at_locks(world_.watcher());
  spans when{{since, world_.now()}};
  for (std::size_t i = walk.circle(); i < walk.links().size(); ++i) {
    engine::wait_link const& one = walk.links()[i];
    std::size_t const next = i + 1 == walk.links().size() ? walk.circle() : i + 1;
    when = both(when, owned(one.lock, one.holder.fence));
    when = both(when, of_task(one.task, one.lock, one.holder.fence));
    when = both(when, of_task(one.task, walk.links()[next].lock, 0));
    when = both(when, has_place(one.client, walk.links()[next].lock));
    if (when.empty())
      throw violation{of_deadlocks, by.id() + " is told of a deadlock that was none (wrong: " + one.task + " at " +
                                        one.lock + "):" + circle_words(walk)};
  }
  world_.say("client " + std::to_string(by.number()) + " finds a deadlock:" + circle_words(walk));
}

/// The wait that was there then, though the task may wait anew by now.
chains_judge::fact const* chains_judge::wait_of(std::string const& task, std::string const& lock, nanos since) const {
  auto const found = std::find_if(facts_.begin(), facts_.end(), [&](fact const& f) {
    return f.task == task && f.lock == lock && f.fence == 0 && f.known_until >= since;
  });
  return found == facts_.end() ? nullptr : &*found;
}

void chains_judge::ended(sim_acquisition const& victim, engine::wait_walk const& walk, nanos since) {
  std::set<std::string> waits;  // of the circle, in no order
  fact const* latest = nullptr;
  bool are_alone = true;  // no client has several tasks, of which one waits for longer in its place
  for (std::size_t i = walk.circle(); i < walk.links().size(); ++i) {
    std::size_t const next = i + 1 == walk.links().size() ? walk.circle() : i + 1;
    fact const* const one = wait_of(walk.links()[i].task, walk.links()[next].lock, since);
    if (one == nullptr) return;
    waits.insert(one->task + " " + std::to_string(one->order));
    if (latest == nullptr || one->real.from > latest->real.from) latest = one;
    are_alone = are_alone && plan_.clients[static_cast<std::size_t>(one->client)].actors.size() == 1;
  }
  std::string circle;
  for (std::string const& one : waits) circle += one + "; ";
  if (!ended_.insert(circle).second)
    throw violation{of_deadlocks, "a second wait of one circle ends:" + circle_words(walk)};
  nanos const takes = plan_.latency + plan_.jitter + millisecond;
  if (plan_.calm() && are_alone && latest->task != victim.task && latest->real.from > victim.asked_at + takes)
    throw violation{of_deadlocks, "the wait that ends is not the youngest of its circle:" + circle_words(walk)};
}

}  // namespace conch::sim
