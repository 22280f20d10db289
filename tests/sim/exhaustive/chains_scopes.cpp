// Small worlds of tasks that wait for each other's locks, and look for deadlocks.
#include "sim/exhaustive/small_plans.hpp"

#include <algorithm>

namespace conch::sim {

namespace {

constexpr nanos lease = 30 * second;  // no renewal is due while they look
constexpr nanos stop = 5 * second;    // past a lease it would be half a minute; this lets the others finish meanwhile
constexpr nanos when_they_look = 1 * second;  // about that long after they began to wait

operation under(int outer, int inner) {
  operation o = acquire();
  o.lease = lease;
  o.name = outer;
  o.inner = inner;
  o.inner_waits = true;
  return o;
}

/// It has both for so long that the others look while it releases.
operation long_under(int outer, int inner) {
  operation o = under(outer, inner);
  o.hold = when_they_look * 4 / 5;  // the second is asked for after a quarter of that
  return o;
}

/// Its wait for the second is cancelled while they look.
operation cancelled_under(int outer, int inner) {
  operation o = under(outer, inner);
  o.cancel = operation::cancels::total;
  o.cancel_after = when_they_look + 2 * longest_way;
  return o;
}

plan of_tasks(std::vector<std::vector<operation>> programs) {
  plan p = small_plan(std::move(programs));
  p.chains = true;
  p.names = 1;
  for (client_plan& c : p.clients) {
    c.settings.lease = std::chrono::nanoseconds{lease};
    c.settings.renew_every = c.settings.lease / 3;
    c.settings.label = "";
    c.settings.detect_deadlocks = true;
    for (operation const& o : c.actors.front().work) p.names = std::max({p.names, o.name + 1, o.inner + 1});
  }
  return p;
}

/// All tasks are of one client.
plan of_one_client(plan p) {
  while (p.clients.size() > 1) {
    p.clients.front().actors.push_back(std::move(p.clients.back().actors.front()));
    p.clients.pop_back();
  }
  return p;
}

}  // namespace

void add_scopes_of_chains(std::vector<scope>& all) {
  auto const two = [] { return of_tasks({{under(0, 1)}, {under(1, 0)}}); };
  all.push_back(of_redis("chains-1c-0f", "two tasks of a client take two locks in opposite orders", {400, 0},
                         of_one_client(two())));
  all.push_back(of_redis("chains-2c-0f", "the same, each in a client of its own", {400, 0}, two()));
  all.push_back(of_redis("chains-2c-1f", "the same, and a connection is cut or a client is paused", {400, 1},
                         with_cuts_and_pauses(two(), stop)));
  all.push_back(of_redis("chains-same-2c-0f", "two take two locks in the same order, and one looks for a deadlock",
                         {400, 0}, of_tasks({{long_under(0, 1)}, {under(0, 1)}})));
  all.push_back(of_redis("chains-cancel-2c-0f", "a circle of two ends by a cancellation while they look", {400, 0},
                         of_tasks({{under(0, 1)}, {cancelled_under(1, 0)}})));
  all.push_back(of_redis("chains-3c-0f", "three clients take three locks in a circle", {600, 0},
                         of_tasks({{under(0, 1)}, {under(1, 2)}, {under(2, 0)}})));
}

}  // namespace conch::sim
