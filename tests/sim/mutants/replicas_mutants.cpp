#include "sim/mutants/mutants.hpp"

#include <algorithm>
#include <vector>

namespace conch::sim {

namespace {

constexpr mutant mutants_of_replicas[] = {
    {"fixed-not-looked-for", "a hold that is not renewed is not asked about at another server", "P9",
     engine_mutant::fixed_not_looked_for},
    {"renewal-shows-no-fence",
     "a renewal does not say which grant it renews: a server that missed it may have given another under the same id",
     "P2", engine_mutant::renewal_shows_no_fence},
    {"lower-epoch-believed", "a Sentinel is believed that does not know of the last failover", "P1",
     engine_mutant::lower_epoch_believed},
    {"one-sentinel-heard", "of the Sentinels only the first is listened to", "P1", engine_mutant::one_sentinel_heard},
    {"role-not-checked", "a server that is a replica is taken for the master", "P4", engine_mutant::role_not_checked},
};

constexpr std::string_view shared_with_one_server[] = {
    "not-renewed-on-reconnect",
    "renewal-by-anybody",
    "place-lost-on-reconnect",
    "ticket-forgotten",
    "replica-not-left",
    "fence-counts-only",
    "replication-stays-off",
    "renewed-at-a-replica",
    // Where roles change and nothing is lost. After a loss nobody knows what the order of the line was (P5), and a
    // waiter may have to wait for its safety check.
    "missed-turn-untold",
    "missed-turn-ignored",
    "nobody-awaited",
    "awaited-at-first-only",
    "awaited-by-connection",
    "awaited-by-question-only",
    "only-the-first-is-told",
    "release-awaits-nobody",
    "acquire-awaits-nobody",
};

// "grant-replicated" did not show in 40,000 schedules: after a change of master scripts first ask which clients are
// subscribed (patient), so that a grant is hardly ever published without a subscriber. It is found in the schedules of
// one server.

constexpr mutant mutants_of_synced[] = {
    {"wait-without-write", "a WAIT behind renewals that may have written nothing: since 7.2 it is answered at once",
     "P3", engine_mutant::wait_without_write},
    {"wait-of-another-batch", "the count of a WAIT is taken for scripts that were written after it", "P3",
     engine_mutant::wait_of_another_batch},
    {"delivered-before-acknowledgement", "a hold is delivered before enough replicas have it", "P3",
     engine_mutant::delivered_before_acknowledgement},
    {"deadline-before-acknowledgement", "a renewal moves the deadline before enough replicas have it", "P3",
     engine_mutant::deadline_before_acknowledgement},
    {"wait-too-short", "a WAIT waits for less time than sync_timeout: replicas that are well have not answered yet",
     "P4", engine_mutant::wait_too_short},
    {"try-waits-for-no-batch", "a try is given back if other locks wait for a WAIT already", "P11",
     engine_mutant::try_waits_for_no_batch},
    {"acknowledgements-not-counted", "the error does not say how many replicas have acknowledged, but 0", "P11",
     engine_mutant::acknowledgements_not_counted},
    {"lease-of-the-grant-renewed",
     "a renewal asks for the lease of the acquire, also when the hold was given another since", "P4",
     engine_mutant::lease_of_the_grant_renewed},
    {"renewals-one-by-one", "each renewal has a WAIT of its own, one after the other", "P9",
     engine_mutant::renewals_one_by_one},
    {"first-connection-stays", "a first connection to what is a replica now does not follow the second one", "P9",
     engine_mutant::first_connection_stays},
};

constexpr mutant mutants_of_synced_permits[] = {
    {"acknowledgements-of-permits-not-counted",
     "the error of a permit does not say how many replicas have acknowledged, but 0", "sr P11",
     engine_mutant::acknowledgements_of_permits_not_counted},
};

}  // namespace

std::span<mutant const> synced_mutants() { return mutants_of_synced; }

std::span<mutant const> synced_permits_mutants() { return mutants_of_synced_permits; }

std::span<mutant const> replicas_mutants() {
  static std::vector<mutant> const all = [] {
    std::vector<mutant> joined(std::begin(mutants_of_replicas), std::end(mutants_of_replicas));
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
