#include "sim/mutants/mutants.hpp"

// Faults of chains of waits, and of the search for deadlocks.
namespace conch::sim {

std::span<mutant const> chains_mutants() {
  static mutant const all[] = {
      {"one-look-is-enough", "a circle counts that is seen once", "P15", engine_mutant::one_look_is_enough},
      {"waits-by-its-own-word", "a task counts as waiting that told so, and is not in the queue", "P15",
       engine_mutant::waits_by_its_own_word},
      {"task-of-another-grant", "a hold is taken for that of the task which had the lock before", "P15",
       engine_mutant::task_of_another_grant},
      {"circle-by-the-name-of-its-lock", "a circle closes at a lock that has another holder meanwhile", "P15",
       engine_mutant::circle_by_the_name_of_its_lock},
      {"wait-within-a-client-not-seen", "a task that waits for a lock of its own client counts as working", "P15",
       engine_mutant::wait_within_a_client_not_seen},
      {"oldest-wait-ends", "of a circle the oldest wait ends", "P15", engine_mutant::oldest_wait_ends},
      {"everybody-who-finds-a-circle-ends", "each wait that finds a circle ends", "P15",
       engine_mutant::everybody_who_finds_a_circle_ends},
      {"what-was-told-stays", "what a client told of a wait or a hold outlives it", "P15",
       engine_mutant::what_was_told_stays},
      {"withdrawal-not-repeated", "what a client told stays if the connection ends before it is withdrawn", "P6",
       engine_mutant::withdrawal_not_repeated},
      {"looks-once", "a wait looks for a deadlock only once", "P15", engine_mutant::looks_once},
  };
  return all;
}

}  // namespace conch::sim
