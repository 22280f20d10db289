#include "sim/mutants/mutants.hpp"

#include <algorithm>
#include <vector>

namespace conch::sim {

namespace {

constexpr mutant mutants[] = {
    {"fixed-not-looked-for", "a hold that is not renewed is not asked about at another server", "P9", engine_mutant::fixed_not_looked_for},
    {"renewal-shows-no-fence", "a renewal does not say which grant it renews: a server that missed it may have given another under the same id", "P2",
     engine_mutant::renewal_shows_no_fence},
    {"lower-epoch-believed", "a Sentinel is believed that does not know of the last failover", "P1", engine_mutant::lower_epoch_believed},
    {"one-sentinel-heard", "of the Sentinels only the first is listened to", "P1", engine_mutant::one_sentinel_heard},
    {"role-not-checked", "a server that is a replica is taken for the master", "P4", engine_mutant::role_not_checked},
};

// Not among them is what shows only where roles change without a loss (make_regroup in plan_rare.cpp). "missed-turn-untold" and
// "missed-turn-ignored": after a loss a waiter may have to wait for its safety check, which finds the replica. "nobody-awaited",
// "awaited-at-first-only", "only-the-first-is-told", "release-awaits-nobody" and "acquire-awaits-nobody": after a loss nobody knows what the order
// of the line was (P5). "grant-replicated" did not show in 20,000 schedules, not even where each push at a replica was looked at: after a change
// of master scripts ask first who hears (patient), so that hardly ever a grant is published that nobody hears.
constexpr std::string_view shared_with_one_server[] = {
    "not-renewed-on-reconnect", "renewal-by-anybody", "place-lost-on-reconnect", "ticket-forgotten",
    "replica-not-left",         "fence-counts-only",  "replication-stays-off",   "renewed-at-a-replica",
};

constexpr mutant mutants_of_synced[] = {
    {"wait-without-write", "a WAIT behind renewals that may have written nothing: since 7.2 it is answered at once", "P3",
     engine_mutant::wait_without_write},
    {"wait-of-another-batch", "the count of a WAIT is taken for scripts that were written after it", "P3", engine_mutant::wait_of_another_batch},
    {"delivered-before-acknowledgement", "a hold is delivered before enough replicas have it", "P3", engine_mutant::delivered_before_acknowledgement},
    {"deadline-before-acknowledgement", "a renewal moves the deadline before enough replicas have it", "P3",
     engine_mutant::deadline_before_acknowledgement},
};

}  // namespace

std::span<mutant const> synced_mutants() { return mutants_of_synced; }

std::span<mutant const> replicas_mutants() {
  static std::vector<mutant> const all = [] {
    std::vector<mutant> joined(std::begin(mutants), std::end(mutants));
    for (std::string_view const name : shared_with_one_server) {
      auto const of_all = all_mutants();
      auto const found = std::find_if(of_all.begin(), of_all.end(), [&](mutant const& m) { return m.name == name; });
      if (found != of_all.end()) joined.push_back(*found);
    }
    return joined;
  }();
  return all;
}

}  // namespace conch::sim
