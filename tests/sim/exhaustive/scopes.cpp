#include "sim/exhaustive/scopes.hpp"

#include "sim/exhaustive/small_plans.hpp"

#include <algorithm>
#include <vector>

namespace conch::sim {

namespace {

std::vector<scope> make_scopes() {
  std::vector<scope> all;
  add_scopes_of_one_server(all);
  add_scopes_of_chains(all);
  add_scopes_of_a_cluster(all);
  add_scopes_of_a_quorum(all);
  add_scopes_of_zookeeper(all);
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
