// Breaks each rule of src/rules, L1 to L7, on purpose: it must be noticed from what a lock is after a request, and from
// what clients are told. Without a fault nothing may be.

#include <gtest/gtest.h>

#include "engine_mutants.hpp"  // made by conch-overlay

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "sim/differential/random_client_side.hpp"
#include "sim/differential/random_permits.hpp"
#include "sim/differential/rules_server.hpp"
#include "sim/judges/observer.hpp"

namespace conch::sim {
namespace {

using owner_fences = std::map<std::string, std::int64_t>;

/// Looks at one lock before and after a command.
class judge_of_rules {
 public:
  judge_of_rules(rules::lock const& l, std::int64_t now)
      : owners_before_{fences_of(l)},
        fence_before_{l.fence},
        now_{now} {
    if (!l.owners.empty() && l.kind == engine::permit_kind::reentrant) whose_before_ = l.whose;
  }

  /// Which rule is broken now. Empty: none.
  std::string broken(rules::lock const& l, protocol::command const& c, std::string const& client,
                     rules_server::outcome const& seen) const {
    std::string found = rules::broken_rule(l, now_, passes_on(c, seen.reply));
    if (found.empty() && !is_adoption(c)) found = of_new_owners(l, c, client, seen);
    if (found.empty()) found = of_line(l, c, seen.reply);
    return found;
  }

 private:
  static owner_fences fences_of(rules::lock const& l) {
    owner_fences all;
    for (auto const& [number, o] : l.owners) all[o.who.text] = o.fence;
    return all;
  }

  static bool is_adoption(protocol::command const& c) {
    auto const* const a = std::get_if<protocol::acquire_command>(&c);
    return a != nullptr && !a->origin.empty();
  }

  static bool passes_on(protocol::command const& c, any_reply const& reply) {
    if (reply.index() == 0) return false;  // refused: the lock is of another kind
    auto const* const r = std::get_if<protocol::release_command>(&c);
    return std::holds_alternative<protocol::limit_command>(c) || (r != nullptr && !r->patient);
  }

  /// The clients that the answer, or a push, tells that they have the lock.
  static std::set<std::string> told(protocol::command const& c, std::string const& client,
                                    rules_server::outcome const& seen) {
    std::set<std::string> all;
    for (seen_grant const& g : seen.pushes) {
      if (g.fence > 0) all.insert(g.client + '.' + engine::to_text(g.id));
    }
    using kind = protocol::acquire_reply::kind;
    auto const* const acquired = std::get_if<protocol::acquire_reply>(&seen.reply);
    auto const* const released = std::get_if<protocol::release_reply>(&seen.reply);
    auto const* const tried = std::get_if<protocol::tries_reply>(&seen.reply);
    if (acquired != nullptr && acquired->what == kind::granted)
      all.insert(client + '.' + engine::to_text(std::get<protocol::acquire_command>(c).id));
    if (released != nullptr && released->again.what == kind::granted)
      all.insert(client + '.' + engine::to_text(std::get<protocol::release_command>(c).new_id));
    for (std::size_t i = 0; tried != nullptr && i < tried->fences.size(); ++i)
      all.insert(client + '.' + engine::to_text(std::get<protocol::acquire_all_command>(c).items[i].id));
    return all;
  }

  std::string of_new_owners(rules::lock const& l, protocol::command const& c, std::string const& client,
                            rules_server::outcome const& seen) const {
    auto const were_told = told(c, client, seen);
    std::int64_t retention = 0;
    std::visit(
        [&](auto const& one) {
          if constexpr (requires { one.retention; }) retention = one.retention.count();
        },
        c);
    std::set<std::int64_t> fences;
    for (auto const& [id, fence] : fences_of(l)) {
      if (!fences.insert(fence).second) return "L3: two owners have one fence";
      auto const before = owners_before_.find(id);
      if (before != owners_before_.end() && before->second == fence) continue;
      if (fence <= fence_before_ || fence > l.fence) return "L3: a new owner has not the greatest fence";
      if (!were_told.contains(id)) return "L4: an owner that was not told";
      if (l.fence_kept < now_ + retention * 1000) return "L7: a fence is kept for less than the retention";
      auto const* const a = std::get_if<protocol::acquire_command>(&c);
      bool const by_answer = a != nullptr && id == client + '.' + engine::to_text(a->id);
      if (by_answer && whose_before_ && a->permit->detail != *whose_before_ && l.owners.size() > 1)
        return "L2: owners of a reentrant lock belong to two";
    }
    return {};
  }

