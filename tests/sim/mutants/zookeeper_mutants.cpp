// Deliberate faults of a lock that ZooKeeper keeps.
#include "sim/mutants/mutants.hpp"

namespace conch::sim {

namespace {

constexpr mutant mutants_of_zookeeper[] = {
    {"zk-deadline-from-ping", "the deadline is that of the last answered ping", "B1",
     engine_mutant::deadline_from_ping},
    {"zk-deadline-from-write", "the deadline is that of the last write", "B2", engine_mutant::deadline_from_write},
    {"zk-no-session-margin", "a write at once behind the answer to a message proves it", "B1",
     engine_mutant::no_session_margin},
    {"zk-id-over-sessions", "places are kept over the end of their session", "B4", engine_mutant::id_over_sessions},
    {"zk-sequence-as-text", "SEQ is compared as text", "B5", engine_mutant::sequence_as_text},
    {"zk-last-number-is-a-place", "the greatest SEQ is taken for a place in the queue", "B5",
     engine_mutant::last_number_is_a_place},
    {"zk-death-before-is-a-grant", "the node behind one that goes has the lock", "B13",
     engine_mutant::death_before_is_a_grant},
    {"zk-gone-before-watched", "a predecessor that goes between list and watch is not missed", "B7",
     engine_mutant::gone_before_watched},
    {"zk-fence-of-sequence", "the fence is SEQ", "B5", engine_mutant::fence_of_sequence},
    {"zk-try-stays", "a try that finds the lock taken leaves its node", "B3", engine_mutant::try_stays},
    {"zk-lost-creation-forgotten", "a node is not looked for whose creation was not answered", "B3",
     engine_mutant::lost_creation_forgotten},
    {"zk-release-forgotten", "a release is forgotten when its connection ends", "P6",
     engine_mutant::release_forgotten_on_reconnect},
    {"zk-cleanup-not-sent", "what is given up is removed on the next connection only", "P6",
     engine_mutant::cleanup_not_sent},
    {"zk-cleanup-of-earlier-session", "what is owed to a session that is over is sent in the next one", "B4",
     engine_mutant::cleanup_of_earlier_session},
    {"zk-not-watched-again", "an event of another type uses a watch up", "B6", engine_mutant::not_watched_again},
    {"zk-lock-node-written", "the holder writes to its node", "B6", engine_mutant::lock_node_written},
    {"zk-granted-without-proof", "the first node has the lock, even if the deadline has passed", "P3",
     engine_mutant::granted_without_proof},
    {"zk-session-deadline-ignored", "a hold lasts as long as its lease, and a loss is told when the session has ended",
     "B8", engine_mutant::session_deadline_ignored},
    {"zk-resent-release-is-a-loss", "a release that was carried out, and not answered, is told as a loss", "P8",
     engine_mutant::resent_release_is_a_loss},
    {"zk-birth-kept", "an ensemble that was built anew has the birth of the previous one", "B16",
     engine_mutant::birth_kept},
    {"zk-higher-transaction-awaited", "servers that are behind what a client has seen are thought to catch up forever",
     "B16", engine_mutant::higher_transaction_awaited},
    {"zk-watches-thought-kept", "after a reconnect nobody looks whether the predecessor is still there", "B12",
     engine_mutant::watches_thought_kept},
};

// What only locks with several owners show, or several places of one client.
constexpr mutant kinds[] = {
    {"zk-behind-counted", "nodes behind one's own are counted, too", "P4", engine_mutant::behind_counted},
    {"zk-limit-is-the-greatest", "of two limits the greater one counts", "P1", engine_mutant::limit_is_the_greatest},
    {"zk-nearest-watched-only", "of the nodes that keep one out only the nearest is watched", "P4",
     engine_mutant::nearest_watched_only},
    {"zk-one-place-a-path", "of two places that watch a node only one hears of its end", "P4",
     engine_mutant::one_place_a_path},
    {"zk-other-kind-overlooked", "a lock of another kind under the same name is not seen", "P1",
     engine_mutant::other_kind_overlooked},
    {"zk-own-limit-only", "of two limits one's own counts", "P1", engine_mutant::own_limit_only},
    {"zk-owner-elsewhere-overlooked", "an owner waits for itself in another client", "P4",
     engine_mutant::owner_elsewhere_overlooked},
    {"zk-permits-counted-as-nodes", "each node of a semaphore takes one permit, whatever it asks for", "P1",
     engine_mutant::permits_counted_as_nodes},
    {"zk-readers-pass-a-writer", "a reader does not wait for a writer that waits", "P5",
     engine_mutant::readers_pass_a_writer},
    {"zk-ridden-node-kept", "the last of an owner leaves the node in line", "P6", engine_mutant::ridden_node_kept},
    {"zk-rider-ends-node", "the first of an owner that leaves removes the node that others have, too", "P1",
     engine_mutant::rider_ends_node},
    {"zk-rider-granted-first", "a place that shares the node of its owner has the lock before its turn", "P5",
     engine_mutant::rider_granted_first},
    {"zk-rider-not-told", "those that share a node do not hear that it was granted", "P4",
     engine_mutant::rider_not_told},
    {"zk-sibling-is-a-stray", "a place removes the nodes of the other places of its client", "P4",
     engine_mutant::sibling_is_a_stray},
    {"zk-unfound-sibling-is-a-stray",
     "a place removes the node of another place of its client that has not found it yet", "P4",
     engine_mutant::unfound_sibling_is_a_stray},
    {"zk-weight-ahead-forgotten", "the watcher of a node that goes has the lock", "P5",
     engine_mutant::weight_ahead_forgotten},
    {"zk-weight-not-cut", "a request for more than the limit never fits", "P4", engine_mutant::weight_not_cut},
};

// What only minimum intervals show.
constexpr mutant intervals[] = {
    {"zk-interval-not-kept", "no node keeps the lock for the interval", "P14", engine_mutant::interval_not_kept},
    {"zk-interval-granted-early", "a grant with an interval does not wait for the node that keeps the lock", "P14",
     engine_mutant::interval_granted_early},
    {"zk-keep-overlooked", "a node that keeps the lock keeps nobody out", "P14", engine_mutant::keep_overlooked},
    {"zk-keep-of-own-client-overlooked", "a client takes the node of its earlier grant for its own", "P14",
     engine_mutant::keep_of_own_client_overlooked},
    {"zk-granted-without-list", "the end of the last one ahead is the grant, whatever keeps the lock", "P14",
     engine_mutant::granted_without_list},
    {"zk-kept-node-forgotten", "what keeps the lock is known to the one behind it only", "P14",
     engine_mutant::kept_node_forgotten},
    {"zk-keep-removed-on-release", "a release ends the interval", "P14", engine_mutant::keep_removed_on_release},
    {"zk-keep-removed-by-a-waiter", "a waiter does not wait for the end of the interval", "P14",
     engine_mutant::keep_removed_by_a_waiter},
    {"zk-keep-left", "nobody but a waiter removes what keeps the lock", "P6", engine_mutant::keep_left},
    {"zk-end-of-keep-forgotten", "the end of an interval is forgotten with its connection", "P6",
     engine_mutant::end_of_keep_forgotten},
    {"zk-end-told-on", "the end of an interval is taken for a word about what the place asks for now", "P4",
     engine_mutant::end_told_on},
};

}  // namespace

std::span<mutant const> zookeeper_mutants() { return mutants_of_zookeeper; }
std::span<mutant const> zookeeper_kinds_mutants() { return kinds; }
std::span<mutant const> zookeeper_interval_mutants() { return intervals; }

}  // namespace conch::sim
