#include "sim/exhaustive/scopes.hpp"

#include "base/turns.hpp"
#include "sim/judges/observer.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>
#include <vector>

namespace conch::sim {

namespace {

using kind = fault_plan::kind;

constexpr nanos longest_way = 2 * millisecond;  // of a message, and of a user between two steps
constexpr nanos lease = 480 * millisecond;
constexpr nanos begins = second;  // by then all are connected, and no timer of that is left
constexpr nanos some_time = 1;    // as short or long as `longest_way` allows

config small_settings() {
  config c;
  c.lease = std::chrono::nanoseconds{lease};
  c.renew_every = c.lease / 3;
  c.stop_margin = std::chrono::milliseconds{20};
  c.local_slice = std::chrono::milliseconds{5};
  c.claim = std::chrono::milliseconds{200};
  c.fence_retention = std::chrono::seconds{5};
  c.command_timeout = std::chrono::milliseconds{96};
  c.connect_timeout = std::chrono::milliseconds{500};
  c.offline_timeout = std::chrono::milliseconds{800};
  c.reconnect_min = std::chrono::milliseconds{5};
  c.reconnect_max = std::chrono::milliseconds{200};
  c.keep_alive = duration::zero();
  return c;
}

operation acquire() {
  operation o;
  o.lease = lease;
  o.hold = some_time;
  return o;
}

operation attempt() {
  operation o = acquire();
  o.how = operation::way::attempt;
  return o;
}

operation cancelled(operation::cancels how = operation::cancels::total) {
  operation o = acquire();
  o.cancel = how;
  o.cancel_after = some_time;
  return o;
}

/// Beyond a renewal.
operation held_for(nanos how_long) {
  operation o = acquire();
  o.hold = how_long;
  return o;
}

fault_plan fault(kind what, int client = 0, nanos length = 0, nanos length2 = 0, int variant = 0) {
  fault_plan f;
  f.what = what;
  f.client = client;
  f.length = length;
  f.length2 = length2;
  f.variant = variant;
  return f;
}

constexpr int bytes_are_lost = 3;

/// What may happen to one client.
std::vector<fault_plan> of_one_client(int number) {
  return {
      fault(kind::cut, number, longest_way, longest_way, bytes_are_lost),
      fault(kind::cut, number, longest_way, longest_way),                // what is under way arrives
      fault(kind::cut, number, longest_way, 2 * lease, bytes_are_lost),  // the server does not notice
      fault(kind::pause, number, lease + lease / 4),
  };
}

std::vector<fault_plan> restarts() { return {fault(kind::server_restart), fault(kind::server_wiped)}; }

plan small_plan(std::vector<std::vector<operation>> programs) {
  plan p;
  p.jitter = longest_way;
  p.explored_from = begins - millisecond;
  for (std::vector<operation>& work : programs) {
    client_plan c;
    c.settings = small_settings();
    if (!work.empty()) work.front().think = begins;
    c.actors.push_back({std::move(work)});
    p.clients.push_back(std::move(c));
  }
  return p;
}

void add(std::vector<fault_plan>& all, std::vector<fault_plan> some) {
  all.insert(all.end(), some.begin(), some.end());
}

plan with_faults(plan p) {
  for (std::size_t i = 0; i < p.clients.size(); ++i) add(p.possible, of_one_client(static_cast<int>(i)));
  p.possible.push_back(fault(kind::flush_scripts));
  return p;
}

plan with_restarts(plan p) {
  add(p.possible, restarts());
  return p;
}

scope of_plan(std::string name, std::string words, bounds limits, plan p) {
  auto run = [p = std::move(p)](steps& order, bool traced) {
    outcome result;
    in_one_turn = p.steps_in_one_turn;
    world w{p, traced, &order};
    try {
      w.run();
    } catch (violation const& v) {
      result.promise = v.promise;
      result.words = v.what();
      w.say(result.words);
    }
    result.trace = w.lines();
    result.scripts = w.executed();
    return result;
  };
  return {std::move(name), std::move(words), limits, std::move(run)};
}

plan with_roles(plan p) {
  p.replication_delay = millisecond;
  add(p.possible, {fault(kind::role_change), fault(kind::role_change, 0, 0, longest_way)});
  return p;
}

plan of_several_owners(engine::permit_kind of, std::uint32_t limit, std::vector<std::vector<operation>> programs) {
  plan p = small_plan(std::move(programs));
  p.permits = of;
  p.limit = limit;
  return p;
}

operation with_weight(std::uint32_t weight) {
  operation o = acquire();
  o.weight = weight;
  return o;
}

/// Whose hold leaves its client, and is taken over by that one.
operation given_to(int client) {
  operation o = acquire();
  o.detach = true;
  o.adopt_by = client;
  o.adopted_hold = some_time;
  return o;
}

/// Ids of which one begins like another, and a renewal that may be under way while the next hold begins.
plan with_similar_ids(plan p) {
  for (client_plan& c : p.clients) {
    c.id_jumps = c.without_nonces = true;
  }
  p.seed = 5;
  return p;
}

void add_mutexes(std::vector<scope>& all) {
  auto const two = [] { return small_plan({{acquire()}, {acquire()}}); };
  all.push_back(of_plan("mutex-2c-0f", "two clients acquire and release, one of them twice", {200, 0},
                        small_plan({{acquire(), acquire()}, {acquire()}})));
  all.push_back(of_plan("mutex-2c-1f", "two clients acquire and release", {200, 1}, with_faults(two())));
  all.push_back(of_plan("mutex-2c-2f", "the same with two faults", {200, 2}, with_faults(two())));
  all.push_back(of_plan("mutex-3c-0f", "three clients acquire and release", {200, 0},
                        small_plan({{acquire()}, {acquire()}, {acquire()}})));
  all.push_back(of_plan("mutex-3c-1f", "the same with a fault", {200, 1},
                        with_faults(small_plan({{acquire()}, {acquire()}, {acquire()}}))));
  all.push_back(of_plan("cancel-2c-0f", "one client acquires and tries, the other cancels its wait", {200, 0},
                        small_plan({{acquire(), attempt()}, {cancelled()}})));
  all.push_back(of_plan("cancel-2c-1f", "the same with a fault", {200, 1},
                        with_faults(small_plan({{acquire(), attempt()}, {cancelled()}}))));
  all.push_back(of_plan("cancel-3c-0f", "of three clients one cancels its wait", {200, 0},
                        small_plan({{acquire()}, {cancelled()}, {acquire()}})));
  all.push_back(of_plan("renew-2c-1f", "a hold is renewed while another client waits", {200, 1},
                        with_faults(small_plan({{held_for(lease / 3 + millisecond)}, {acquire()}}))));
  all.push_back(of_plan("ids-1c-1f", "a hold is renewed, and the next one has an id that begins like its", {200, 1},
                        with_faults(with_similar_ids(small_plan({{held_for(lease / 3 + millisecond), acquire()}})))));
  all.push_back(
      of_plan("restart-2c-1f", "the server restarts, with or without its data", {200, 1}, with_restarts(two())));
  all.push_back(of_plan("roles-2c-1f", "a server and its replica change roles", {200, 1}, with_roles(two())));
  all.push_back(of_plan("adopt-2c-1f", "a hold goes to another client while roles change", {200, 1},
                        with_roles(small_plan({{given_to(1)}, {}}))));
}

void add_several_owners(std::vector<scope>& all) {
  using engine::permit_kind;
  auto const semaphore =
      of_several_owners(permit_kind::semaphore, 2, {{with_weight(1)}, {with_weight(2)}, {with_weight(1)}});
  auto const shared = of_several_owners(permit_kind::shared, engine::most_permits,
                                        {{with_weight(1)}, {with_weight(engine::most_permits)}, {with_weight(1)}});
  all.push_back(of_plan("semaphore-3c-0f", "three clients want one, two and one of two permits", {200, 0}, semaphore));
  all.push_back(of_plan("semaphore-3c-1f", "the same with a fault", {200, 1}, with_faults(semaphore)));
  all.push_back(of_plan("shared-3c-0f", "a reader, a writer and a reader", {200, 0}, shared));
  all.push_back(of_plan("shared-3c-1f", "the same with a fault", {200, 1}, with_faults(shared)));
}

std::vector<scope> make_scopes() {
  std::vector<scope> all;
  add_mutexes(all);
  add_several_owners(all);
  return all;
}

}  // namespace

std::span<scope const> all_scopes() {
  static std::vector<scope> const all = make_scopes();
  return all;
}

scope const* find_scope(std::string_view name) {
  auto const all = all_scopes();
  auto const found = std::find_if(all.begin(), all.end(), [&](scope const& s) { return s.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace conch::sim
