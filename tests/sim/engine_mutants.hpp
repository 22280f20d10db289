// The points CONCH_MUTANT(name) in src/engine; mutants.cpp says what each does.
#pragma once

#include <cstdint>

namespace conch::sim {

enum class engine_mutant : std::uint8_t {
  none,
  old_connections_live_on,
  cleanups_not_repeated,
  not_asked_again,
  failure_not_cleaned_up,
  no_not_after,
  sample_kept,
  subscribed_last,
  no_command_timeout,
  ticket_forgotten,
  any_answer_counts,
  deadline_from_answer,
  no_drift,
  no_safety_check,
  polls,
  stray_grant_kept,
  claim_from_arrival,
  claim_of_receiver,
  claim_is_lease,
  late_grant_used,
  grant_missed_in_leave,
  no_leave,
  id_used_again,
  lost_is_renewed,
  repeated_release_fails,
  cleanup_not_once_more,
  cleanup_lapses,
  refused_cleanup_dropped,
  no_kick,
  no_timeout,
  cancel_ignored,
  wake_up_swallowed,
  slice_ignored,
  fixed_handed_off,
  fixed_is_renewed,
  no_max_hold,
  loss_told_late,
  margin_above_claim,
  claim_not_confirmed,
  index_starts_anew,
  loss_not_released,
  loss_not_told,
  lease_of_the_next,
  requeued_after_leave,
  renewal_storm,
};

extern thread_local engine_mutant active_engine_mutant;

}  // namespace conch::sim
