#include "sim/mutants/mutants.hpp"

// Faults of the delay after a loss, and of the minimum interval between grants.
namespace conch::sim {

std::span<mutant const> delays_mutants() {
  static mutant const all[] = {
      {"delay-not-asked-for", "the server is asked to keep a lock for the lease alone", "P13",
       engine_mutant::delay_not_asked_for},
      {"delay-of-renewals-forgotten", "the server is asked for the delay by the acquire alone", "P13",
       engine_mutant::delay_of_renewals_forgotten},
      {"deadline-counts-the-delay", "a holder believes in its lock for the delay as well", "P3",
       engine_mutant::deadline_counts_the_delay},
      {"pushed-claim-without-delay", "a claim, which ends without a delay, is delivered", "P13",
       engine_mutant::pushed_claim_without_delay},
      {"delay-cleaned-up", "a lock that was lost is given back", "P13", engine_mutant::delay_cleaned_up},
      {"late-release-ends-the-delay", "a release after the loss was reported gives the lock back", "P13",
       engine_mutant::late_release_ends_the_delay},
      {"interval-not-asked-for", "the server is asked to keep a grant for its lease alone", "P14",
       engine_mutant::interval_not_asked_for},
      {"pushed-claim-without-interval", "a claim, which ends without an interval, is delivered", "P14",
       engine_mutant::pushed_claim_without_interval},
      {"released-within-the-interval", "a release within the interval frees the lock", "P14",
       engine_mutant::released_within_the_interval},
      {"rest-of-the-interval-cut", "a release leaves a quarter of the lease, where more is left of the interval", "P14",
       engine_mutant::rest_of_the_interval_cut},
      {"interval-ends-with-the-connection", "a release without a connection forgets the interval", "P14",
       engine_mutant::interval_ends_with_the_connection},
      {"interval-of-a-hand-over-forgotten", "a lock is handed on in memory within the interval", "P14",
       engine_mutant::interval_of_a_hand_over_forgotten},
      {"interval-begins-with-a-hand-over", "one that is handed the lock in memory has no interval", "P14",
       engine_mutant::interval_begins_with_a_hand_over},
      {"interval-counts-from-the-question", "the interval counts from when the lock was asked for", "P14",
       engine_mutant::interval_counts_from_the_question},
      {"interval-of-a-lost-hold-forgotten", "the end of a lost hold ends the interval", "P14",
       engine_mutant::interval_of_a_lost_hold_forgotten},
      {"renewal-shortens-the-interval", "a renewal makes the lease what it asks for", "P8", engine_mutant::none,
       "renew", "lease, 'GT'", "lease"},
      {"half-of-the-rest", "the script of a release within the interval leaves half of what it is told", "P14",
       engine_mutant::none, "release_later", "redis.call('PEXPIRE', lock_key, ends_in)",
       "redis.call('PEXPIRE', lock_key, math.ceil(ends_in / 2))"},
  };
  return all;
}

}  // namespace conch::sim