  std::string of_line(rules::lock const& l, protocol::command const& c, any_reply const& reply) const {
    auto const* const a = std::get_if<protocol::acquire_command>(&c);
    auto const* const r = std::get_if<protocol::acquire_reply>(&reply);
    if (a == nullptr || r == nullptr || r->what != protocol::acquire_reply::kind::queued) return {};
    std::int64_t last_end = now_;
    for (auto const& [number, o] : l.owners) last_end = std::max(last_end, o.ends);
    bool const is_too_short = l.line_kept + 2000 < last_end + a->lease.count() * 1000;
    return is_too_short ? "L6: the queue is kept for less than the present leases and that of its last waiter" : "";
  }

  owner_fences const owners_before_;
  std::int64_t const fence_before_;
  std::int64_t const now_;
  std::optional<std::string> whose_before_;
};

/// The first violation in this many random commands.
template <class Side>
std::string first_noticed(std::uint64_t seed, int steps) {
  Side side{seed, {.near_2020 = seed % 3 == 0}};
  rules_server server;
  std::set<std::string> listening;
  auto const change = [&](std::string const& client) {
    bool const on = listening.insert(client).second;
    if (!on) listening.erase(client);
    server.subscribe(client, on);
  };
  for (std::string const& client : side.clients()) change(client);
  for (int step = 0; step < steps; ++step) {
    side.step();
    server.at(side.now());
    std::string const client = side.client();
    if (side.rarely()) change(client);
    protocol::command const c = side.command(client);
    std::string name;
    std::visit(
        [&](auto const& one) {
          if constexpr (requires { one.name; }) name = one.name;
        },
        c);
    judge_of_rules const judge{server.locks[name], side.now()};
    auto const seen = server.carry_out(c, client);
    std::string const found = name.empty() ? "" : judge.broken(server.locks[name], c, client, seen);
    if (!found.empty()) return found + ", at step " + std::to_string(step);
  }
  return {};
}

std::string first_noticed() try {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    if (auto found = first_noticed<random_client_side>(seed, 4000); !found.empty()) return found;
    if (auto found = first_noticed<random_permits>(seed, 4000); !found.empty()) return found;
  }
  return {};
} catch (violation const& e) {  // an assertion of the rules
  constexpr std::string_view begins = "assertion: ";
  std::string const words = e.what();
  return words.starts_with(begins) ? words.substr(begins.size()) : words;
}

struct fault_of_rules {
  std::string_view rule;
  engine_mutant what;
};

class RulesFaults : public testing::TestWithParam<fault_of_rules> {
 protected:
  ~RulesFaults() override { active_engine_mutant = engine_mutant::none; }
};

TEST_P(RulesFaults, AreNoticedOnPurpose) {
  active_engine_mutant = GetParam().what;
  std::string const found = first_noticed();
  EXPECT_EQ(found.substr(0, 2), GetParam().rule) << found;
}

INSTANTIATE_TEST_SUITE_P(OfEachRule, RulesFaults,
                         testing::Values(fault_of_rules{"L1", engine_mutant::l1_more_than_there_is},
                                         fault_of_rules{"L2", engine_mutant::l2_segment_counts_as_free},
                                         fault_of_rules{"L2", engine_mutant::l2_owner_joins_another},
                                         fault_of_rules{"L3", engine_mutant::l3_fence_by_the_clock},
                                         fault_of_rules{"L3", engine_mutant::l3_same_fence_again},
                                         fault_of_rules{"L4", engine_mutant::l4_deaf_owner},
                                         fault_of_rules{"L5", engine_mutant::l5_nothing_passed_on},
                                         fault_of_rules{"L5", engine_mutant::l5_last_one_stays_free},
                                         fault_of_rules{"L6", engine_mutant::l6_line_kept_without_need},
                                         fault_of_rules{"L6", engine_mutant::l6_line_kept_too_short},
                                         fault_of_rules{"L7", engine_mutant::l7_fence_kept_too_short},
                                         fault_of_rules{"L7", engine_mutant::l7_fence_behind_the_clock}));

TEST(RulesWithoutFaults, BreakNoRule) { EXPECT_EQ(first_noticed(), ""); }

}  // namespace
}  // namespace conch::sim
