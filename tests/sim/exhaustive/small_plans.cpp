#include "sim/exhaustive/small_plans.hpp"

namespace conch::sim {

namespace {

using kind = fault_plan::kind;

constexpr nanos begins = second;  // by then all are connected, and no timer of that is left
constexpr int bytes_are_lost = 3;

config small_settings() {
  config c;
  c.lease = std::chrono::nanoseconds{lease_of_scopes};
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

}  // namespace

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

plan warmed_up(plan p) {
  nanos when = 100 * millisecond;
  for (client_plan& c : p.clients) {
    for (actor_plan& a : c.actors) {
      operation first = acquire();
      first.think = when;
      a.work.front().think = begins - when;
      a.work.insert(a.work.begin(), std::move(first));
      when += 30 * millisecond;  // not in each other's way
    }
  }
  return p;
}

operation acquire() {
  operation o;
  o.lease = lease_of_scopes;
  o.hold = some_time;
  return o;
}

operation attempt() {
  operation o = acquire();
  o.how = operation::way::attempt;
  return o;
}

operation cancelled() {
  operation o = acquire();
  o.cancel = operation::cancels::total;
  o.cancel_after = some_time;
  return o;
}

operation held_for(nanos how_long) {
  operation o = acquire();
  o.hold = how_long;
  return o;
}

fault_plan fault(kind what, int client, nanos length, nanos length2, int variant) {
  fault_plan f;
  f.what = what;
  f.client = client;
  f.length = length;
  f.length2 = length2;
  f.variant = variant;
  return f;
}

std::vector<fault_plan> cuts(int client, int server) {
  std::vector<fault_plan> all{
      fault(kind::cut, client, longest_way, longest_way, bytes_are_lost),
      fault(kind::cut, client, longest_way, longest_way),  // what is under way arrives
      // the server does not notice
      fault(kind::cut, client, longest_way, 2 * lease_of_scopes, bytes_are_lost),
  };
  for (fault_plan& f : all) f.name = server;
  return all;
}

void add(std::vector<fault_plan>& all, std::vector<fault_plan> some) {
  all.insert(all.end(), some.begin(), some.end());
}

plan with_cuts_and_pauses(plan p, nanos pause) {
  for (int client = 0; client < static_cast<int>(p.clients.size()); ++client) {
    add(p.possible, cuts(client));
    p.possible.push_back(fault(kind::pause, client, pause));
  }
  return p;
}

}  // namespace conch::sim
