// Small worlds of one Redis server, and of one with a replica.
#include "base/turns.hpp"
#include "sim/exhaustive/small_plans.hpp"
#include "sim/worlds/world.hpp"

namespace conch::sim {

namespace {

using kind = fault_plan::kind;
constexpr nanos lease = lease_of_scopes;

std::vector<fault_plan> restarts() { return {fault(kind::server_restart), fault(kind::server_wiped)}; }

plan with_faults(plan p) {
  p = with_cuts_and_pauses(std::move(p));
  p.possible.push_back(fault(kind::flush_scripts));
  return p;
}

plan with_restarts(plan p) {
  add(p.possible, restarts());
  return p;
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

/// Another coroutine of that client, which acquires and releases.
plan with_one_more_in(std::size_t client, plan p) {
  actor_plan more{{acquire()}};
  more.work.front().think = p.clients[client].actors.front().work.front().think;
  p.clients[client].actors.push_back(std::move(more));
  return p;
}

/// A hold is long enough for another client to come to the server that has lost its data.
plan handing_on() {
  plan p = with_one_more_in(0, small_plan({{held_for(100 * millisecond)}, {acquire()}}));
  p.possible = {fault(kind::server_wiped)};
  return p;
}

plan with_declared_keys(plan p) {
  p.declared_keys = true;
  return p;
}

void add_mutexes(std::vector<scope>& all) {
  auto const two = [] { return small_plan({{acquire()}, {acquire()}}); };
  all.push_back(of_redis("mutex-2c-0f", "two clients acquire and release, one of them twice", {200, 0},
                         small_plan({{acquire(), acquire()}, {acquire()}})));
  all.push_back(of_redis("mutex-2c-1f", "two clients acquire and release", {200, 1}, with_faults(two())));
  all.push_back(of_redis("mutex-2c-2f", "the same with two faults", {200, 2}, with_faults(two())));
  all.push_back(of_redis("mutex-3c-0f", "three clients acquire and release", {200, 0},
                         small_plan({{acquire()}, {acquire()}, {acquire()}})));
  all.push_back(of_redis("mutex-3c-1f", "the same with a fault", {200, 1},
                         with_faults(small_plan({{acquire()}, {acquire()}, {acquire()}}))));
  all.push_back(of_redis("cancel-2c-0f", "one client acquires and tries, the other cancels its wait", {200, 0},
                         small_plan({{acquire(), attempt()}, {cancelled()}})));
  all.push_back(of_redis("cancel-2c-1f", "the same with a fault", {200, 1},
                         with_faults(small_plan({{acquire(), attempt()}, {cancelled()}}))));
  all.push_back(of_redis("cancel-3c-0f", "of three clients one cancels its wait", {200, 0},
                         small_plan({{acquire()}, {cancelled()}, {acquire()}})));
  all.push_back(of_redis("renew-2c-1f", "a hold is renewed while another client waits", {200, 1},
                         with_faults(small_plan({{held_for(lease / 3 + millisecond)}, {acquire()}}))));
  all.push_back(of_redis("ids-1c-1f", "a hold is renewed, and the next one has an id that begins like its", {200, 1},
                         with_faults(with_similar_ids(small_plan({{held_for(lease / 3 + millisecond), acquire()}})))));
  all.push_back(
      of_redis("restart-2c-1f", "the server restarts, with or without its data", {200, 1}, with_restarts(two())));
  all.push_back(of_redis("hand-on-2c-1f", "a client hands a lock on in memory, and the server loses its data", {200, 1},
                         handing_on()));
  all.push_back(of_redis("declared-2c-0f", "two clients acquire and release where scripts may touch declared keys only",
                         {200, 0}, with_declared_keys(two())));
  all.push_back(of_redis("roles-2c-1f", "a server and its replica change roles", {200, 1}, with_roles(two())));
  all.push_back(of_redis("adopt-2c-1f", "a hold goes to another client while roles change", {200, 1},
                         with_roles(small_plan({{given_to(1)}, {}}))));
}

void add_several_owners(std::vector<scope>& all) {
  using engine::permit_kind;
  auto const semaphore =
      of_several_owners(permit_kind::semaphore, 2, {{with_weight(1)}, {with_weight(2)}, {with_weight(1)}});
  auto const shared = of_several_owners(permit_kind::shared, engine::most_permits,
                                        {{with_weight(1)}, {with_weight(engine::most_permits)}, {with_weight(1)}});
  all.push_back(of_redis("semaphore-3c-0f", "three clients want one, two and one of two permits", {200, 0}, semaphore));
  all.push_back(of_redis("semaphore-3c-1f", "the same with a fault", {200, 1}, with_faults(semaphore)));
  all.push_back(of_redis("shared-3c-0f", "a reader, a writer and a reader", {200, 0}, shared));
  all.push_back(of_redis("shared-3c-1f", "the same with a fault", {200, 1}, with_faults(shared)));
}

}  // namespace

scope of_redis(std::string name, std::string words, bounds limits, plan p) {
  auto run = [p = std::move(p)](steps& order, bool traced) {
    in_one_turn = p.steps_in_one_turn;
    world w{p, traced, &order};
    outcome result = outcome_of(w);
    result.trace = w.lines();
    result.scripts = w.executed();
    return result;
  };
  return {std::move(name), std::move(words), limits, std::move(run)};
}

void add_scopes_of_one_server(std::vector<scope>& all) {
  add_mutexes(all);
  add_several_owners(all);
}

}  // namespace conch::sim
