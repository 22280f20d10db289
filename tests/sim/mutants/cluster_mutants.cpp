#include "sim/mutants/mutants.hpp"

// Faults of a Cluster: src/protocol/sharded, src/protocol/server/moves, src/servers/redis/topology/cluster, and the
// rest of a node's connection.
namespace conch::sim {

std::span<mutant const> cluster_mutants() {
  static mutant const all[] = {
      {"release-follows-ask", "a release goes to the future master of the slot, where nobody listens yet", "P5",
       engine_mutant::release_follows_ask},
      {"ask-changes-the-map", "a client that is sent to another node once goes there from then on", "P9",
       engine_mutant::ask_changes_the_map},
      {"try-again-is-a-refusal", "what a node puts off whose slot is on its way counts as refused", "P11",
       engine_mutant::try_again_is_a_refusal},
      {"slot-subscribed-last", "a client listens to a slot behind the first acquire there", "P4",
       engine_mutant::slot_subscribed_last},
      {"channel-without-node",
       "the channel of a slot does not name its node: a subscriber at another node receives, and is not counted", "P4",
       engine_mutant::channel_without_node},
      {"ids-of-each-server", "each server of a client counts ids for itself: two locks have the same", "P8",
       engine_mutant::ids_of_each_server},
      {"cleanups-stay", "what is to be given back stays with the former owner of its slot", "P6",
       engine_mutant::cleanups_stay},
      {"tickets-dropped-at-a-move", "a waiter queues anew where its slot is now", "P5",
       engine_mutant::tickets_dropped_at_a_move},
      {"moved-holds-not-verified", "holds are not asked about where their slot is now", "P9",
       engine_mutant::moved_holds_not_verified},
      {"renewals-not-behind-ask", "a hold is not renewed while its key is elsewhere already", "P9",
       engine_mutant::renewals_not_behind_ask},
      {"ended-subscription-ignored", "a node ends a subscription, and nobody asks it once more", "P4",
       engine_mutant::ended_subscription_ignored},
  };
  return all;
}

}  // namespace conch::sim
