// Small worlds of several independent servers.
#include "sim/exhaustive/small_plans.hpp"
#include "sim/worlds/quorum_world.hpp"

namespace conch::sim {

namespace {

constexpr int servers = 3;

plan of_three(plan p) {
  for (client_plan& c : p.clients) {
    c.settings.claim = c.settings.quorum.vote_claim = std::chrono::milliseconds{200};
    c.settings.quorum.min_validity = std::chrono::milliseconds{5};
    c.settings.quorum.strict_fence = false;
  }
  return p;
}

/// Faults strike one server: to the clients all are alike, but for their numbers.
plan with_faults(plan p) {
  p = with_cuts_and_pauses(std::move(p));
  p.possible.push_back(fault(fault_plan::kind::server_restart, 0, 0, millisecond));
  return p;
}

scope of_quorum(std::string name, std::string words, bounds limits, plan p) {
  return scope_of<quorum_world>(std::move(name), std::move(words), limits, std::move(p), servers);
}

}  // namespace

void add_scopes_of_a_quorum(std::vector<scope>& all) {
  auto const one = [] { return of_three(small_plan({{acquire()}})); };
  auto const two = [] { return of_three(small_plan({{acquire()}, {acquire()}})); };
  auto const and_try = [] { return of_three(small_plan({{acquire()}, {attempt()}})); };
  all.push_back(of_quorum("quorum-1c-0f", "three servers, one client acquires and releases", {200, 0}, one()));
  all.push_back(of_quorum("quorum-1c-1f", "the same with a fault", {200, 1}, with_faults(one())));
  all.push_back(
      of_quorum("quorum-2c-begin", "three servers, two clients: every order of the first steps", {9, 0}, two()));
  all.push_back(
      of_quorum("quorum-try-2c-0f", "three servers, one client acquires, the other tries", {300, 0}, and_try()));
  all.push_back(of_quorum("quorum-2c-0f", "three servers, two clients acquire and release", {300, 0}, two()));
  all.push_back(of_quorum("quorum-2c-1f", "the same with a fault", {300, 1}, with_faults(two())));
}

}  // namespace conch::sim
