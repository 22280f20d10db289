#include "sim/mutants/mutants.hpp"

// Faults of the delay after a loss.
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
  };
  return all;
}

}  // namespace conch::sim
